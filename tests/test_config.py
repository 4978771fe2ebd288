"""Recipes: what is read, what is refused, and in which words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from regard.config import DecodeConfig, differences, read_section, resolve, shipped, to_dict, to_toml
from regard.errors import RegardError, nearest


def test_defaults_are_the_papers_base_model() -> None:
    model = resolve({}).model
    assert (model.n_layers, model.d_model, model.d_ff, model.n_heads, model.dropout) == (6, 512, 2048, 8, 0.1)
    assert (model.norm, model.tie, model.attention_bias, model.activation) == ("post", "all", False, "relu")
    assert (model.positions, model.sinusoid, model.norm_eps) == ("sinusoidal", "interleaved", 1e-6)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": {"d_modle": 64}}, r"Unknown recipe key model\.d_modle \(did you mean model\.d_model\?\)"),
        ({"trian": {}}, r"Unknown recipe key trian \(did you mean train\?\)"),
        ({"train": {"steps": "many"}}, r"train\.steps must be a whole number, not 'many'"),
        ({"train": {"steps": 1.5}}, r"train\.steps must be a whole number, not 1\.5"),
        ({"train": {"steps": True}}, r"train\.steps must be a whole number, not True"),
        ({"train": {"recompute": 1}}, r"train\.recompute must be true or false, not 1"),
        ({"model": {"norm": "pots"}}, r"model\.norm = 'pots' must be one of 'post', 'pre' \(did you mean post\?\)"),
        ({"model": 3}, r"model is a section"),
        ({"tokenizer": {"character_coverage": 0.9}}, r"tokenizer\.character_coverage = 0\.9 must be at least 0\.98"),
        ({"data": {"train": "a.en"}}, r"data\.train must be a list such as"),
        ({"data": {"train": ["a.en"]}}, r"data\.train needs two files, source and target, but has 1"),
        ({"data": {"train": ["a", "b"], "corpus": "en-de"}}, r"exclude each other"),
        ({"model": {"d_model": 10, "n_heads": 4}}, r"d_model = 10 is not a multiple of model\.n_heads = 4"),
        ({"model": {"dropout": 1.5}}, r"model\.dropout = 1\.5 must lie in \[0, 1\)"),
        ({"train": {"steps": 0}}, r"train\.steps = 0 must be at least 1"),
        ({"tokenizer": {"shared": False}}, r"set model\.tie"),
        ({"model": {"preset": "huge"}}, r"model\.preset = 'huge' must be one of 'base', 'big'"),
        ({"model": {"positions": "learned", "max_positions": 9}}, r"data\.max_length = 256 tokens need more than"),
        ({"train": {"clip_norm": float("inf")}}, r"train\.clip_norm must be a finite number"),
        ({"train": {"lr_scale": -1.0}}, r"train\.lr_scale = -1\.0 must be at least 0"),
        ({"train": {"best_by": "bleu", "valid_sentences": 0}}, r"needs train\.valid_sentences of at least 1"),
        ({"train": {"keep": 2, "average": 5}}, r"train\.average = 5 needs train\.keep"),
        ({"data": {"train_target": "x.de"}}, r"data\.train_target needs data\.corpus"),
        ({"decode": {"iterations": 4}}, r"decode\.iterations means nothing to a model of task = \"translation\""),
        ({"task": "mask_predict", "decode": {"beam_size": 1}}, r"decode\.beam_size means nothing to a model of task"),
        (
            {"task": "point_clouds", "data": {"path": "x"}},
            r'data\.path = .*x is for data\.source = "digits" or "modelnet40"',
        ),
        ({"task": "max_regression", "data": {"highest": 0.0}}, r"data\.highest = 0\.0 must be at least 1e-06"),
        ({"task": "clustering", "data": {"spread": 0.0}}, r"data\.spread = 0\.0 must be at least 1e-06"),
        ({"task": "key_chain", "data": {"noise": -0.5}}, r"data\.noise = -0\.5 must be at least 0"),
        ({"task": "mask_predict", "data": {"max_length": 1024}}, r"must be less than model\.max_positions = 1024"),
    ],
)
def test_what_is_wrong_is_named_with_the_fix(values: dict[str, object], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        resolve(values)


def test_training_and_decoding_defaults_are_the_papers() -> None:
    recipe = resolve({})
    train, decode, model = recipe.train, recipe.decode, recipe.model
    assert (train.steps, train.batch_tokens, train.warmup_steps, train.lr_scale) == (100_000, 25_000, 4_000, 1.0)
    assert (train.label_smoothing, train.clip_norm, train.average) == (0.1, 0.0, 5)
    assert (model.attn_dropout, model.ff_dropout) == (0.0, 0.0)
    assert (decode.beam_size, decode.length_penalty, decode.normalization, decode.extra_length) == (4, 0.6, "gnmt", 50)


def test_a_preset_applies_to_a_resolved_recipe_too() -> None:
    recipe = resolve(resolve({}), {"model.preset": "big", "model.dropout": 0.2})
    assert (recipe.model.d_model, recipe.model.n_heads, recipe.model.dropout) == (1024, 16, 0.2)


def test_overrides_change_single_keys() -> None:
    recipe = resolve({}, ["train.steps=7", "name=mine", 'data.train=["a","b"]', "model.dropout=0"])
    assert (recipe.train.steps, recipe.name, recipe.model.dropout) == (7, "mine", 0.0)
    assert recipe.data.train == (str(Path.cwd() / "a"), str(Path.cwd() / "b"))


def test_files_in_a_recipe_lie_beside_it_and_others_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('[data]\ntrain = ["a.en", "sub/a.de"]\n')
    recipe = resolve(tmp_path / "r.toml", ['data.valid=["b.en", "b.de"]'])
    assert recipe.data.train == (str(tmp_path / "a.en"), str(tmp_path / "sub" / "a.de"))
    assert recipe.data.valid == (str(Path.cwd() / "b.en"), str(Path.cwd() / "b.de"))


def test_a_key_without_its_section_is_recognised() -> None:
    with pytest.raises(RegardError, match=r"Unknown recipe key steps \(did you mean train\.steps\?\)"):
        resolve({}, ["steps=5"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.steps", "has no '='"),
        ("train.stpes=3", r"train\.stpes \(did you mean train\.steps\?\)"),
        ("decode.beam=3", r"decode\.beam \(did you mean decode\.beam_size\?\)"),
        ("name.x=1", "name"),
    ],
)
def test_bad_overrides_are_named(override: str, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        resolve({"name": "x"}, [override])


def test_a_section_alone_names_its_keys_dotted() -> None:
    with pytest.raises(RegardError, match=r"decode\.temprature \(did you mean decode\.temperature\?\)"):
        read_section(DecodeConfig, {"temprature": 3}, "decode.")


def test_a_name_that_begins_with_the_word_is_the_nearest() -> None:
    names = ["team", "beat", "beam_size_of_the_search"]
    assert nearest("beam", names) == " (did you mean beam_size_of_the_search?)"
    assert nearest("baem", names) == " (did you mean team?)"
    assert nearest("b", names) == ""


def test_common_names_of_networks_lead_to_ours() -> None:
    assert nearest("demo-cnn", ["demo-rnn", "demo-conv"]) == " (did you mean demo-conv?)"
    with pytest.raises(RegardError, match=r"did you mean recurrent\?"):
        resolve({}, {"model.family": "rnn"})
    with pytest.raises(RegardError, match=r"did you mean convolutional\?"):
        resolve({}, {"model.family": "cnn"})


@pytest.mark.parametrize(
    ("recipe", "overrides", "message"),
    [
        (
            "demo-rnn",
            {"model.width": 3},
            'model.width is a key of model.family = "convolutional", and this model is "rec',
        ),
        ({"model": {"cell": "gru"}}, {}, 'without a family a model is "transformer": set model.family.'),
        (
            "polarity",
            {"model.cell": "gru"},
            'model.cell is a key of model.family = "recurrent", and this model is "cnn"',
        ),
        ({}, {"model.d_hidden": 8}, 'model.family = "recurrent" or "convolutional", and without'),
    ],
)
def test_a_key_of_another_family_is_said_to_be_one(recipe: Any, overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=re.escape(message)):
        resolve(recipe, overrides)


@pytest.mark.parametrize(
    ("name", "overrides", "gone"),
    [
        ("polarity", {"model.family": "bag"}, "model.filters, model.max_width"),
        ("demo-rnn", {"model.family": "convolutional"}, "model.d_align"),
        ("demo-conv", {"model.family": "recurrent"}, "model.max_positions"),
        ("demo-rnn", {"model.attention": "none"}, "model.d_align"),
    ],
)
def test_another_network_leaves_the_keys_that_it_does_not_have(name: str, overrides: dict[str, Any], gone: str) -> None:
    told: list[str] = []
    recipe = resolve(name, overrides, told.append)
    assert to_dict(recipe)["model"].items() >= {key.split(".")[1]: value for key, value in overrides.items()}.items()
    assert len(told) == 1
    assert f" has no {gone}: " in told[0]


def test_keys_that_are_typed_are_checked_whatever_the_family() -> None:
    for typed in ({"model.filters": 3}, {"model.fliters": 3}):
        with pytest.raises(RegardError, match=next(iter(typed))):
            resolve("polarity", {"model.family": "bag", **typed})
    with pytest.raises(RegardError, match=r"model\.celll"):  # of no family: a slip, in the file
        resolve({"model": {"celll": "gru"}}, {"model.family": "recurrent"})
    with pytest.raises(RegardError, match=r"model\.d_align is for"):
        resolve("demo-rnn", {"model.attention": "dot", "model.d_align": 8})


def test_a_recipe_survives_its_own_toml(tmp_path: Path) -> None:
    recipe = resolve({"name": 'Grüße "x"', "model": {"preset": "big", "d_k": 3}, "data": {"train": ["a b", "c"]}})
    (tmp_path / "recipe.toml").write_text(to_toml(recipe), encoding="utf-8")
    assert resolve(tmp_path / "recipe.toml") == recipe


def test_differences_name_each_key() -> None:
    ours, theirs = resolve({"train": {"steps": 5}}), resolve({"model": {"d_model": 64}})
    assert differences(ours, theirs) == ["train.steps: 5 here, 100000 there", "model.d_model: 512 here, 64 there"]
    assert differences(ours, ours) == []


def test_every_shipped_recipe_resolves_and_is_named_after_its_file() -> None:
    assert {"demo", "copy", "reverse"} <= set(shipped())
    for name, path in shipped().items():
        assert resolve(name).name == name
        assert path.read_text().startswith("#")  # a header that says what to expect


def test_missing_and_broken_recipes_are_named(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"No recipe named dmeo \(did you mean demo\?\)"):
        resolve("dmeo")
    with pytest.raises(RegardError, match=r"No recipe file nowhere\.toml"):
        resolve("nowhere.toml")
    (tmp_path / "bad.toml").write_text("steps = = 3")
    with pytest.raises(RegardError, match=r"bad\.toml is not valid TOML.*line 1"):
        resolve(tmp_path / "bad.toml")


def test_a_run_called_like_its_recipe_does_not_hide_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    (tmp_path / "mine").mkdir()
    assert resolve("demo").name == "demo"
    with pytest.raises(RegardError, match="mine is a folder, not a recipe"):
        resolve("mine")


def test_configuration_imports_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys, regard.config, regard.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
