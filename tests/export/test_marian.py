"""MarianMT in and out: the logits, outputs and subwords of transformers' own classes, and training that goes on."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece as spm
import torch
from safetensors.torch import load_file

import regard
from regard.data.tokenizer import BOS, EOS, PAD, UNK
from regard.decode.looking import rectangle
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.export import marian
from regard.export.formats import export
from regard.training.checkpoint import weights
from regard.training.run import Run
from regard.training.start import fit

transformers = pytest.importorskip("transformers")

ENGLISH = [
    "the old house stands by the river", "a small dog sleeps in the old house", "the river sings",
    "seven sisters sold shells and stories", "his brother rode another horse to the other border",
] * 10  # fmt: skip
GERMAN = [
    "das alte Haus steht am Fluss", "ein kleiner Hund schläft im alten Haus", "der Fluss singt",
    "sieben Schwestern verkauften Muscheln und Märchen", "sein Bruder ritt ein anderes Pferd zur anderen Grenze",
] * 10  # fmt: skip


def subwords(lines: list[str]) -> bytes:
    """A SentencePiece model as OPUS-MT has them: unknown, start and end are 0, 1, 2, and there is no padding."""
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=45, model_type="unigram", minloglevel=2
    )
    return model.getvalue()


def pieces(model: bytes) -> list[str]:
    processor = spm.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]


@pytest.fixture(scope="module", params=["shared", "separate"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights in the shape and with the files of an OPUS-MT model: end 0, unknown 1, padding last."""
    place = tmp_path_factory.mktemp("opus")
    models = subwords(ENGLISH), subwords(GERMAN)
    for name, model in zip(("source", "target"), models, strict=True):
        (place / f"{name}.spm").write_bytes(model)
    shared = request.param == "shared"
    if shared:
        both = sorted({*pieces(models[0]), *pieces(models[1])})
        lists = [["</s>", "<unk>", *both, "<pad>"]] * 2
    else:
        lists = [["</s>", "<unk>", *sorted(pieces(model)), "<pad>"] for model in models]
        extra = len(lists[0]) - len(lists[1])  # padding has one number on both sides
        lists = [[*side[:-1], *(f"<extra {i}>" for i in range(fill)), "<pad>"]
                 for side, fill in zip(lists, (max(0, -extra), max(0, extra)), strict=True)]  # fmt: skip
        (place / "target_vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(lists[1])}))
    (place / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(lists[0])}))
    config = transformers.MarianConfig(
        vocab_size=len(lists[0]), decoder_vocab_size=len(lists[1]), d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
        activation_function="swish", dropout=0.0, scale_embedding=True, pad_token_id=len(lists[0]) - 1, eos_token_id=0,
        decoder_start_token_id=len(lists[0]) - 1, max_position_embeddings=128, forced_eos_token_id=None,
        share_encoder_decoder_embeddings=shared, bad_words_ids=[[len(lists[0]) - 1], [1]],
    )  # fmt: skip
    torch.manual_seed(4)
    model = transformers.MarianMTModel(config)
    for name, parameter in model.named_parameters():
        if "layer_norm.weight" in name:
            torch.nn.init.normal_(parameter, mean=1.0, std=0.2)
        elif "embed_positions" not in name:  # small biases, or every sentence would be the same to the model
            torch.nn.init.normal_(parameter, std=0.1 if parameter.dim() == 1 else 0.3)
    model.final_logits_bias.normal_()
    model.final_logits_bias[:, 0] = 3.0
    model.save_pretrained(place)
    settings = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": not shared}
    (place / "tokenizer_config.json").write_text(json.dumps(settings))
    return place


@pytest.fixture(scope="module")
def imported(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("imported") / "opus"
    marian.read(folder, run)
    return run


def theirs(folder: Path) -> Any:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers.MarianMTModel.from_pretrained(folder).eval()


def to_their_numbers(translator: Translator, folder: Path, side: str) -> list[int]:
    """Our number of each piece → theirs; the start symbol, which they lack, → padding."""
    name = "target_vocab.json" if side == "target" and (folder / "target_vocab.json").exists() else "vocab.json"
    numbers = json.loads((folder / name).read_text())
    tokenizer = getattr(translator.tokenizers, side)
    return [numbers.get(piece, numbers["<pad>"]) for piece in tokenizer.pieces(range(tokenizer.vocab_size))]


def test_subwords_are_those_of_their_tokenizer(folder: Path, imported: Path) -> None:
    translator = regard.load(imported, device="cpu")
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    numbers = to_their_numbers(translator, folder, "source")
    for line in [*ENGLISH[:5], "a word with ~ and ñ"]:
        (ours,) = translator.tokenizers.source.encode([line])
        assert [numbers[token] for token in ours] == tokenizer(line)["input_ids"]
    (german,) = translator.tokenizers.target.encode(GERMAN[1:2])
    assert translator.tokenizers.target.decode(german) == GERMAN[1]


def test_imported_logits_equal_transformers(folder: Path, imported: Path) -> None:
    translator, model = regard.load(imported, device="cpu"), theirs(folder)
    sources = translator.tokenizers.source.encode(ENGLISH[:4])
    targets = translator.tokenizers.target.encode(GERMAN[:4])
    source, target = (torch.tensor(to_their_numbers(translator, folder, side)) for side in ("source", "target"))
    src, layout = rectangle(sources, torch.device("cpu"))
    tgt, tgt_layout = rectangle([[PAD, *tokens[:-1]] for tokens in targets], torch.device("cpu"))
    with torch.no_grad():
        expected = model(input_ids=source[src], attention_mask=layout.mask.long(), decoder_input_ids=target[tgt]).logits
        found = translator.feed(sources, targets)
    known = [number for number in range(len(target)) if number != BOS]
    torch.testing.assert_close(
        found[..., known][tgt_layout.mask], expected[..., target[known]][tgt_layout.mask], atol=1e-4, rtol=1e-4
    )
    assert float(found[..., BOS].softmax(-1).max()) >= 0
    assert float(found.softmax(-1)[..., BOS].max()) < 1e-20


def test_imported_beams_equal_transformers(folder: Path, imported: Path) -> None:
    translator, model = regard.load(imported, device="cpu"), theirs(folder)
    target = to_their_numbers(translator, folder, "target")
    source = to_their_numbers(translator, folder, "source")
    different = set()
    for line in ENGLISH[:5]:
        (tokens,) = translator.tokenizers.source.encode([line])
        best = translator.search([line], beam_size=4, length_penalty=0.6, normalization="power", extra_length=10)[0][0]
        expected = model.generate(
            torch.tensor([[source[token] for token in tokens]]), num_beams=4, length_penalty=0.6, do_sample=False,
            early_stopping="never", max_length=None, max_new_tokens=len(tokens) + 10, output_scores=True,
            return_dict_in_generate=True, bad_words_ids=[[target[PAD]], [target[UNK]]],
        )  # fmt: skip
        row = expected.sequences[0, 1:].tolist()
        row = row[: row.index(0) + 1] if 0 in row else row
        assert [target[token] for token in best.target_tokens] == row
        assert best.score == pytest.approx(float(expected.sequences_scores[0]), abs=1e-4)
        different.add(tuple(row))
    assert len(different) > 1


def test_exported_again_transformers_reads_it_and_answers_the_same(
    folder: Path, imported: Path, tmp_path: Path
) -> None:
    with export(imported, "marian", tmp_path / "again"):
        pass
    first, again = theirs(folder), theirs(tmp_path / "again")
    tokenizers = [transformers.MarianTokenizer.from_pretrained(place) for place in (folder, tmp_path / "again")]
    outputs = []
    for model, tokenizer in zip((first, again), tokenizers, strict=True):
        model.generation_config.bad_words_ids = [[tokenizer.pad_token_id], [tokenizer.unk_token_id]]
        batch = tokenizer(ENGLISH[:5], return_tensors="pt", padding=True)
        rows = model.generate(**batch, num_beams=4, max_new_tokens=20, length_penalty=0.6)
        outputs.append(tokenizer.batch_decode(rows, skip_special_tokens=True))
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) > 1


def test_a_pickled_file_of_weights_gives_the_same_run(folder: Path, imported: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        if path.name != "model.safetensors":
            (copy / path.name).write_bytes(path.read_bytes())
    torch.save(load_file(folder / "model.safetensors"), copy / "pytorch_model.bin")
    marian.read(copy, tmp_path / "run")
    ours, expected = regard.load(tmp_path / "run", device="cpu"), regard.load(imported, device="cpu")
    for name, tensor in weights(expected.model).items():
        assert torch.equal(weights(ours.model)[name], tensor)


def corpus(folder: Path) -> dict[str, list[str]]:
    for name, lines in (("en", ENGLISH), ("de", GERMAN)):
        (folder / f"text.{name}").write_text("\n".join(lines) + "\n")
    return {split: [str(folder / "text.en"), str(folder / "text.de")] for split in ("train", "valid", "test")}


FEW = {"steps": 12, "batch_tokens": 300, "warmup_steps": 4, "valid_every": 12, "save_every": 12, "report_every": 3,
       "average": 0, "tensorboard": False, "valid_sentences": 0, "lr_scale": 0.05, "threads": 1}  # fmt: skip


def test_another_run_starts_from_an_imported_one(imported: Path, tmp_path: Path) -> None:
    recipe = Run.open(imported).recipe
    values = {
        "name": "tuned", "init": str(imported), "data": corpus(tmp_path), "train": FEW,
        "model": vars(recipe.model),
        "tokenizer": {"vocab_size": recipe.tokenizer.vocab_size, "shared": recipe.tokenizer.shared},
    }  # fmt: skip
    tuned = fit(values, tmp_path / "tuned")
    losses = [record["loss"] for record in Run.open(tmp_path / "tuned").records() if "loss" in record]
    assert losses[-1] < losses[0]
    assert tuned.tokenizers.hash == regard.load(imported, device="cpu").tokenizers.hash


def test_training_goes_on_in_the_imported_run_itself(folder: Path, tmp_path: Path) -> None:
    """The recipe of the run, with text of one's own: it begins with the imported weights, not with random ones."""
    run = marian.read(folder, tmp_path / "opus")
    before = weights(regard.load(run.path, device="cpu").model)
    files = {f"data.{split}": paths for split, paths in corpus(tmp_path).items()}
    with pytest.raises(RegardError, match="holds a run of another recipe"):
        fit(run.recipe_file, run.path, {**files, "model.dropout": 0.3})
    text = run.recipe_file.read_text().replace("steps = 100000", "steps = 2")
    for key, value in (("batch_tokens", 300), ("threads", 1), ("valid_sentences", 0), ("average", 0)):
        text = "\n".join(f"{key} = {value}" if line.startswith(f"{key} = ") else line for line in text.split("\n"))
    run.recipe_file.write_text(text.replace("tensorboard = true", "tensorboard = false"))
    after = weights(fit(run.recipe_file, run.path, files).model)
    assert run.steps()[-1] == 2
    name = "encoder.layers.0.feed_forward.w_1.weight"
    assert 0 < float((after[name] - before[name]).abs().max()) < 0.01


def test_an_existing_directory_is_not_overwritten(folder: Path, imported: Path) -> None:
    with pytest.raises(RegardError, match="is there already: give another directory with --run"):
        marian.read(folder, imported)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bart"}, "type 'bart', not 'marian'"),
        ({"scale_embedding": False}, "scale_embedding = False"),
        ({"normalize_before": True}, "normalize_before = True"),
        ({"decoder_ffn_dim": 50}, "encoder_ffn_dim = 48 and decoder_ffn_dim = 50 must be equal"),
        ({"activation_function": "tanh"}, "activation_function = 'tanh' must be one of"),
        ({"decoder_start_token_id": 7}, "decoder_start_token_id = 7 is none of"),
        ({"d_model": None}, "does not say d_model"),
    ],
)
def test_what_no_recipe_can_say_is_refused(folder: Path, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    config = {**json.loads((folder / "config.json").read_text()), **change}
    config = {key: value for key, value in config.items() if value is not None or key == "forced_eos_token_id"}
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(RegardError, match=message):
        marian.read(copy, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "model.safetensors"])
def test_a_missing_file_is_named(folder: Path, tmp_path: Path, name: str) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        if path.name != name:
            (copy / path.name).write_bytes(path.read_bytes())
    with pytest.raises(RegardError, match=name.replace(".", r"\.")):
        marian.read(copy, tmp_path / "run")


def copied(folder: Path, copy: Path) -> Path:
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


@pytest.mark.parametrize("name", ["source.spm", "target.spm"])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_truncated_tokenizer_is_named(folder: Path, tmp_path: Path, name: str, share: float) -> None:
    path = copied(folder, tmp_path / "copy") / name
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(RegardError, match=f"{name} is no SentencePiece model, or not the whole of it: fetch it again"):
        marian.read(path.parent, tmp_path / "run")


def test_a_vocabulary_that_does_not_name_every_row_is_refused(folder: Path, tmp_path: Path) -> None:
    path = copied(folder, tmp_path / "copy") / "vocab.json"
    numbers = json.loads(path.read_text())
    cut = {piece: number for piece, number in numbers.items() if number != 20}
    path.write_text(json.dumps(cut))
    with pytest.raises(RegardError, match=rf"vocab\.json has {len(cut)} pieces, but config\.json a vocabulary of"):
        marian.read(path.parent, tmp_path / "run")
    at = {number: piece for piece, number in numbers.items()}
    path.write_text(json.dumps({**numbers, at[21]: 20}))
    with pytest.raises(RegardError, match=r"vocab\.json gives .* and .* one number, 20: it is damaged"):
        marian.read(path.parent, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_matrix_of_other_rows_than_the_vocabulary_is_refused(folder: Path, tmp_path: Path) -> None:
    """Both the vocabulary and the configuration are another model's."""
    copy = copied(folder, tmp_path / "copy")
    for name in ("vocab.json", "target_vocab.json"):
        if (copy / name).exists():
            numbers = json.loads((copy / name).read_text())
            (copy / name).write_text(json.dumps({**numbers, "▁more": len(numbers)}))
    config = json.loads((copy / "config.json").read_text())
    sizes = {key: config[key] + 1 for key in ("vocab_size", "decoder_vocab_size")}
    (copy / "config.json").write_text(json.dumps({**config, **sizes}))
    with pytest.raises(RegardError, match=r"has \d+ rows, but the vocabulary \d+ pieces: it is another model's"):
        marian.read(copy, tmp_path / "run")


def test_our_end_symbol_stays_ours(imported: Path) -> None:
    translator = regard.load(imported, device="cpu")
    assert translator.tokenizers.source.pieces([PAD, BOS, EOS, UNK]) == ["<pad>", "<s>", "</s>", "<unk>"]
    assert translator.model.config.start == "pad"
