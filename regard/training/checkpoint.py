"""Checkpoints: safetensors and JSON, written atomically, each file with its checksum. No pickle.

A checkpoint is a folder that appears under its name only when all of it is on the disk. Loading copies
numbers into the tensors of a live model: their memory, and so the kernels chosen for them, stay as they are
in a run that was never interrupted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.config import to_dict
from regard.data.batching import Place
from regard.data.files import file_hash
from regard.errors import RegardError
from regard.training import ranks
from regard.training.optim import Adam
from regard.training.run import MANIFEST, Run

FORMAT = 1
FILES = ("model.safetensors", "training.safetensors")


@dataclass
class Progress:
    """Where a run stands, besides its tensors."""

    step: int = 0
    place: Place = field(default_factory=Place)
    best: float | None = None  # the best validation so far, by train.best_by
    best_step: int = 0
    stalled: int = 0  # validations since then
    unreported: float = 0.0  # the losses of the updates since the last report, added up
    ended: bool = False  # early stopping has ended the run


@dataclass(frozen=True)
class Snapshot:
    """All of a checkpoint in memory of its own, so that training goes on while it is written.

    `fingerprints` identify what the run depends on beside its recipe: tokenizer and data.
    """

    progress: Progress
    model: dict[str, Tensor]
    training: dict[str, Tensor]  # moments of the optimiser, states of the random numbers
    fingerprints: dict[str, str]
    machine: dict[str, Any]

    @classmethod
    def take(cls, progress: Progress, model: nn.Module, optimiser: Adam, fingerprints: dict[str, str]) -> Snapshot:
        device = next(model.parameters()).device
        training = {**moments(model, optimiser), **random_states(device)}
        ours, theirs = (
            {name: tensor.to("cpu", copy=True) for name, tensor in tensors.items()}
            for tensors in (weights(model), training)
        )
        return cls(replace(progress), ours, theirs, fingerprints, machine(device))


def save(run: Run, snapshot: Snapshot) -> None:
    """Write the checkpoint of a step; on failure leave everything as it was."""
    step = snapshot.progress.step
    final, new = run.checkpoint(step), run.checkpoints / f".new-{step}"
    with explained(f"The checkpoint of step {step}", run.checkpoints, new):
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for name, tensors in zip(FILES, (snapshot.model, snapshot.training), strict=True):
            write_tensors(tensors, new / name)
        state = {
            "format": FORMAT, "progress": asdict(snapshot.progress), "recipe": to_dict(run.recipe),
            "fingerprints": snapshot.fingerprints, "machine": snapshot.machine,
            "checksums": {name: file_hash(new / name) for name in FILES},
        }  # fmt: skip
        (new / "state.json").write_text(json.dumps({**state, "checksum": digest(state)}, indent=1))
        for path in (*new.iterdir(), new):
            flush(path)
        new.rename(final)
        flush(run.checkpoints)


def write_tensors(tensors: dict[str, Tensor], path: Path, note: dict[str, str] | None = None) -> None:
    """A safetensors file for those whom the umask lets in: safetensors itself lets in its owner alone."""
    path.touch()
    mode = path.stat().st_mode  # asked of a file, since a umask cannot be read without changing it for all threads
    save_file(tensors, path, metadata=note)
    path.chmod(mode)


@contextmanager
def explained(what: str, where: Path, leftover: Path) -> Iterator[None]:
    """A full disk in a sentence, without the half-written file."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)
        raise RegardError(
            f"{what} could not be written to {where}: {error}. What was saved before is intact; make room and give the "
            "same command again to go on."
        ) from error


def load_state(folder: Path) -> dict[str, Any]:
    """The checked `state.json` of a checkpoint."""
    try:
        state: dict[str, Any] = json.loads((folder / "state.json").read_text())
        claimed = state.pop("checksum")
    except (OSError, ValueError, KeyError) as error:
        raise damaged(folder / "state.json") from error
    if claimed != digest(state):
        raise damaged(folder / "state.json")
    if state["format"] != FORMAT:
        raise RegardError(f"{folder} has checkpoint format {state['format']}, this version of regard reads {FORMAT}.")
    return state


def unfinished(run: Run) -> str:
    """A sentence on a run that has stopped before its last step, though not by early stopping; nothing of others, nor
    of imported weights that have not been trained on."""
    if not run.steps() or not run.log.is_file():
        return ""
    step, planned = run.steps()[-1], run.recipe.train.steps
    try:
        ended = step >= planned or load_state(run.checkpoint(step))["progress"]["ended"]
    except RegardError:
        return ""  # said where its weights are read
    if ended:
        return ""
    return f"{run.path} has come to step {step:,} of {planned:,}: the same regard train command goes on."


def load_tensors(path: Path, expected: str) -> dict[str, Tensor]:
    """The tensors of a file whose checksum is known."""
    try:
        if file_hash(path) != expected:
            raise damaged(path)
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise damaged(path) from error


def damaged(path: Path) -> RegardError:
    if (path.parent / MANIFEST).is_file():
        advice = "Export the run again."
    elif path.parent.name.startswith("step-"):
        advice = f"Delete the folder {path.parent} to go on from the checkpoint before it."
    else:
        advice = "Delete it; the same regard train command makes it again."
    return RegardError(f"{path} is missing, truncated or altered: its checksum does not match. {advice}")


def restore(folder: Path, model: nn.Module, optimiser: Adam, fingerprints: dict[str, str]) -> Progress:
    """Bring model, optimiser and random numbers to the moment of the checkpoint."""
    state = load_state(folder)
    for what, before in state["fingerprints"].items():
        if fingerprints[what] != before:
            raise RegardError(
                f"The {what} is not the one {folder} was trained with, so the run cannot go on exactly: restore it, or "
                "start a new run with init."
            )
    copy_weights(model, load_tensors(folder / FILES[0], state["checksums"][FILES[0]]))
    training = load_tensors(folder / FILES[1], state["checksums"][FILES[1]])
    for name, parameter in trained(model).items():
        for key, tensor in optimiser.begin(parameter).items():
            tensor.copy_(training[f"{key}/{name}"])
    torch.set_rng_state(training["random/cpu"].clone())
    device = next(model.parameters()).device
    if device.type == "cuda" and "random/cuda" in training:
        torch.cuda.set_rng_state(training["random/cuda"].clone(), device)
    progress = state["progress"]
    return Progress(**{**progress, "place": Place(**progress["place"])})


def copy_weights(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    ours = weights(model)
    if ours.keys() != tensors.keys():
        odd = sorted(ours.keys() ^ tensors.keys())
        raise RegardError(f"The weights are of another architecture: {odd[0]} is on one side only.")
    with torch.no_grad():
        for name, tensor in ours.items():
            if tensor.shape != tensors[name].shape:
                raise RegardError(
                    f"The weights are of another architecture: {name} has shape {tuple(tensors[name].shape)}, "
                    f"not {tuple(tensor.shape)}."
                )
            tensor.copy_(tensors[name])


def weights(model: nn.Module) -> dict[str, Tensor]:
    """The parameters by name, each shared one once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def moments(model: nn.Module, optimiser: Adam) -> dict[str, Tensor]:
    return {
        f"{key}/{name}": tensor
        for name, parameter in trained(model).items()
        for key, tensor in optimiser.state[parameter].items()
    }


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are not frozen: an optimiser knows no others."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"random/cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["random/cuda"] = torch.cuda.get_rng_state(device)
    return states


def machine(device: torch.device) -> dict[str, Any]:
    """What bit-exactness depends on; a difference on resuming is announced."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "ranks": ranks.size(),
        "accelerator": torch.cuda.get_device_name(device) if device.type == "cuda" else "none",
    }


def average(run: Run, steps: Iterable[int]) -> None:
    """The mean of the weights of several checkpoints (§6.1), beside the run's recipe."""
    total: dict[str, Tensor] = {}
    steps = list(steps)
    for step in steps:
        folder = run.checkpoint(step)
        tensors = load_tensors(folder / FILES[0], load_state(folder)["checksums"][FILES[0]])
        for name, tensor in tensors.items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    mean = {name: (tensor / len(steps)).float() for name, tensor in total.items()}
    note = json.dumps({"steps": steps, "checksum": tensor_digest(mean)})
    new = run.averaged.with_name(".averaged.new")
    with explained("The average of the last checkpoints", run.path, new):
        write_tensors(mean, new, {"regard": note})
        flush(new)
        new.replace(run.averaged)


def load_averaged(run: Run) -> dict[str, Tensor]:
    try:
        with safe_open(run.averaged, framework="pt") as file:
            note = json.loads((file.metadata() or {}).get("regard", "{}"))
            tensors = {name: file.get_tensor(name) for name in list(file.keys())}
    except (OSError, SafetensorError, ValueError) as error:
        raise damaged(run.averaged) from error
    if note.get("checksum") != tensor_digest(tensors):
        raise damaged(run.averaged)
    return tensors


def load_ema(folder: Path) -> dict[str, Tensor]:
    """The moving average of the weights at a checkpoint; of frozen ones, themselves."""
    model, training = (load_tensors(folder / file, load_state(folder)["checksums"][file]) for file in FILES)
    found = {name.removeprefix("ema/"): tensor for name, tensor in training.items() if name.startswith("ema/")}
    if not found:
        raise RegardError(f"{folder} has no moving average of its weights: train with train.ema, e.g. 0.999.")
    return {**model, **found}


def tensor_digest(tensors: dict[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name in sorted(tensors):
        total.update(name.encode() + tensors[name].numpy().tobytes())
    return total.hexdigest()


def digest(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def flush(path: Path) -> None:
    """Have a file or a folder's entries on the disk before going on."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
