"""The files of a run: damaged ones, a tokenizer or recipe of another run, weights that are no numbers, embeddings that
never learned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from regard.config import differences, resolve
from regard.data.tokenizer import UNK, TokenizerPair
from regard.doctor.findings import Finding, Where
from regard.errors import RegardError
from regard.training import checkpoint
from regard.training.run import Run

TRAINING = "training.safetensors"
SMALL = 0.02  # of the median norm, below which an embedding is dead


def sound(run: Run) -> Iterator[Finding]:
    """Every file of weights against its checksum, and each number against being none."""
    files = []
    for step in run.steps():
        folder = run.checkpoint(step)
        try:
            files += [folder / name for name in checkpoint.load_state(folder)["checksums"]]
        except RegardError as error:
            yield Finding("weights-damaged", "error", Where((str(folder / "state.json"),)), str(error), "")
    if run.averaged.exists():
        files.append(run.averaged)
    if not files and not run.steps():
        what, advice = "The run has no checkpoint.", "Train it with regard train."
        if run.manifest.is_file():
            what, advice = f"The export has no {run.averaged.name}.", "Export the run again."
        yield Finding("no-weights", "error", Where((str(run.path),)), what, advice)
    for path in files:
        try:
            tensors = read(run, path)
        except RegardError as error:
            yield Finding("weights-damaged", "error", Where((str(path),)), str(error), "")
            continue
        broken = [name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())]
        if broken:
            yield Finding(
                "not-a-number", "error", Where((str(path),)),
                f"{len(broken)} of {len(tensors)} tensors hold NaN or infinity.",
                "Go on from an earlier checkpoint with a lower learning rate; delete this one.", tuple(broken[:3]),
            )  # fmt: skip


def read(run: Run, path: Path) -> dict[str, Tensor]:
    """The averaged weights, or a file of a checkpoint."""
    if path == run.averaged:
        return checkpoint.load_averaged(run)
    return checkpoint.load_tensors(path, checkpoint.load_state(path.parent)["checksums"][path.name])


def same_recipe(run: Run) -> Iterator[Finding]:
    """A recipe that was edited after training describes another model."""
    if not run.steps():
        return
    try:
        trained = resolve(checkpoint.load_state(run.checkpoint(run.steps()[-1]))["recipe"])
    except RegardError:
        return  # a damaged or older state is a finding of its own
    keys = ("model.", "tokenizer.", "seed:")
    changed = [line for line in differences(run.recipe, trained) if line.startswith(keys)]
    if changed:
        yield Finding(
            "recipe-changed", "error", Where((str(run.recipe_file),)),
            f"The recipe is not the one the weights were trained with: {'; '.join(changed[:3])}.",
            "Put it back as it was; a changed recipe needs a run of its own.",
        )  # fmt: skip


def fingerprint(run: Run) -> Iterator[Finding]:
    """The tokenizer's files against what the newest checkpoint remembers of them."""
    try:
        tokenizers = TokenizerPair.load(run.tokenizer)
    except RegardError as error:
        yield Finding(
            "tokenizer-damaged", "error", Where((str(run.tokenizer),)), str(error), "Restore it from a copy of the run."
        )
        return
    try:
        states = [checkpoint.load_state(run.checkpoint(step)) for step in run.steps()[-1:]]
    except RegardError:
        return  # a finding of its own
    if any(state["fingerprints"]["tokenizer"] != tokenizers.hash for state in states):
        yield Finding(
            "tokenizer-mismatch", "error", Where((str(run.tokenizer),)),
            "This is not the tokenizer the weights were trained with: every token number means another piece of text.",
            "Restore the tokenizer of this run; training it again gives other pieces.",
        )  # fmt: skip


def embeddings(run: Run, tensors: dict[str, Tensor], tokenizers: TokenizerPair) -> Iterator[Finding]:
    """Rows that are all but zero, or to which no gradient has ever come."""
    path = run.averaged if run.averaged.exists() else run.checkpoint(run.steps()[-1])
    for name in ("source_embedding.tokens.weight", "target_embedding.tokens.weight"):
        if name not in tensors:
            continue
        table = tensors[name].float()
        tokenizer = tokenizers.source if name.startswith("source") else tokenizers.target
        if len(table) != tokenizer.vocab_size:
            yield Finding(
                "tokenizer-mismatch", "error", Where((str(run.tokenizer),)),
                f"The tokenizer has {tokenizer.vocab_size:,} pieces, the model {len(table):,}.",
                "Restore the tokenizer of this run.",
            )  # fmt: skip
            continue
        norms = table.norm(dim=1)
        dead = norms < SMALL * norms.median()
        still = ~moved(run, name, len(table)) & ~dead
        for rows, what in ((dead, "are all but zero"), (still, "have had no gradient")):
            numbers = [i for i in rows.nonzero().flatten().tolist() if i > UNK]
            if numbers:
                pieces = tokenizer.pieces(numbers[:12])
                yield Finding(
                    "dead-embeddings", "warning" if rows is dead or len(numbers) > 0.1 * len(table) else "note",
                    Where((str(path),)),
                    f"{len(numbers):,} of {len(table):,} rows of {name} {what}.",
                    "These pieces mean nothing to the model: make tokenizer.vocab_size smaller, or train longer.",
                    (" ".join(pieces),),
                )  # fmt: skip


def moved(run: Run, name: str, size: int) -> Tensor:
    """Which rows Adam has seen a gradient for."""
    if not run.steps():
        return torch.ones(size, dtype=torch.bool)
    folder, key = run.checkpoint(run.steps()[-1]), f"exp_avg_sq/{name}"
    saved = checkpoint.load_state(folder)["checksums"]
    tensors = read(run, folder / TRAINING) if TRAINING in saved else {}
    return (tensors[key] != 0).any(dim=1) if key in tensors else torch.ones(size, dtype=torch.bool)
