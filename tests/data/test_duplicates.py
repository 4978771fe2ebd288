"""The duplicates index: as right as a set, and as small as it says."""

from __future__ import annotations

import numpy as np
import pytest

from regard.data.duplicates import Duplicates, Seen


@pytest.mark.parametrize("chunk", [1, 7, 100, 3000])
def test_the_index_agrees_with_a_set_whatever_the_chunks(chunk: int) -> None:
    keys = np.random.default_rng(1).integers(0, 1500, size=3000).astype(np.uint64)
    index, seen, expected = Seen(), set[int](), []
    for key in keys.tolist():
        expected.append(key not in seen)
        seen.add(key)
    found = np.concatenate([index.add(keys[start : start + chunk]) for start in range(0, len(keys), chunk)])
    assert found.tolist() == expected
    assert len(index) == len(seen)


def test_the_index_takes_eight_bytes_a_key_and_few_arrays() -> None:
    index, n = Seen(), 200_000
    keys = np.random.default_rng(1).permutation(n).astype(np.uint64)
    for start in range(0, n, 1000):
        assert index.add(keys[start : start + 1000]).all()
    assert sum(run.nbytes for run in index.runs) == 8 * n
    assert 8 * n <= index.peak_bytes <= 20 * n
    assert len(index.runs) < 10


def test_the_largest_keys_are_keys_too() -> None:
    index = Seen()
    keys = np.array([2**64 - 1, 0, 2**63, 2**64 - 1], dtype=np.uint64)
    assert index.add(keys).tolist() == [True, True, True, False]
    assert not index.add(keys).any()
    assert index.add(np.array([], dtype=np.uint64)).tolist() == []


def judge(mode: str, limit: int, pairs: list[tuple[int, int, int]]) -> dict[str, list[int]]:
    """Reasons by (exact, near pair, near source) keys, two pairs at a time."""
    duplicates, found = Duplicates(mode, limit), dict[str, list[int]]()
    for start in range(0, len(pairs), 2):
        columns = (np.array(column, dtype=np.uint64) for column in zip(*pairs[start : start + 2], strict=True))
        for reason, mask in duplicates.reasons(*columns).items():
            found.setdefault(reason, []).extend((start + np.flatnonzero(mask)).tolist())
    return found


PAIRS = [(1, 10, 100), (2, 10, 100), (1, 10, 100), (3, 30, 100), (4, 40, 100), (5, 50, 200)]


def test_exact_and_near_duplicates_are_told_apart() -> None:
    assert judge("near", 0, PAIRS) == {"exact duplicate": [2], "near duplicate": [1]}
    assert judge("exact", 0, PAIRS) == {"exact duplicate": [2]}
    assert judge("off", 0, PAIRS) == {}


def test_a_source_keeps_so_many_targets_and_dropped_pairs_do_not_count() -> None:
    assert judge("near", 1, PAIRS)["targets"] == [3, 4]
    assert judge("near", 2, PAIRS)["targets"] == [4]
    assert judge("near", 3, PAIRS)["targets"] == []
    assert judge("off", 2, PAIRS) == {"targets": [2, 3, 4]}
