"""What the estimators of sets have in common: their parameters, fitting, and saving without pickle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

import regard
from regard.config import SetTransformerConfig, read_section
from regard.data.files import file_hash
from regard.errors import InputError, RegardError
from regard.estimators.checking import check_names, checked_names, checked_sets, names_of
from regard.estimators.conventions import BaseEstimator, NotFitted, seed_of
from regard.estimators.fitting import Pace, train
from regard.estimators.scaling import moments, scaled
from regard.models.set_transformer import SetTransformer
from regard.tasks.arrays import ArrayTask, Objective, joined, within_budget
from regard.training.checkpoint import copy_weights, weights, write_tensors
from regard.training.device import pick
from regard.training.run import ESTIMATOR, write_atomically

FORMAT = 1
Section = TypeVar("Section", Pace, SetTransformerConfig)
FILES = (ESTIMATOR, "model.safetensors")
PARAMETERS = """
    Parameters, all by name:

    encoder              what elements know of one another before pooling: "isab" by way of a few inducing points, for
                         sets of any size; "sab" each of each, for small ones; "rff" nothing; "rffp_mean", "rffp_max"
                         the set's mean or maximum (Deep Sets)
    pooling              "pma" learns what to look at; "dotprod" learns one weight an element; "mean", "sum", "max".
                         What counts elements or adds them up needs "sum": the others do not know how many there are
    n_layers             of the encoder
    d_model, n_heads     width, and attention heads, which divide it
    n_inducing           inducing points of an isab
    decoder_layers       SABs after pma; None, which clusterers begin with: one after pma, none after another pooling
    layer_norm           after each part of a block
    scale                scores are divided by the root of a head's width ("head") or of d_model ("width", the paper)
    dropout              of what pooling gives, in training
    max_epochs           passes over the sets
    batch_size           sets of an update
    learning_rate        the highest; it rises to it and falls to nothing at the last epoch
    early_stopping       hold out validation_fraction of the sets, end when they get no better for n_iter_no_change
                         epochs, and keep the best weights
    standardise          shift and scale each column of the sets, by all elements seen in fit
    random_state         a number, or numpy's generators; None: another model each time
    device               "auto": a GPU where there is one; "cpu", "cuda", "cuda:1" …
    verbose              True, or a number above 0: a line on stderr for each epoch
    """
ATTRIBUTES = """
    Attributes, after fit:

    n_iter_              epochs trained; with early_stopping the weights are those of the epoch that validated best
    history_             of each epoch a dictionary: its number ("epoch"), the mean "loss" over it, and where there was
                         a validation the "validation_loss":
                         {losses}
    n_features_in_       d, how many columns the sets have
    feature_names_in_    what these are called, where all sets were data frames
    shift_, spread_      what is subtracted from each column, and what it is divided by then, in float64
    model_               the network{own}
    """


@dataclass(kw_only=True, repr=False, eq=False)
class SetEstimator(BaseEstimator):
    """A Set Transformer with `fit`. The parameters are flat, as scikit-learn wants them (`PARAMETERS`)."""

    encoder: Literal["rff", "rffp_mean", "rffp_max", "sab", "isab"] = "isab"
    pooling: Literal["mean", "sum", "max", "dotprod", "pma"] = "pma"
    n_layers: int = 2
    d_model: int = 64
    n_heads: int = 4
    n_inducing: int = 16
    decoder_layers: int | None = 0  # SABs after pma; None: one, where there is pma
    layer_norm: bool = True
    scale: Literal["width", "head"] = "head"  # scores / √d_model as in the paper, or / √(d_model / n_heads)
    dropout: float = 0.0
    max_epochs: int = 100
    batch_size: int = 32  # sets
    learning_rate: float = 1e-3  # the highest; it rises to it and falls to nothing at the last epoch
    early_stopping: bool = True  # end when sets that were held out get no better, and keep the best weights
    validation_fraction: float = 0.1  # of the sets, held out for early stopping
    n_iter_no_change: int = 10  # epochs without improvement that end the training
    standardise: bool = True  # shift and scale each column of the sets, by all elements seen in fit
    random_state: Any = None
    device: str = "auto"
    verbose: bool | int = False  # a line on stderr for each epoch

    _PLAIN: ClassVar[tuple[str, ...]] = ("n_features_in_", "n_iter_", "history_")  # what is saved as JSON
    _ARRAYS: ClassVar[tuple[str, ...]] = ("shift_", "spread_")  # what is saved as tensors, beside the weights

    def __init_subclass__(cls, losses: str = "", own: str = "", **options: Any) -> None:
        """losses: what those of `history_` are   own: attributes of this class alone, for its help"""
        super().__init_subclass__(**options)
        if losses:
            cls.__doc__ = f"{cls.__doc__}\n{PARAMETERS}{ATTRIBUTES.format(losses=losses, own=own)}"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # scikit-learn's own
        tags.input_tags.two_d_array = False
        return tags

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Of the network, so that `regard.capture` can look at the attention of an estimator."""
        return self._fitted().named_modules()

    def _fitted(self) -> SetTransformer:
        if not hasattr(self, "model_"):
            raise NotFitted(f"This {type(self).__name__} is not fitted yet: call fit first.")
        return self.model_

    # --- fitting -----------------------------------------------------------------------------------------

    @contextmanager
    def _refitting(self) -> Iterator[None]:
        """Forget the fit before this one, unless this one fails: then it stays, whole."""
        before = dict(vars(self))
        try:
            for name in before:
                if name.endswith("_"):
                    delattr(self, name)
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _checked(self, X: Any) -> list[np.ndarray]:
        """The sets of `fit`, and what their columns are called."""
        sets = checked_sets(X)
        if names := checked_names(X):
            self.feature_names_in_ = np.array(names, dtype=object)
        return sets

    def _fit_to(self, sets: list[np.ndarray], target: Tensor, objective: Objective, n_outputs: int, d_out: int) -> None:
        """Train a new network on checked sets. target: (number of sets, …)"""
        wordy = plainly(self.verbose)  # scikit-learn has numbers here too
        pace = self._read(Pace, verbose=wordy > 0 if isinstance(wordy, int) else wordy)
        if pace.early_stopping and len(sets) < 2:
            raise InputError("One set cannot be divided into training and validation: set early_stopping=False.")
        seed, device = seed_of(self.random_state), pick(pace.device)
        self.n_features_in_ = d = sets[0].shape[1]
        shift, spread = moments(sets) if pace.standardise else (np.zeros(d), np.ones(d))
        self.shift_, self.spread_ = shift, spread
        config = self._config(n_outputs)
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            model = SetTransformer(config, d, d_out)
            trained, held_out = pace.split(len(sets), seed)
            standard = [scaled(one, shift, spread) for one in sets]
            task = ArrayTask(model, objective, standard, target, trained, held_out, pace.batch_size, seed)
            self.history_ = train(task, pace, type(self).__name__)
        self.n_iter_ = len(self.history_)
        self.model_ = model.eval()

    def _config(self, n_outputs: int) -> SetTransformerConfig:
        attends = self.pooling == "pma"
        return self._read(
            SetTransformerConfig, n_outputs=n_outputs, n_seeds=n_outputs if attends else 1,
            head_layers=0 if attends else 1,
            decoder_layers=int(attends) if self.decoder_layers is None else self.decoder_layers,
        )  # fmt: skip

    def _read(self, kind: type[Section], **more: Any) -> Section:
        """A section from the parameters that have the names of its fields, and from `more`."""
        params = self.get_params(deep=False)
        values = {field.name: params[field.name] for field in fields(kind) if field.name in params} | more
        try:
            return read_section(kind, {name: plainly(value) for name, value in values.items()})
        except RegardError as error:  # in the words of a recipe, which nobody has seen here
            raise InputError(str(error).replace("Recipe key ", "").replace("model.", "")) from None

    # --- asking ------------------------------------------------------------------------------------------

    def _each(self, X: Any, answer: Callable[[Tensor, Any, Tensor], Sequence[Any]]) -> list[Any]:
        """`answer(x, layout, outputs)` for sets in groups, the answers of all sets in order."""
        model = self._fitted()
        sets = checked_sets(X, self.n_features_in_)
        if (known := getattr(self, "feature_names_in_", None)) is not None:
            for number, one in enumerate(X):
                if names := names_of(one):
                    check_names(number, names, known, "fit")
        device = next(model.parameters()).device
        answers: list[Any] = []
        with torch.inference_mode():
            for group in within_budget(np.array([len(one) for one in sets])):
                x, layout = joined([scaled(sets[number], self.shift_, self.spread_) for number in group])
                x, layout = x.to(device), layout.to(device)
                answers += answer(x, layout, model(x, layout))
        return answers

    def _outputs(self, X: Any) -> np.ndarray:
        """What the network says: (B, n_outputs, d_out)."""
        return np.stack(self._each(X, lambda x, layout, outputs: list(outputs.float().cpu().numpy())))

    # --- saving ------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write a folder of safetensors and JSON, without pickle.

        The network is saved as it was fitted, whatever `set_params` has changed since. A numpy generator is no number:
        in the place of one, random_state is saved as None.
        """
        model, folder = self._fitted(), Path(path)
        arrays = {f"estimator/{name}": torch.from_numpy(np.asarray(getattr(self, name))) for name in self._ARRAYS}
        tensors = {f"model/{name}": tensor.cpu().contiguous() for name, tensor in weights(model).items()}
        record = {
            "format": FORMAT, "regard": regard.__version__, "estimator": type(self).__name__,
            "params": savable(self.get_params(deep=False)),
            "fitted": {name: plainly(getattr(self, name)) for name in self._PLAIN},
            "feature_names": plainly(getattr(self, "feature_names_in_", None)),
            "network": asdict(model.config), "n_outputs": model.n_outputs, "d_out": model.d_out,
        }  # fmt: skip
        try:
            folder.mkdir(parents=True, exist_ok=True)
            new = folder / f".{FILES[1]}.new"
            write_tensors({**tensors, **arrays}, new)
            new.replace(folder / FILES[1])
        except (OSError, SafetensorError) as error:
            raise RegardError(f"The estimator could not be written to {folder}: {error}.") from error
        record["checksum"] = file_hash(folder / FILES[1])
        write_atomically(folder / FILES[0], json.dumps(record, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Self:
        """An estimator as it was saved, on a device."""
        folder = Path(path)
        record = read_record(folder)
        if record["format"] != FORMAT:
            raise RegardError(f"{folder} has format {record['format']}; this version of regard reads {FORMAT}.")
        if record["estimator"] != cls.__name__:
            raise RegardError(f"{folder} holds a {record['estimator']}: open it with {record['estimator']}.load.")
        tensors = load_file(folder / FILES[1])
        try:
            made = cls._restored(record, tensors)
        except (KeyError, TypeError, AttributeError, RegardError):
            raise damaged(folder) from None
        made.model_ = made.model_.to(pick(device)).eval()
        return made

    @classmethod
    def _restored(cls, record: dict[str, Any], tensors: dict[str, Tensor]) -> Self:
        """From what was saved: the parameters, the fitted attributes and the network."""
        made = cls(**record["params"])
        for name in cls._ARRAYS:
            array = tensors.pop(f"estimator/{name}").numpy()
            setattr(made, name, array.astype(np.float64))  # earlier versions had float32
        for name in cls._PLAIN:
            value = record["fitted"][name]
            setattr(made, name, np.array(value) if name == "classes_" else value)
        if names := record.get("feature_names"):
            made.feature_names_in_ = np.array(names, dtype=object)
        told = record.get("network")  # earlier versions did not save it
        config = read_section(SetTransformerConfig, told) if told else made._config(record["n_outputs"])
        made.model_ = SetTransformer(config, made.n_features_in_, record["d_out"])
        copy_weights(made.model_, {name.removeprefix("model/"): tensor for name, tensor in tensors.items()})
        return made


def savable(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters as JSON has them."""
    values = {name: plainly(value) for name, value in params.items()}
    if isinstance(values.get("random_state"), (np.random.Generator, np.random.RandomState)):
        values["random_state"] = None
    for name, value in values.items():
        if not isinstance(value, (bool, int, float, str, type(None))):
            raise RegardError(f"{name} = {value!r} cannot be saved: set {name} to a number or to text.")
    return values


def read_record(folder: Path) -> dict[str, Any]:
    """What a saved estimator says of itself, with the weights found as they were saved."""
    try:
        text, checksum = (folder / FILES[0]).read_bytes(), file_hash(folder / FILES[1])
    except OSError:
        raise RegardError(f"{folder} is not a saved estimator: it needs {FILES[0]} and {FILES[1]}.") from None
    try:
        record: dict[str, Any] = json.loads(text)
        saved, _, _ = (record[key] for key in ("checksum", "format", "estimator"))
    except (ValueError, KeyError, TypeError):
        raise damaged(folder) from None
    if saved != checksum:
        raise RegardError(f"{folder / FILES[1]} is not the file that was saved: its checksum does not match.")
    return record


def damaged(folder: Path) -> RegardError:
    return RegardError(f"{folder / FILES[0]} is damaged: save the estimator again, or take another copy of it.")


def plainly(value: Any) -> Any:
    """In Python's own types, where numpy or torch has a name for the same."""
    if isinstance(value, torch.device):
        return str(value)
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
