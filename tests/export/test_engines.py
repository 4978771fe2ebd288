"""Every engine answers as our own model does, in every shape that a format can hold."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.config import DecodeConfig, resolve
from regard.data.corpus import load_required
from regard.data.tokenizer import UNK
from regard.data.tokenizer import train as learn
from regard.decode.engine import Engine, refusals
from regard.decode.margins import MARGIN, margin
from regard.decode.state import Hypothesis
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.export.check import SCORES, check
from regard.export.choice import open_translator
from regard.export.engines import Ctranslate2Engine, Settings, TorchEngine, open_engine
from regard.export.engines.ctranslate2 import even
from regard.export.formats import export
from regard.export.runs import write_run
from regard.training.checkpoint import weights
from regard.training.run import Run

NEEDS = ("ctranslate2", "onnxscript", "onnxruntime", "transformers")
POST: dict[str, object] = {}
PRE = {"norm": "pre", "activation": "swish", "positions": "learned", "max_positions": 300, "tie": "target"}
ODD = {"sinusoid": "halves", "activation": "gelu", "attention_bias": True, "output_bias": True, "tie": "none"}
EOS_STARTS = {"start": "eos", "n_decoder_layers": 1, "norm_eps": 1e-5, "attention_bias": True}
WIDE = {"d_k": 12, "d_v": 6, "n_layers": 1, "norm": "pre"}
SETTINGS = Settings(intra_threads=1)
CONFIG = DecodeConfig(normalization="power", extra_length=6, batch_sentences=7)


def assert_same(
    translator: Translator,
    sources: list[list[int]],
    ours: list[list[Hypothesis]],
    theirs: list[list[Hypothesis]],
    config: DecodeConfig,
) -> None:
    """Equal tokens and scores, or candidates that rounding may swap."""
    for source, (a, *_), (b, *_) in zip(sources, ours, theirs, strict=True):
        if a.tokens == b.tokens:
            assert a.log_prob == pytest.approx(b.log_prob, abs=SCORES * len(a.tokens))
            assert a.score == pytest.approx(b.score, abs=SCORES * len(a.tokens))
        else:
            assert margin(translator, source, a.tokens, b.tokens, config) < MARGIN, (a, b)


def compare(run: Path, to: str, out: Path, sentences: list[str]) -> Engine:
    with export(run, to, out):
        pass
    translator = regard.load(run, device="cpu")
    sources = translator.tokenizers.source.encode(sentences)
    engine, torch_engine = open_engine(out, SETTINGS), TorchEngine(translator)
    for beam_size in (1, 4):
        config = replace(CONFIG, beam_size=beam_size)
        ours, theirs = (one.decode(sources, 1, config) for one in (torch_engine, engine))
        assert_same(translator, sources, ours, theirs, config)
    return engine


@pytest.mark.parametrize(
    ("to", "model"),
    [
        ("ctranslate2", POST), ("ctranslate2", PRE), ("ctranslate2", ODD), ("ctranslate2", EOS_STARTS),
        ("marian", POST), ("marian", ODD), ("marian", {**EOS_STARTS, "tie": "target"}),
        ("onnx", WIDE), ("onnx", {**ODD, "n_layers": 1}), ("safetensors", PRE),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value)) or "post",
)  # fmt: skip
def test_random_models_of_every_shape_give_the_same_tokens_and_scores(
    random_run: Callable[..., Path], tmp_path: Path, sentences: list[str], to: str, model: dict[str, object]
) -> None:
    compare(random_run(**model), to, tmp_path / "out", sentences[:12])


@pytest.mark.parametrize("to", ["ctranslate2", "onnx", "marian", "safetensors"])
def test_a_trained_model_passes_its_check(trained: Path, tmp_path: Path, sentences: list[str], to: str) -> None:
    with export(trained, to, tmp_path / "out") as exported:
        report = check(exported, sentences)
    assert report.passed, report.text()
    assert [comparison.sentences for comparison in report.comparisons] == [len(sentences)] * 2
    assert "sentences: " in report.text()
    assert report.sizes[1] > 0


def test_n_best_lists_are_the_same(trained: Path, tmp_path: Path, sentences: list[str]) -> None:
    """With more patience than any beam needs, CTranslate2 finds the n best that our exact stopping rule finds."""
    with export(trained, "ctranslate2", tmp_path / "out"):
        pass
    translator = regard.load(trained, device="cpu")
    sources = translator.tokenizers.source.encode(sentences[:20])
    engines = TorchEngine(translator), open_engine(tmp_path / "out", Settings(patience=8))
    ours, theirs = (engine.decode(sources, 4, DecodeConfig(normalization="power")) for engine in engines)
    for a, b in zip(ours, theirs, strict=True):
        assert [one.score for one in b] == pytest.approx([one.score for one in a], abs=1e-3)
        assert len({tuple(one.tokens) for one in b}) == 4


def test_an_exported_folder_does_not_share_memory_with_the_model(trained: Path, tmp_path: Path) -> None:
    """The model may be trained on or changed after it has been written: the copy stays."""
    from regard.export.ctranslate2 import specification

    model = regard.load(trained, device="cpu").model
    spec = specification(model)
    before = spec.encoder.layer[0].ffn.linear_0.weight.copy()
    model.encoder.layers[0].feed_forward.w_1.weight.data.zero_()  # type: ignore[union-attr]
    assert (spec.encoder.layer[0].ffn.linear_0.weight == before).all()
    assert before.any()


def test_a_sentence_beyond_the_positions_is_named(random_run: Callable[..., Path], tmp_path: Path) -> None:
    with export(random_run(positions="learned", max_positions=300, n_layers=1), "ctranslate2", tmp_path / "out"):
        pass
    with pytest.raises(RegardError, match="Sentence 2 has 301 tokens, and the export positions for 300"):
        open_engine(tmp_path / "out").decode([[5, 2], [5] * 300 + [2]], 1, CONFIG)


def test_a_folder_that_is_no_export_is_named(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"no export: it has no export\.json"):
        open_engine(tmp_path)


@pytest.fixture
def exported(random_run: Callable[..., Path], tmp_path: Path) -> Path:
    with export(random_run(n_layers=1), "ctranslate2", tmp_path / "out"):
        pass
    return tmp_path / "out"


def leave_out_digests(folder: Path) -> None:
    """As an export of an older version."""
    manifest = json.loads((folder / "export.json").read_text())
    manifest.pop("files", None)
    (folder / "export.json").write_text(json.dumps(manifest))


def test_an_export_of_a_newer_version_is_named(exported: Path) -> None:
    manifest = json.loads((exported / "export.json").read_text())
    (exported / "export.json").write_text(json.dumps({**manifest, "format": "gguf"}))
    with pytest.raises(RegardError, match="in the format gguf, which this version cannot run"):
        open_engine(exported)


@pytest.mark.parametrize("to", ["ctranslate2", "marian"])
def test_an_altered_file_of_an_export_is_named(random_run: Callable[..., Path], tmp_path: Path, to: str) -> None:
    with export(random_run(n_layers=1), to, tmp_path / "out"):
        pass
    (tmp_path / "out" / "README.md").write_text("mine")
    open_engine(tmp_path / "out", SETTINGS)
    name = {"ctranslate2": "model.bin", "marian": "model.safetensors"}[to]
    content = bytearray((tmp_path / "out" / name).read_bytes())
    content[len(content) // 2] ^= 64
    (tmp_path / "out" / name).write_bytes(content)
    with pytest.raises(RegardError, match=f"{name} is missing or not the one that was exported: delete .* and export"):
        open_engine(tmp_path / "out", SETTINGS)
    (tmp_path / "out" / name).unlink()
    with pytest.raises(RegardError, match=f"{name} is missing"):
        open_engine(tmp_path / "out", SETTINGS)


def test_an_export_without_digests_opens(exported: Path) -> None:
    leave_out_digests(exported)
    assert open_engine(exported, SETTINGS).decode([[5, 2]], 1, CONFIG)


@pytest.mark.parametrize("part", ["vocabulary", "tokenizer"])
def test_pieces_of_another_model_are_named(
    exported: Path, tmp_path: Path, reverser_recipe: dict[str, Any], part: str
) -> None:
    leave_out_digests(exported)
    if part == "vocabulary":
        path = next(exported.glob("*_vocabulary.json"))
        path.write_text(json.dumps([*json.loads(path.read_text()), "▁more"]))
    else:
        corpus = load_required(resolve(reverser_recipe).data, "train")
        config = replace(resolve(reverser_recipe).tokenizer, vocab_size=50)
        shutil.rmtree(exported / "tokenizer")
        learn(config, corpus.source[:500], corpus.target[:500], 1).save(exported / "tokenizer")
    with pytest.raises(RegardError, match="have different pieces, so one of them is another model's: export the run"):
        open_engine(exported, SETTINGS)


def test_bits_that_a_machine_lacks_become_more_and_never_fewer(
    random_run: Callable[..., Path], tmp_path: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTranslate2 itself computes in int8 where there is no int16."""
    import ctranslate2

    monkeypatch.setattr(ctranslate2, "get_supported_compute_types", lambda *device: {"float32", "int8", "int8_float32"})
    said: list[str] = []
    run = random_run(n_layers=1)
    translator = open_translator(run, "ctranslate2", "int16", remark=said.append)
    assert isinstance(translator.engine, Ctranslate2Engine)
    assert translator.engine.translator.compute_type == "float32"
    assert said[-1].startswith("CTranslate2 does not compute in int16 on this machine: float32 is used")
    with export(run, "ctranslate2", tmp_path / "out", "int16") as exported:
        report = check(exported, sentences[:4], settings=SETTINGS)
    assert report.plain()["computed_in"] == "float32"
    assert report.text().startswith("ctranslate2 (int16, computed in float32): ")
    assert open_translator(run, "ctranslate2", "int8").engine.translator.compute_type.startswith("int8")


def test_what_never_comes_out_of_ours_never_comes_out_of_ctranslate2(
    random_run: Callable[..., Path], tmp_path: Path, sentences: list[str]
) -> None:
    """A model that prefers the unknown symbol: both pass it over, and give what they choose its own probability."""
    run = random_run(output_bias=True, attention_bias=True)
    translator = regard.load(run, device="cpu")
    translator.model.output.bias.data[UNK] = 50.0
    write_run(tmp_path / "fond", Run.open(run).recipe, translator.tokenizers, weights(translator.model))
    with export(tmp_path / "fond", "ctranslate2", tmp_path / "out"):
        pass
    sources = translator.tokenizers.source.encode(sentences[:8])
    engine, torch_engine = open_engine(tmp_path / "out", SETTINGS), TorchEngine(translator)
    config = replace(CONFIG, beam_size=1)
    ours, theirs = (one.decode(sources, 1, config) for one in (torch_engine, engine))
    assert_same(translator, sources, ours, theirs, config)
    assert all(UNK not in best[0].tokens for best in theirs)
    assert all(best[0].log_prob < -50 for best in theirs)


@pytest.mark.parametrize("to", ["ctranslate2", "marian"])
def test_what_others_rank_by_power_is_ranked_by_gnmt_here(
    trained: Path, tmp_path: Path, sentences: list[str], to: str
) -> None:
    """Under gnmt comes what the same beam finds under power, in the order of its gnmt scores; the best of it is
    nearly always what our own gnmt search finds."""
    with export(trained, to, tmp_path / "out"):
        pass
    translator = regard.load(trained, device="cpu")
    sources = translator.tokenizers.source.encode(sentences[:20])
    engine = open_engine(tmp_path / "out", SETTINGS)
    by_power = engine.decode(sources, 4, DecodeConfig(normalization="power"))
    by_gnmt = engine.decode(sources, 2, DecodeConfig(normalization="gnmt"))
    for pool, best in zip(by_power, by_gnmt, strict=True):
        scores = {tuple(one.tokens): one.log_prob / ((5 + len(one.tokens)) / 6) ** 0.6 for one in pool}
        expected = sorted(scores, key=lambda tokens: -scores[tokens])[:2]
        assert [tuple(one.tokens) for one in best] == expected
        assert [one.score for one in best] == pytest.approx([scores[tokens] for tokens in expected])
    ours = TorchEngine(translator).decode(sources, 1, DecodeConfig())
    same = [a[0].tokens == b[0].tokens for a, b in zip(ours, by_gnmt, strict=True)]
    assert sum(same) >= 0.9 * len(same)


def test_each_output_keeps_to_its_own_limit_whatever_the_batch(
    random_run: Callable[..., Path], tmp_path: Path, sentences: list[str]
) -> None:
    """A model that hardly ever ends: in a batch of all lengths every source is cut where it would be alone."""
    with export(random_run(), "ctranslate2", tmp_path / "out"):
        pass
    sources = regard.load(tmp_path / "random", device="cpu").tokenizers.source.encode(sentences[:12])
    engine = open_engine(tmp_path / "out", SETTINGS)
    told: list[int] = []
    together = engine.decode(sources, 1, replace(CONFIG, batch_sentences=64), told.append)
    alone = [engine.decode([source], 1, CONFIG)[0] for source in sources]
    assert [best[0].tokens for best in together] == [best[0].tokens for best in alone]
    assert any(len(best[0].tokens) == len(source) + 6 for best, source in zip(together, sources, strict=True))
    assert told[-1] == len(sources)
    assert told == sorted(told)


def test_an_engine_refuses_by_name_what_it_does_not_know() -> None:
    request = DecodeConfig(beam_size=7, extra_length=3)
    assert refusals(TorchEngine.honours, request) == refusals(Ctranslate2Engine.honours, request) == []
    assert refusals(frozenset(("beam_size",)), request) == ["decode.extra_length = 3"]
    assert refusals(frozenset(("beam_size",)), DecodeConfig()) == []


@given(count=st.integers(1, 500), batch=st.integers(1, 70), workers=st.integers(1, 5))
def test_even_batches_are_the_smallest_that_give_no_worker_more_of_them(count: int, batch: int, workers: int) -> None:
    def rounds(size: int) -> int:
        batches = len(range(0, count, size))
        return len(range(0, batches, workers))

    size = even(count, batch, workers)
    assert 1 <= size <= batch
    assert rounds(size) == rounds(batch)
    assert size == 1 or rounds(size - 1) > rounds(batch)


def test_no_worker_is_left_without_work() -> None:
    assert even(192, 64, 2) == 48
    assert even(100, 64, 1) == 50
    assert even(3, 64, 2) == 2
