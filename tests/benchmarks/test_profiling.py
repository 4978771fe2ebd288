"""What the profile says of a GPU that waits."""

from __future__ import annotations

from benchmarks.profiling import Pause, Span, page, pauses


def test_pauses_are_between_the_end_of_all_kernels_so_far_and_the_next() -> None:
    spans = [Span(13.0, 14.0, "d"), Span(10.0, 10.5, "a"), Span(10.1, 11.0, "b"), Span(10.2, 10.4, "c")]
    assert pauses(spans) == [Pause(start=1.0, ms=2.0, after="b", before="d")]
    assert pauses([]) == []


def test_the_longest_come_first_and_short_ones_do_not_count() -> None:
    spans = [Span(0.0, 1.0, "a"), Span(1.01, 2.0, "b"), Span(3.0, 4.0, "c"), Span(9.0, 9.5, "d")]
    assert [(pause.ms, pause.before) for pause in pauses(spans)] == [(5.0, "d"), (1.0, "c")]


def test_the_page_has_them() -> None:
    waits = [Pause(1.0, 2.0, "an|end", "a start")._asdict()]
    found = {"wall_ms": 14.0, "groups": {"other": 12.0}, "top": [], "device": "cuda", "pauses": waits, "span_ms": 13.5}
    shown = page(found, "title")
    assert "first kernel to the last: 13.5 ms, 2.0 of them in 1 pauses" in shown
    assert "| 1.0 | 2.00 | `an\\|end` | `a start` |" in shown
