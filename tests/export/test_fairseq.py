"""fairseq's checkpoints: the numbers of a forward pass of its own, every version's names, nothing unknown taken."""

from __future__ import annotations

import argparse
import io
import math
from pathlib import Path
from typing import Any

import pytest
import sentencepiece as spm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.cli.import_ import import_
from regard.data.tokenizer import EOS
from regard.errors import RegardError
from regard.export import fairseq
from regard.training.run import Run
from regard.training.start import fit

D, FF, H, LAYERS = 16, 24, 4, 2
WORDS = ["the", "hou@@", "se", "dog", "sle@@", "eps", "in", "a", "ri@@", "ver", "."]
THEIR_BOS, THEIR_PAD, THEIR_EOS, THEIR_UNK = range(4)
Weights = dict[str, Tensor]


def layer(stack: str, i: int) -> Weights:
    """The tensors of one layer under the names of fairseq's modules."""
    prefix, attentions = f"{stack}.layers.{i}", ["self_attn"] + ["encoder_attn"] * (stack == "decoder")
    tensors = {}
    for attention in attentions:
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            tensors[f"{prefix}.{attention}.{part}.weight"] = torch.randn(D, D) * 0.3
            tensors[f"{prefix}.{attention}.{part}.bias"] = torch.randn(D) * 0.1
    for name, shape in (("fc1", (FF, D)), ("fc2", (D, FF))):
        tensors[f"{prefix}.{name}.weight"] = torch.randn(shape) * 0.3
        tensors[f"{prefix}.{name}.bias"] = torch.randn(shape[0]) * 0.1
    for norm in (*(f"{attention}_layer_norm" for attention in attentions), "final_layer_norm"):
        tensors |= norm_tensors(f"{prefix}.{norm}")
    return tensors


def norm_tensors(name: str) -> Weights:
    return {f"{name}.weight": 1 + 0.2 * torch.randn(D), f"{name}.bias": 0.1 * torch.randn(D)}


def checkpoint(**settings: Any) -> dict[str, Any]:
    """What `torch.save` was given, as fairseq's state dictionaries are documented."""
    torch.manual_seed(6)
    args = {
        "arch": "transformer", "encoder_attention_heads": H, "decoder_attention_heads": H, "activation_fn": "relu",
        "encoder_normalize_before": False, "decoder_normalize_before": False, "share_all_embeddings": False,
        "share_decoder_input_output_embed": False, "encoder_learned_pos": False, "decoder_learned_pos": False,
        "max_source_positions": 64, "max_target_positions": 64, "source_lang": "en", "target_lang": "de",
        "dropout": 0.1, **settings,
    }  # fmt: skip
    V = len(WORDS) + 4
    model: Weights = {"encoder.version": torch.tensor([3.0]), "decoder.version": torch.tensor([3.0])}
    for stack in ("encoder", "decoder"):
        model[f"{stack}.embed_tokens.weight"] = torch.randn(V, D) * 0.5
        if args[f"{stack}_learned_pos"]:
            model[f"{stack}.embed_positions.weight"] = torch.randn(64 + THEIR_PAD + 1, D) * 0.3
        else:
            model[f"{stack}.embed_positions._float_tensor"] = torch.zeros(1)
        for i in range(LAYERS):
            model |= layer(stack, i)
        if args[f"{stack}_normalize_before"]:
            model |= norm_tensors(f"{stack}.layer_norm")
    if args["share_all_embeddings"]:
        model["decoder.embed_tokens.weight"] = model["encoder.embed_tokens.weight"]
    if args["share_all_embeddings"] or args["share_decoder_input_output_embed"]:
        model["decoder.output_projection.weight"] = model["decoder.embed_tokens.weight"]
    else:
        model["decoder.output_projection.weight"] = torch.randn(V, D) * 0.5
    return {"args": argparse.Namespace(**args), "model": model, "extra_state": {"epoch": 3}}


def save(folder: Path, content: dict[str, Any], words: list[str] | None = None, **options: Any) -> Path:
    folder.mkdir(exist_ok=True)
    torch.save(content, folder / "checkpoint_best.pt", **options)
    for language in ("en", "de"):
        lines = [f"{word} {100 - i}" for i, word in enumerate(words or WORDS)]
        (folder / f"dict.{language}.txt").write_text("\n".join(lines) + "\n")
    return folder


# --- their forward pass, once more -----------------------------------------------------------------------


def their_logits(content: dict[str, Any], source: list[int], fed: list[int]) -> Tensor:
    """The Transformer as fairseq computes it, from its tensors, for one sentence, in its numbers."""
    model, args = content["model"], content["args"]
    memory = run_stack(model, args, "encoder", source, None)
    hidden = run_stack(model, args, "decoder", fed, memory)
    return hidden @ model["decoder.output_projection.weight"].T


def run_stack(model: Weights, args: argparse.Namespace, stack: str, tokens: list[int], memory: Tensor | None) -> Tensor:
    x = model[f"{stack}.embed_tokens.weight"][tokens] * math.sqrt(D) + their_positions(model, stack, len(tokens))
    pre = getattr(args, f"{stack}_normalize_before")

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, (D,), model[f"{name}.weight"], model[f"{name}.bias"], 1e-5)

    def around(name: str, x: Tensor, sublayer: Any) -> Tensor:
        return x + sublayer(norm(name, x)) if pre else norm(name, x + sublayer(x))

    for i in range(LAYERS):
        prefix = f"{stack}.layers.{i}"

        def attend(name: str, y: Tensor, keys: Tensor | None = None, prefix: str = prefix) -> Tensor:
            keys = y if keys is None else keys
            module = nn.MultiheadAttention(D, H)
            parts = [model[f"{prefix}.{name}.{part}_proj.weight"] for part in "qkv"]
            biases = [model[f"{prefix}.{name}.{part}_proj.bias"] for part in "qkv"]
            module.in_proj_weight.data, module.in_proj_bias.data = torch.cat(parts), torch.cat(biases)
            module.out_proj.weight.data = model[f"{prefix}.{name}.out_proj.weight"]
            module.out_proj.bias.data = model[f"{prefix}.{name}.out_proj.bias"]
            future = None
            if stack == "decoder" and name == "self_attn":
                future = torch.ones(len(y), len(y), dtype=torch.bool).triu(1)
            return module(y, keys, keys, attn_mask=future, need_weights=False)[0]

        x = around(f"{prefix}.self_attn_layer_norm", x, lambda y, attend=attend: attend("self_attn", y))
        if memory is not None:
            x = around(
                f"{prefix}.encoder_attn_layer_norm", x, lambda y, attend=attend: attend("encoder_attn", y, memory)
            )
        x = around(
            f"{prefix}.final_layer_norm", x,
            lambda y, prefix=prefix: F.linear(
                F.relu(F.linear(y, model[f"{prefix}.fc1.weight"], model[f"{prefix}.fc1.bias"])),
                model[f"{prefix}.fc2.weight"], model[f"{prefix}.fc2.bias"],
            ),
        )  # fmt: skip
    return norm(f"{stack}.layer_norm", x) if pre else x


def their_positions(model: Weights, stack: str, length: int) -> Tensor:
    """Positions padding_idx + 1, … of the table, one number at a time."""
    if f"{stack}.embed_positions.weight" in model:
        return model[f"{stack}.embed_positions.weight"][THEIR_PAD + 1 : THEIR_PAD + 1 + length]
    rows = []
    for position in range(THEIR_PAD + 1, THEIR_PAD + 1 + length):
        rates = [math.exp(-i * math.log(10000) / (D // 2 - 1)) for i in range(D // 2)]
        rows.append([math.sin(position * r) for r in rates] + [math.cos(position * r) for r in rates])
    return torch.tensor(rows)


SHAPES: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"encoder_normalize_before": True, "decoder_normalize_before": True, "share_all_embeddings": True},
    "learned": {"encoder_learned_pos": True, "decoder_learned_pos": True, "share_decoder_input_output_embed": True},
}


@pytest.mark.parametrize("kind", ["zip", "legacy"])
@pytest.mark.parametrize("shape", SHAPES)
def test_imported_logits_equal_their_forward_pass(tmp_path: Path, shape: str, kind: str) -> None:
    content = checkpoint(**SHAPES[shape])
    save(tmp_path / "model", content, _use_new_zipfile_serialization=kind == "zip")
    translator = regard.load(fairseq.read(tmp_path / "model", tmp_path / "run").path, device="cpu")
    sentence, output = "the dog sle@@ eps in a hou@@ se .", "a ri@@ ver the dog"
    (source,), (target,) = (side.encode([text]) for side, text in (
        (translator.tokenizers.source, sentence), (translator.tokenizers.target, output)))  # fmt: skip
    numbers = {"<s>": THEIR_BOS, "<pad>": THEIR_PAD, "</s>": THEIR_EOS, "<unk>": THEIR_UNK}
    numbers |= {f"▁{word}": i + 4 for i, word in enumerate(WORDS)}
    order = [numbers[piece] for piece in translator.tokenizers.target.pieces(range(len(numbers)))]
    theirs = [[order[token] for token in tokens] for tokens in (source, target)]
    assert theirs[0] == [*(WORDS.index(word) + 4 for word in sentence.split()), THEIR_EOS]
    with torch.no_grad():
        expected = their_logits(content, theirs[0], [THEIR_EOS, *theirs[1][:-1]])
        found = translator.feed([source], [target])[0]
    torch.testing.assert_close(found, expected[:, order], atol=1e-4, rtol=1e-4)
    assert translator.model.config.tie == {"post": "none", "pre": "all", "learned": "target"}[shape]


def test_pieces_separated_by_spaces_go_in_and_come_out(tmp_path: Path) -> None:
    run = fairseq.read(save(tmp_path / "model", checkpoint()), tmp_path / "run")
    source = regard.load(run.path, device="cpu").tokenizers.source
    (tokens,) = source.encode(["the hou@@ se unheard ."])
    assert source.pieces(tokens) == ["▁the", "▁hou@@", "▁se", "<unk>", "▁.", "</s>"]
    assert source.decode([tokens[0], tokens[1], tokens[2], EOS]) == "the hou@@ se"


def test_the_sentencepiece_model_of_the_dictionary_makes_its_pieces(tmp_path: Path) -> None:
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["the house sleeps in a river", "the dog sings"] * 9), model_writer=model, vocab_size=30,
        model_type="bpe", minloglevel=2,
    )  # fmt: skip
    (tmp_path / "sp.model").write_bytes(model.getvalue())
    processor = spm.SentencePieceProcessor(model_proto=model.getvalue())
    words = [processor.id_to_piece(i) for i in range(3, 14)]
    folder = save(tmp_path / "model", checkpoint(), words)
    with pytest.raises(RegardError, match="holds SentencePiece pieces: give the model that made them with --tokenizer"):
        fairseq.read(folder, tmp_path / "run")
    run = fairseq.read(folder, tmp_path / "run", tmp_path / "sp.model")
    source = regard.load(run.path, device="cpu").tokenizers.source
    assert source.vocab_size == 4 + len(words)
    pieces = processor.encode("the dog", out_type=str)
    expected = [piece if piece in words else "<unk>" for piece in pieces]
    assert source.pieces(source.encode(["the dog"])[0][:-1]) == expected


def test_a_sentencepiece_model_that_does_not_fit_the_dictionary_is_refused(tmp_path: Path) -> None:
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["xyz zyx", "zzz yx"] * 9), model_writer=model, vocab_size=10, model_type="bpe",
        minloglevel=2,
    )  # fmt: skip
    (tmp_path / "sp.model").write_bytes(model.getvalue())
    folder = save(tmp_path / "model", checkpoint(), [f"▁{word}" for word in WORDS])
    with pytest.raises(RegardError, match=r"sp\.model has only 0 of the 11 pieces of .*dict\.en\.txt: give the model"):
        fairseq.read(folder, tmp_path / "run", tmp_path / "sp.model")


def test_names_of_older_versions_are_understood(tmp_path: Path) -> None:
    """One matrix for queries, keys and values, and norms by number, as before 2019."""
    content = checkpoint()
    old: Weights = {}
    for name, tensor in content["model"].items():
        if ".k_proj." in name or ".v_proj." in name:
            continue
        if ".q_proj." in name:
            parts = [content["model"][name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
            old[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
            continue
        numbers = {"self_attn": 0, "encoder_attn": 1, "final": 2 if name.startswith("decoder") else 1}
        for norm, number in numbers.items():
            name = name.replace(f".{norm}_layer_norm.", f".layer_norms.{number}.")
        old[name] = tensor
    assert set(old) != set(content["model"])
    runs = [
        fairseq.read(save(tmp_path / name, {**content, "model": model}), tmp_path / f"run-{name}")
        for name, model in (("new", content["model"]), ("old", old))
    ]
    a, b = (dict(regard.load(run.path, device="cpu").model.named_parameters()) for run in runs)
    for name, tensor in a.items():
        assert torch.equal(tensor, b[name]), name


def test_settings_are_found_in_a_configuration_too(tmp_path: Path) -> None:
    """Later versions keep `cfg`, a dictionary of sections, instead of `args`."""
    content = checkpoint()
    arguments = content.pop("args")
    content |= {"args": None, "cfg": {"model": arguments, "task": {"source_lang": "en", "target_lang": "de"}}}
    run = fairseq.read(save(tmp_path / "model", content), tmp_path / "run")
    assert run.recipe.model.n_heads == H
    assert run.recipe.model.start == "eos"


def test_an_imported_run_translates_and_trains_on(tmp_path: Path) -> None:
    run = fairseq.read(save(tmp_path / "model", checkpoint(share_all_embeddings=True)), tmp_path / "run")
    translator = regard.load(run.path, device="cpu")
    assert all(word in WORDS for word in translator.translate("the dog .", extra_length=3).split())
    lines = "\n".join(["the dog sle@@ eps .", "a ri@@ ver in the hou@@ se"] * 20) + "\n"
    for name in ("a", "b"):
        (tmp_path / name).write_text(lines)
    files = [str(tmp_path / "a"), str(tmp_path / "b")]
    values = {
        "init": str(run.path), "data": {"train": files, "valid": files, "max_length": 32},
        "model": {**vars(run.recipe.model), "dropout": 0.0}, "tokenizer": {"vocab_size": len(WORDS) + 4},
        "train": {
            "steps": 30, "batch_tokens": 200, "warmup_steps": 5, "report_every": 5, "valid_every": 30, "lr_scale": 0.1,
            "save_every": 30, "average": 0, "tensorboard": False, "valid_sentences": 0, "threads": 1,
        },
    }  # fmt: skip
    fit(values, tmp_path / "tuned")
    losses = [record["loss"] for record in Run.open(tmp_path / "tuned").records() if "loss" in record]
    assert losses[-2] < losses[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder_attention_heads": 2}, "encoder_attention_heads = 2 and decoder_attention_heads = 4 must be equal"),
        ({"encoder_attention_heads": None, "decoder_attention_heads": None}, "does not say encoder_attention_heads"),
        ({"no_scale_embedding": True}, "no_scale_embedding is nothing that a recipe can say"),
        ({"activation_fn": "tanh"}, "activation_fn = 'tanh' must be relu, gelu or swish"),
        ({"source_lang": "fr"}, "has no dictionaries"),
    ],
)
def test_what_no_recipe_can_say_is_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    folder = save(tmp_path / "model", checkpoint(**settings))
    with pytest.raises(RegardError, match=message):
        fairseq.read(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_tensor_that_has_no_place_is_refused(tmp_path: Path) -> None:
    content = checkpoint()
    content["model"] |= norm_tensors("encoder.layernorm_embedding")
    with pytest.raises(RegardError, match=r"encoder\.layernorm_embedding\.bias has no place"):
        fairseq.read(save(tmp_path / "model", content), tmp_path / "run")
    content = checkpoint()
    content["model"] |= {"a": torch.zeros(2)}
    with pytest.raises(RegardError, match="a has no place"):
        fairseq.read(save(tmp_path / "stray", content), tmp_path / "run")


def test_a_missing_tensor_and_a_foreign_dictionary_are_named(tmp_path: Path) -> None:
    content = checkpoint()
    with pytest.raises(RegardError, match=r"has 15 rows, but the dictionary has 14"):
        fairseq.read(save(tmp_path / "model", content, WORDS[:-1]), tmp_path / "run")
    del content["model"]["decoder.layers.1.fc2.bias"]
    with pytest.raises(RegardError, match=r"no decoder\.layers\.1\.fc2\.bias"):
        fairseq.read(save(tmp_path / "model", content), tmp_path / "run")


def test_a_folder_with_several_checkpoints_asks_for_one(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", checkpoint())
    (folder / "checkpoint_best.pt").rename(folder / "checkpoint1.pt")
    (folder / "checkpoint2.pt").write_bytes((folder / "checkpoint1.pt").read_bytes())
    with pytest.raises(RegardError, match=r"has checkpoint1\.pt, checkpoint2\.pt: give the path of the file"):
        fairseq.read(folder, tmp_path / "run")
    assert fairseq.read(folder / "checkpoint2.pt", tmp_path / "run").steps() == [1]


def test_an_import_says_which_checkpoint_it_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = save(tmp_path / "model", checkpoint())
    (folder / "checkpoint_last.pt").write_bytes((folder / "checkpoint_best.pt").read_bytes())
    import_(folder, "fairseq", tmp_path / "run")
    assert f"Made {tmp_path / 'run'} of {folder / 'checkpoint_best.pt'}: " in capsys.readouterr().err
