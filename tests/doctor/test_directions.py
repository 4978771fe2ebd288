"""Texts that go the wrong way, or are in another language than was thought."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.doctor.examine import examine
from regard.doctor.findings import Finding

FRENCH = ["Le vieux chien est dans la maison avec les enfants.", "Elle ne dort pas et il est avec nous pour la nuit."]


def examined(
    folder: Path, texts: dict[str, tuple[Path, Path]], languages: tuple[str, ...] = ()
) -> tuple[dict[str, tuple[Path, Path]], list[Finding]]:
    """Under names that tell nothing."""
    files = {split: (folder / f"{split}.1", folder / f"{split}.2") for split in texts}
    for split, paths in texts.items():
        for path, name in zip(paths, files[split], strict=True):
            name.write_bytes(path.read_bytes())
    return files, [found for found in examine(None, files, languages) if found.severity != "note"]


def pair(clean: Path, split: str, turned: bool) -> tuple[Path, Path]:
    sides = clean / f"{split}.en", clean / f"{split}.de"
    return sides[::-1] if turned else sides


@pytest.mark.parametrize("odd", ["train", "valid", "test"])
def test_the_split_that_goes_against_all_others_is_the_odd_one(odd: str, clean: Path, tmp_path: Path) -> None:
    texts = {split: pair(clean, split, split == odd) for split in ("train", "valid", "test")}
    files, found = examined(tmp_path, texts)
    assert [(one.code, one.where.files) for one in found] == [("languages-swapped", tuple(map(str, files[odd])))]
    assert f"The {odd} text goes from German (de) to English (en)" in found[0].what


def test_of_two_that_go_against_each_other_nobody_knows_which_is_wrong(clean: Path, tmp_path: Path) -> None:
    texts = {"train": pair(clean, "train", True), "test": pair(clean, "test", False)}
    files, (one,) = examined(tmp_path, texts)
    assert one.where.files == tuple(str(path) for split in ("train", "test") for path in files[split])
    assert "--languages" in one.fix
    files, (one,) = examined(tmp_path, texts, ("en", "de"))
    assert one.where.files == tuple(map(str, files["train"]))
    files, (one,) = examined(tmp_path, texts, ("de", "en"))
    assert one.where.files == tuple(map(str, files["test"]))


def test_a_text_in_another_language_is_named_with_what_says_otherwise(clean: Path, tmp_path: Path) -> None:
    german = tmp_path / "train.de"
    german.write_text("\n".join(FRENCH * 750) + "\n")
    files = {"train": (clean / "train.en", german)}
    named = next(one for one in examine(None, files) if one.code == "wrong-language")
    assert named.what == "The text seems to be French (fr), but its name says German (de)."
    assert named.fix.endswith("say --languages en fr.")
    given = next(one for one in examine(None, files, ("en", "de")) if one.code == "wrong-language")
    assert "--languages says German (de)" in given.what
    assert not [one for one in examine(None, files, ("en", "fr")) if one.code == "wrong-language"]
    script = next(one for one in examine(None, files, ("en", "uk")) if one.code == "wrong-language")
    assert "Latin script" in script.what
    assert "Ukrainian (uk)" in script.what
