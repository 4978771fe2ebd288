"""The older BLEUs: computed as by hand, of text prepared as in the papers, and labelled."""

from __future__ import annotations

import gzip
import lzma
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.data.moses import is_tokenised, moses_rules
from regard.errors import RegardError
from regard.evaluate.literature import (
    COMPOUND_SPLIT,
    TOKENISED_LOWERCASE,
    multi_bleu,
    prepare,
    split_compounds,
)  # fmt: skip
from regard.evaluate.texts import judge

MULTI30K = Path(os.environ.get("REGARD_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data")) / "multi30k"
multi30k = pytest.mark.skipif(not MULTI30K.is_dir(), reason="the Multi30k files are not here")


def test_multi_bleu_by_hand() -> None:
    hypotheses = ["the cat sat on the mat", "a dog barks"]
    references = ["the cat is on the mat", "a dog barks at night"]
    # 1-grams: the(2) cat on mat of 6, a dog barks of 3 = 8/9; 2-grams: "the cat" "on the" "the mat" of 5, both of 2
    # = 5/7; 3-grams: "on the mat" of 4, "a dog barks" of 1 = 2/5; 4-grams: none of 3.
    score = multi_bleu(hypotheses, references)
    assert score.precisions == pytest.approx((800 / 9, 500 / 7, 40.0, 0.0))
    assert score.value == 0.0  # without smoothing
    assert (score.hypothesis_length, score.reference_length) == (9, 11)
    assert score.brevity_penalty == pytest.approx(math.exp(1 - 11 / 9))


def test_multi_bleu_of_all_orders_and_of_several_references() -> None:
    hypotheses = ["one two three four five six"]
    first, second = ["one two three four five seven eight"], ["one two three four six"]
    # 5/6, 4/5, 3/4, 2/3: their product is 1/3; one token short of seven.
    assert multi_bleu(hypotheses, first).value == pytest.approx(100 * (1 / 3) ** 0.25 * math.exp(1 - 7 / 6))
    both = multi_bleu(hypotheses, first, second)
    assert both.precisions[0] == pytest.approx(100)  # "six" stands in the second
    assert both.reference_length == 5  # of two equally close lengths the shorter


def test_compounds_are_split_as_the_script_does() -> None:
    assert split_compounds("rich-text format") == "rich ##AT##-##AT## text format"
    assert split_compounds("Nord-Süd-Dialog - oder") == "Nord ##AT##-##AT## Süd ##AT##-##AT## Dialog - oder"
    assert split_compounds("a-b-c") == "a ##AT##-##AT## b-c"  # a pattern's match ends with b, as in Perl
    assert split_compounds("-5 und E- und U-") == "-5 und E- und U-"


def test_text_is_normalised_tokenised_and_lower_cased() -> None:
    texts, signature = prepare([["„Hallo“, sagte Dr. Groß."]], TOKENISED_LOWERCASE, "de", already=False)
    assert texts == [["&quot; hallo &quot; , sagte dr. groß ."]]
    assert signature == {"case": "lc", "tok": "moses-de-normalised"}
    texts, signature = prepare([["Der Nord-Süd-Dialog, oder?"]], COMPOUND_SPLIT, "de", already=False)
    assert texts == [["Der Nord ##AT##-##AT## Süd ##AT##-##AT## Dialog , oder ?"]]
    assert signature == {"case": "mixed", "tok": "moses-de", "compounds": "split"}


def test_text_that_is_tokenised_already_keeps_its_tokens() -> None:
    tokenised = ["ein mann , der &quot; kids &quot; sagt .", "z.b. ein hund .", "zwei katzen ."]
    assert is_tokenised(tokenised)
    assert not is_tokenised(["Ein Mann, der „Kids“ sagt.", "Zum Beispiel ein Hund.", "Und so weiter ..."])
    assert not is_tokenised(["no mark at all", ""])
    texts, signature = prepare([["nichts als Worte"], tokenised], TOKENISED_LOWERCASE, "", already=True)
    assert texts == [["nichts als worte"], tokenised]  # no rules were needed, so no language
    assert signature["tok"] == "as-given"


def test_compound_split_text_keeps_its_quotation_marks() -> None:
    """As get_ende_bleu.sh, which tokenises and splits, and normalises nothing."""
    texts, _ = prepare([["„Hallo“, sagte er."]], COMPOUND_SPLIT, "de", already=False)
    assert texts == [["„ Hallo “ , sagte er ."]]


def test_the_line_says_that_it_is_no_sacrebleu_and_how_long_the_texts_are() -> None:
    reference = ["Der alte Hund schläft heute im Garten."] * 3
    score = judge(reference, [reference], styles=[TOKENISED_LOWERCASE], language="de").scores[-1]
    assert str(score).startswith(
        "tokenised lower-cased BLEU (older literature; not comparable with sacreBLEU) = 100.00, "
        "100.0/100.0/100.0/100.0 (BP = 1.000, ratio = 1.000, hypothesis 24 tokens, reference 24 tokens)"
    )
    assert "case:lc" in score.signature
    assert "smooth:none" in score.signature


def test_a_missing_language_or_package_gets_a_sentence() -> None:
    with pytest.raises(RegardError, match="--language de"):
        moses_rules("")
    code = """
import sys
sys.modules["sacremoses"] = None  # what an import finds where the package is not installed
from regard.errors import RegardError
from regard.evaluate.literature import moses_rules
try:
    moses_rules("de")
except RegardError as error:
    print(error)
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 'pip install "regard[corpora]"' in printed


@multi30k
@pytest.mark.parametrize(("language", "tokens"), [("de", 12_103), ("en", 12_968)])
def test_multi30k_is_tokenised_as_its_authors_did(language: str, tokens: int) -> None:
    """Raw text comes out as the published tokenised file, which stays as it is: 12,103 tokens of German."""
    raw = gzip.decompress((MULTI30K / f"test_2016_flickr.{language}.gz").read_bytes()).decode()
    packed = (MULTI30K / "tok" / f"test_2016_flickr.lc.norm.tok.{language}.xz").read_bytes()
    published = lzma.decompress(packed).decode().rstrip("\n").split("\n")
    (text,), _ = prepare([raw.rstrip("\n").split("\n")], TOKENISED_LOWERCASE, language, already=False)
    (kept,), _ = prepare([published], TOKENISED_LOWERCASE, language, is_tokenised(published))
    assert text == kept == published
    score = multi_bleu(text, kept, samples=0)
    assert (score.value, score.reference_length) == (pytest.approx(100), tokens)
