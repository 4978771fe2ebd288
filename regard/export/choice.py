"""Which engine translates: torch on a run's own weights, or CTranslate2 on an export of them.

A run is translated by torch in float32, which is the reference, unless CTranslate2 or fewer bits are asked for. Its
export is then made on first use, inside the run, under a name that follows from the weights: a run that has been
trained further is exported again. An exported folder is translated by what it was made for.

What an engine cannot honour is refused by name. Where nobody has asked for that engine and the weights for torch are at
hand, torch translates instead, and that is said.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import regard
from regard.config import DecodeConfig, read_section
from regard.data.tokenizer import TokenizerPair
from regard.decode.engine import refusals
from regard.decode.translator import Translator
from regard.errors import RegardError, nearest
from regard.export.engines import Ctranslate2Engine, Settings
from regard.export.formats import QUANTIZATIONS, digest_of, export, unfit
from regard.export.manifest import Manifest
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.families import FAMILIES
from regard.training.checkpoint import flush, tensor_digest
from regard.training.load import WEIGHTS, load_weights
from regard.training.pairs import load_translator
from regard.training.run import MANIFEST, Run

ENGINES = ("auto", "torch", "ctranslate2")
EXPORTS = "exports"  # the folder of a run for exports of its own


def open_translator(
    path: Path,
    engine: str = "auto",
    quantization: str = "",
    which: str = "auto",
    device: str = "auto",
    settings: Settings | None = None,
    *,
    alignments: bool = False,
    partners: Sequence[Path] = (),
    phrases: bool = False,
    remark: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> Translator:
    """A run or an exported folder, opened with the engine that serves the request.

    `quantization`: float32, int16 or int8 for CTranslate2; else that of the folder, and float32 for a run. `which`
    weights of a run. `alignments` will be asked for, so that torch must have weights too. `partners` are runs that
    translate together with this one. `phrases` or prefixes will be asked for, which torch alone knows. `remark` is told
    what users should know. `options` are keys of [decode].
    """
    check_names(engine, quantization)
    if Run(path).recipe_file.is_file() or not (path / MANIFEST).is_file():
        run = Run.open(path)
        if run.manifest.is_file() and not run.steps():  # an export that nobody has trained further
            Manifest.verified(path)
        if engine == "torch" or (engine == "auto" and not quantization):
            check_torch(settings)
            return changed(load_translator([path, *partners], which, device), options)
        if refused := unfit(run.pair_recipe, "ctranslate2"):  # before anything is written
            raise RegardError(
                f"CTranslate2 cannot hold this model. {refused}. Leave --engine and --quantization out: torch "
                "translates."
            )
        config = read_section(DecodeConfig, {**vars(run.pair_recipe.decode), **options}, "decode.")
        refuse(engine, beyond(config, phrases, partners), "leave --engine and --quantization out: torch translates")
        folder = export_within(run, quantization or "float32", which, remark)
        manifest = Manifest.open(folder)
        model = load_translator(path, which, "cpu").model if alignments else shape_alone(folder, manifest)
    else:
        folder, manifest = path, Manifest.open(path)
        check_folder(folder, manifest, engine, quantization, which)
        config = read_section(DecodeConfig, {**vars(manifest.decode), **options}, "decode.")
        beyond_it, home = beyond(config, phrases, partners), None
        if beyond_it or alignments:
            home = weights_at_hand(folder, manifest, device, partners)
        if beyond_it and home and engine == "auto":
            check_torch(settings)
            remark(f"CTranslate2 cannot honour {' and '.join(beyond_it)}: the run's own weights translate, by torch.")
            return changed(home, options)
        refuse(engine, beyond_it, "give the run that it was made of, which torch translates")
        if alignments and not home:
            raise RegardError(
                f"{folder} has no weights for torch, from which alignments are read: give the run that it was made of."
            )
        model = home.model if home else shape_alone(folder, manifest)
    tokenizers = TokenizerPair.load(folder / "tokenizer")
    opened = Ctranslate2Engine(folder, settings)
    if opened.instead:
        remark(
            f"CTranslate2 does not compute in {manifest.quantization} on this machine: {opened.instead} is used on the "
            f"weights of {manifest.quantization}."
        )
    return Translator(folder.name, model, tokenizers, config, engine=opened)


def beyond(config: DecodeConfig, phrases: bool, partners: Sequence[Path]) -> list[str]:
    """What of a request CTranslate2 cannot honour."""
    refused = refusals(Ctranslate2Engine.honours, config)
    return [*refused, *["prefixes or phrases"] * phrases, *["several runs together"] * bool(partners)]


def changed(translator: Translator, options: dict[str, Any]) -> Translator:
    translator.config = translator.options(**options)
    return translator


def check_names(engine: str, quantization: str) -> None:
    if engine not in ENGINES:
        raise RegardError(f"There is no engine {engine}{nearest(engine, ENGINES)}: choose {', '.join(ENGINES)}.")
    if quantization and quantization not in QUANTIZATIONS:
        choices = ", ".join(QUANTIZATIONS)
        raise RegardError(f"There is no quantization {quantization}{nearest(quantization, QUANTIZATIONS)}: {choices}.")
    if quantization and engine == "torch":
        raise RegardError("--engine torch computes with the weights as they are: leave --quantization out.")


def check_torch(settings: Settings | None) -> None:
    if settings and settings.compute_type != Settings.compute_type:
        raise RegardError(
            f"--compute-type {settings.compute_type} is for CTranslate2, and torch translates here: leave it out, or "
            "give --engine ctranslate2."
        )


def check_folder(folder: Path, manifest: Manifest, engine: str, quantization: str, which: str) -> None:
    """Whether an exported folder is one to translate with as it was asked for."""
    if manifest.format != "ctranslate2":
        raise RegardError(
            f"{folder} is in the format {manifest.format}, for other programs: give a run, or an export to ctranslate2 "
            "or safetensors."
        )
    if engine == "torch":
        raise RegardError(f"{folder} has no weights for torch: give the run that it was made of.")
    if which != "auto":
        raise RegardError(f"{folder} has one set of weights: leave --weights out, or give the run that it was made of.")
    if quantization and quantization != manifest.quantization:
        raise RegardError(
            f"{folder} holds {manifest.quantization}: leave --quantization out, or give the run that it was made of."
        )


def refuse(engine: str, refused: Sequence[str], instead: str) -> None:
    if refused:
        asked = "--engine ctranslate2" if engine == "ctranslate2" else "CTranslate2"
        raise RegardError(f"{asked} cannot honour {' and '.join(refused)}: {instead}.")


def shape_alone(folder: Path, manifest: Manifest) -> EncoderDecoder:
    """A model without numbers, which takes no memory."""
    tokenizers = TokenizerPair.load(folder / "tokenizer")
    with torch.device("meta"):
        model = FAMILIES[manifest.model.family].model
        return model(manifest.model, tokenizers.source.vocab_size, tokenizers.target.vocab_size)


def export_within(run: Run, quantization: str, which: str, remark: Callable[[str], None]) -> Path:
    """The export of a run's weights inside the run, made where it is not there yet. Processes that come at the same
    time wait for the one that makes it."""
    digest = tensor_digest(load_weights(run, which))
    key = hashlib.sha256(f"{digest} {regard.__version__}".encode()).hexdigest()[:12]
    folder = run.path / EXPORTS / f"ctranslate2-{quantization}-{key}"
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(exist_ok=True)
        lock = (folder.parent / ".lock").open("w")
    except OSError as error:
        raise RegardError(
            f"{folder.parent} cannot be written ({error.strerror}): export to another place with regard export --to "
            "ctranslate2, and translate with that folder."
        ) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            remark(f"Exporting to {folder}, once for these weights.")
            with export(run.path, "ctranslate2", folder, quantization, which) as exported:
                if digest_of(exported.translator) != digest:
                    raise RegardError(f"{run.path} was trained further meanwhile: give the command again.")
                for path in sorted(exported.folder.rglob("*")):
                    flush(path)
    return folder


def weights_at_hand(folder: Path, manifest: Manifest, device: str, partners: Sequence[Path] = ()) -> Translator | None:
    """The weights that an exported folder was made of, where it lies inside their run, with partners."""
    run = Run(folder.resolve().parent.parent)
    if folder.resolve().parent.name != EXPORTS or not run.recipe_file.is_file():
        return None
    for which in WEIGHTS[1:]:
        try:
            tensors = load_weights(run, which)
        except RegardError:  # this run has none of that kind
            continue
        if tensor_digest(tensors) == manifest.weights:
            return load_translator([run.path, *partners], which, device)
    return None
