"""The formats a run can be exported to, and the folder of each.

Every folder has `export.json`, which says what it is and the sha256 of its files, `tokenizer/`, and a README on its
use. It appears under its name only when all of it is written.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import regard
from regard.config import PairRecipe, TransformerConfig, to_dict, to_toml
from regard.decode.translator import Translator
from regard.errors import RegardError, nearest
from regard.export import ctranslate2, marian, onnx
from regard.export.manifest import file_digests
from regard.training.checkpoint import flush, tensor_digest, weights, write_tensors
from regard.training.pairs import load_translator
from regard.training.run import MANIFEST, Run

QUANTIZATIONS = ("float32", "int16", "int8")


@dataclass(frozen=True)
class Format:
    """How a model is written in one format, and what that format cannot hold."""

    write: Callable[[Translator, PairRecipe, Path, str], None]
    refusals: Callable[[TransformerConfig], list[str]]
    quantizations: tuple[str, ...]
    packages: tuple[str, ...]  # needed to write it
    extra: str  # the extra of ours that installs them
    usage: str  # Python, inside the folder
    by_power: bool  # whether what reads it ranks by |Y|^α, whatever the recipe says


def write_safetensors(translator: Translator, recipe: PairRecipe, folder: Path, quantization: str) -> None:
    """A run directory of weights, recipe and tokenizer alone, without the paths of anybody's text or runs."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in weights(translator.model).items()}
    note = json.dumps({"steps": [], "checksum": tensor_digest(tensors)})
    write_tensors(tensors, folder / Run(folder).averaged.name, {"regard": note})
    data = replace(recipe.data, train=(), valid=(), test=(), train_target="", prepared="")
    train = replace(recipe.train, freeze="")  # which means nothing without init
    (folder / "recipe.toml").write_text(to_toml(replace(recipe, init="", data=data, train=train)), encoding="utf-8")


FORMATS = {
    "ctranslate2": Format(
        lambda translator, recipe, folder, quantization: ctranslate2.write(translator, folder, quantization),
        ctranslate2.refusals, QUANTIZATIONS, ("ctranslate2",), "fast",
        """import ctranslate2, sentencepiece
source = sentencepiece.SentencePieceProcessor("tokenizer/{source}.model")
target = sentencepiece.SentencePieceProcessor("tokenizer/{target}.model")
translator = ctranslate2.Translator(".")
pieces = source.encode("A sentence.", out_type=str)
best = translator.translate_batch([pieces], beam_size=4, length_penalty=0.6, patience=2, disable_unk=True)[0]
print(target.decode_pieces(best.hypotheses[0]))""",
        by_power=True,
    ),
    "onnx": Format(
        lambda translator, recipe, folder, quantization: onnx.write(translator, folder, quantization),
        lambda config: [], ("float32", "int8"), ("onnx", "onnxscript", "onnxruntime"), "onnx",
        """from pathlib import Path
from regard.config import DecodeConfig
from regard.data.tokenizer import TokenizerPair
from regard.export.engines import OnnxEngine
tokenizers, engine = TokenizerPair.load(Path("tokenizer")), OnnxEngine(Path("."))
best = engine.decode(tokenizers.source.encode(["A sentence."]), 1, DecodeConfig())[0][0]
print(tokenizers.target.decode(best.tokens))""",
        by_power=False,
    ),
    "marian": Format(
        lambda translator, recipe, folder, quantization: marian.write(translator, folder),
        marian.refusals, ("float32",), (), "hf",
        """from transformers import MarianMTModel, MarianTokenizer
model, tokenizer = (kind.from_pretrained(".") for kind in (MarianMTModel, MarianTokenizer))
batch = tokenizer(["A sentence."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))""",
        by_power=True,
    ),
    "safetensors": Format(
        write_safetensors, lambda config: [], ("float32",), (), "",
        """import regard
print(regard.load(".").translate("A sentence."))""",
        by_power=False,
    ),
}  # fmt: skip


@contextmanager
def export(run: Path, to: str, out: Path, quantization: str = "float32", weights: str = "auto") -> Iterator[Exported]:
    """Write a run in a format. Inside the block the folder has a name of its own, for checking; at its end it takes the
    name `out`, or where it was refused, `out` with .refused behind."""
    check_request(to, out, quantization)
    recipe, translator = Run.open(run).pair_recipe, load_translator(run, weights, device="cpu")
    kind = FORMATS[to]
    if refused := unfit(recipe, to):
        raise RegardError(f"{to} cannot hold this model. {refused}. --to safetensors can.")
    new = out.with_name(f".{out.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        kind.write(translator, recipe, new, quantization)
        translator.tokenizers.save(new / "tokenizer")
        manifest = {
            "format": to, "quantization": quantization, "name": recipe.name, "regard": regard.__version__,
            "model": to_dict(recipe.model), "decode": vars(recipe.decode), "weights": digest_of(translator),
        }  # fmt: skip
        (new / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        (new / "README.md").write_text(readme(translator, to, quantization), encoding="utf-8")
        exported = Exported(new, to, quantization, translator)
        yield exported
        seal(new, manifest)
        place = out if exported.accepted else out.with_name(f"{out.name}.refused")
        shutil.rmtree(place, ignore_errors=True)
        new.rename(place)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def unfit(recipe: PairRecipe, to: str) -> str:
    """Why a format cannot hold a model; nothing where it can."""
    if to == "safetensors":
        return ""
    if recipe.task != "translation":
        return f'A model of task = "{recipe.task}" is a run of our own alone'
    if recipe.model.family != "transformer":
        return f'A model of model.family = "{recipe.model.family}" is a run of our own alone'
    return ". ".join(FORMATS[to].refusals(recipe.model))


def seal(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the digests of a folder's files into its manifest, on the disk before the folder takes its name."""
    (folder / MANIFEST).write_text(
        json.dumps({**manifest, "files": file_digests(folder)}, indent=1) + "\n", encoding="utf-8"
    )
    flush(folder / MANIFEST)


def digest_of(translator: Translator) -> str:
    return tensor_digest({name: tensor.cpu() for name, tensor in weights(translator.model).items()})


@dataclass
class Exported:
    """A model that has just been written."""

    folder: Path
    format: str
    quantization: str
    translator: Translator  # the model as it was, on the CPU
    accepted: bool = True


def check_request(to: str, out: Path, quantization: str) -> None:
    if to not in FORMATS:
        raise RegardError(f"There is no format {to}{nearest(to, FORMATS)}: choose {', '.join(FORMATS)}.")
    kind = FORMATS[to]
    if quantization not in kind.quantizations:
        choices = ", ".join(kind.quantizations)
        raise RegardError(f"{to} has no quantization {quantization}: choose {choices}.")
    missing = [package for package in kind.packages if not find_spec(package)]
    if missing:
        raise RegardError(f"{to} needs {' and '.join(missing)}: pip install 'regard[{kind.extra}]'.")
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise RegardError(f"{out} is there already: remove it, or give another folder with --out.")


def readme(translator: Translator, to: str, quantization: str) -> str:
    shared = translator.tokenizers.shared
    source, target = ("shared", "shared") if shared else ("source", "target")
    usage = FORMATS[to].usage.format(source=source, target=target)
    ranking = (
        "Scores are normalised by |Y|^α here (`--normalization power` of `regard translate`). "
        if FORMATS[to].by_power
        else ""
    )
    return f"""# {translator.name}

A translation model in the format {to} ({quantization}), exported by regard {regard.__version__}. Inside this folder:

```python
{usage}
```

{ranking}`export.json` has its shape, and the sha256 of its files.
"""


def size_on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
