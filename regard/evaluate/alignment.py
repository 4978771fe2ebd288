"""Word alignments against the truth: alignment error rate (Och and Ney 2003).

    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

Here every true link is sure, so S = P and the rate is one minus the F-measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from regard.evaluate.bleu import Score

Links = Iterable[tuple[int, int]]


def alignment_error_rate(found: Sequence[Links], truth: Sequence[Links]) -> Score:
    """In percent, over all sentences together; 0 is perfect."""
    common = total = 0
    for ours, theirs in zip(found, truth, strict=True):
        a, s = set(ours), set(theirs)
        common += len(a & s)
        total += len(a) + len(s)
    return Score("alignment error rate", 100.0 * (1 - 2 * common / total) if total else 0.0)
