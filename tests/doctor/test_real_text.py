"""Multi30k, real text as good as there is, is passed in silence, and a fault planted in it is found.

Looks for it in the folder that REGARD_SHARED_DATA names, or beside the repository.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard.data.files import read_lines
from regard.doctor.alignment import alignment, learn
from regard.doctor.examine import examine
from regard.doctor.texts import Bitext, Side

ROOT = Path(os.environ.get("REGARD_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
MULTI30K = ROOT / "multi30k"
NAMES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}

pytestmark = pytest.mark.skipif(not MULTI30K.is_dir(), reason="Multi30k is not here: set REGARD_SHARED_DATA")


OTHERS = [("raw", "fr"), ("raw", "cs"), ("tok", "de"), ("tok", "fr"), ("tok", "cs")]
CASES = [("raw", "de"), *(pytest.param(*case, marks=pytest.mark.soak) for case in OTHERS)]


@pytest.mark.parametrize(("kind", "language"), CASES)
def test_multi30k_is_passed_in_silence(kind: str, language: str) -> None:
    pattern = "{}.{}.gz" if kind == "raw" else "tok/{}.lc.norm.tok.{}.xz"
    files = {
        split: (MULTI30K / pattern.format(name, "en"), MULTI30K / pattern.format(name, language))
        for split, name in NAMES.items()
    }
    found = examine(None, files, ("en", language))
    assert not [(finding.code, finding.what) for finding in found if finding.severity != "note"]


def test_a_shift_of_a_few_lines_in_real_text_is_found_where_it_is() -> None:
    sides = [list(read_lines(MULTI30K / f"train.{language}.gz"))[:4_000] for language in ("en", "de")]
    sides[1].insert(2_000, "Zwei Hunde spielen im Schnee.")
    del sides[1][2_008]
    text = Bitext("train", Side("en", sides[0]), Side("de", sides[1]))
    found = [finding for finding in alignment(text, learn(text)) if finding.severity == "error"]
    assert [finding.code for finding in found] == ["shifted"]
    (first, last), *more = found[0].where.spans
    assert not more
    assert abs(first - 2_001) <= 1
    assert abs(last - 2_008) <= 1
