"""What the profile says of a GPU that waits."""

from __future__ import annotations

from benchmarks.profiling import Pause, Span, extent, page, pauses


def test_pauses_are_between_the_end_of_all_kernels_so_far_and_the_next() -> None:
    spans = [Span(13.0, 14.0, "d"), Span(10.0, 10.5, "a"), Span(10.1, 11.0, "b"), Span(10.2, 10.4, "c")]
    assert pauses(spans) == [Pause(start=1.0, ms=2.0, after="b", before="d")]
    assert pauses([]) == []


def test_the_longest_come_first_and_short_ones_do_not_count() -> None:
    spans = [Span(0.0, 1.0, "a"), Span(1.01, 2.0, "b"), Span(3.0, 4.0, "c"), Span(9.0, 9.5, "d")]
    assert [(pause.ms, pause.before) for pause in pauses(spans)] == [(5.0, "d"), (1.0, "c")]


def test_what_was_done_lasted_from_the_first_beginning_to_the_last_end() -> None:
    assert extent([Span(13.0, 14.0, "c"), Span(10.0, 18.5, "a"), Span(10.1, 11.0, "b")]) == 8.5
    assert extent([]) == 0.0


def test_the_page_has_them_and_says_of_how_many_times() -> None:
    waits = [Pause(1.0, 2.0, "an|end", "a start")._asdict()]
    found = {"wall_ms": 14.0, "groups": {"other": 12.0}, "top": [], "device": "cuda"}
    once = page({**found, "pauses": waits, "span_ms": 13.5, "times": 1}, "title")
    assert "From the first kernel to the last: 13.5 ms, 2.0 of them in 1 pause of" in once
    assert "| 1.0 | 2.00 | `an\\|end` | `a start` |" in once
    assert "to the last, 6 times: 81.0 ms" in page({**found, "pauses": waits, "span_ms": 81.0, "times": 6}, "title")
