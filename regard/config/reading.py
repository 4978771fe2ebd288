"""Reading, writing and comparing recipes."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar

from regard.config.checks import one_of
from regard.config.labels import LabelRecipe
from regard.config.pairs import PRESETS, PairModel, PairRecipe, TransformerConfig
from regard.config.parsing import ParsingRecipe
from regard.config.recipe import Recipe
from regard.config.set_tasks import SET_RECIPES
from regard.errors import RegardError, nearest

Section = TypeVar("Section")
AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)


HINTS: dict[type, dict[str, Any]] = {}  # kept: every search reads its options, and these take a millisecond


def hints_of(kind: type) -> dict[str, Any]:
    """The type of each key of a section."""
    if kind not in HINTS:
        HINTS[kind] = typing.get_type_hints(kind)
    return HINTS[kind]


def tasks_of(kind: type[Recipe]) -> tuple[str, ...]:
    """The tasks that a kind of recipe is for."""
    return typing.get_args(hints_of(kind)["task"])


KINDS: tuple[type[Recipe], ...] = (PairRecipe, ParsingRecipe, LabelRecipe, *SET_RECIPES)
RECIPES = {task: kind for kind in KINDS for task in tasks_of(kind)}

# --- reading ---------------------------------------------------------------------------------------------


def resolve(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    overrides: Mapping[str, Any] | Iterable[str] = (),
    remark: Callable[[str], None] = lambda text: None,
) -> Recipe:
    """A recipe from a shipped name, a TOML file, a nested mapping or another recipe, with dotted overrides
    (`{"train.steps": 500}` or `["train.steps=500"]`) applied last. `remark` is told what else they change."""
    if isinstance(recipe, Recipe):
        values = to_dict(recipe)
    elif isinstance(recipe, Mapping):
        values = json.loads(json.dumps(recipe))  # a deep copy of plain values
    else:
        path = find(str(recipe))
        values = load_toml(path)
        locate(values, Path.cwd() if path in shipped().values() else path.parent)
    if not isinstance(overrides, Mapping):
        overrides = dict(parse_override(text) for text in overrides)
    if isinstance(recipe, (PairRecipe, ParsingRecipe)):  # every key of it is explicit, so a preset must be spelled out
        values["model"].update(PRESETS.get(overrides.get("model.preset", ""), {}))
    for line in leave_behind(values, overrides):
        remark(line)
    for key, value in overrides.items():
        *sections, last = key.split(".")
        place = values
        for name in sections:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise RegardError(f"Recipe key {key}: {name} is a single value, not a section.")
        place[last] = value
    locate(values, Path.cwd())
    task = read_value(Literal[tuple(RECIPES)], values.get("task", "translation"), "task")
    return read_section(RECIPES[task], values)


def leave_behind(values: dict[str, Any], overrides: Mapping[str, Any]) -> Iterator[str]:
    """Take out of a recipe's [model] what a network that overrides ask for does not have: whoever asks for another
    family, or another attention, never typed those keys. What the recipe's own family does not have either stays, and
    is refused. Gives a line on what is gone."""
    model, task = values.get("model"), overrides.get("task", values.get("task", "translation"))
    if not isinstance(model, dict) or task not in RECIPES:
        return
    kinds = families_of(sections_of(hints_of(RECIPES[task]).get("model")))
    family = str(overrides.get("model.family", ""))
    old, new = kinds.get(model.get("family", next(iter(kinds), ""))), kinds.get(family)
    if old and new:
        gone = [key for key in model if key in hints_of(old) and key not in hints_of(new)]
        taken = {key: model.pop(key) for key in gone}
        if told := [f"model.{key}" for key, value in taken.items() if value != getattr(old, key)]:
            yield f'model.family = "{family}" has no {", ".join(told)}: the recipe\'s own are left out.'
    attention = overrides.get("model.attention", "additive")
    if attention != "additive" and "model.d_align" not in overrides and model.pop("d_align", 0):
        yield f'model.attention = "{attention}" has no model.d_align: the recipe\'s own is left out.'


def resolve_as(
    kind: type[AnyRecipe],
    recipe: str | Path | Mapping[str, Any] | Recipe,
    overrides: Mapping[str, Any] | Iterable[str] = (),
) -> AnyRecipe:
    """As `resolve`, for those who know one kind of recipe."""
    found = resolve(recipe, overrides)
    if not isinstance(found, kind):
        wanted = " or ".join(task for task, one in RECIPES.items() if issubclass(one, kind))
        raise RegardError(f'{found.name} is of task = "{found.task}", not {wanted}: {uses(found)}.')
    return found


def uses(recipe: Recipe) -> str:
    """The commands that its runs are for, said where another was given one."""
    verbs = [f"regard {verb}" for verb in recipe.VERBS]
    return f"for it are {', '.join(verbs[:-1])} and {verbs[-1]}"


def locate(values: dict[str, Any], folder: Path) -> None:
    """Make the paths of text files absolute, so that a run can be used from any folder. In a recipe file they
    are relative to the file, elsewhere to the current folder."""
    data = values.get("data")
    if not isinstance(data, dict):
        return
    for split in ("train", "valid", "test", "files", "extra"):
        files = data.get(split)
        if isinstance(files, list) and all(isinstance(file, str) for file in files):
            data[split] = [str((folder / file).resolve()) for file in files]
    for key in ("prepared", "train_target", "path"):
        if isinstance(data.get(key), str) and data[key]:
            data[key] = str((folder / data[key]).resolve())


def shipped() -> dict[str, Path]:
    """The recipes inside the package, by name."""
    folder = Path(str(resources.files("regard") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find(name: str) -> Path:
    path = Path(name)
    if name in shipped() and path.is_dir():  # a run that is called like its recipe
        return shipped()[name]
    if path.suffix == ".toml" or path.exists():
        if path.is_dir():
            raise RegardError(
                f"{name} is a folder, not a recipe; to go on with a run, give its recipe and --run {name}."
            )
        if not path.is_file():
            raise RegardError(f"No recipe file {name}.")
        return path
    if name not in shipped():
        raise RegardError(
            f"No recipe named {name}{nearest(name, shipped())}; shipped are {', '.join(shipped())}, "
            "or give the path of a .toml file."
        )
    return shipped()[name]


def load_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RegardError(f"{path} is not valid TOML: {error}.") from None
    except UnicodeDecodeError:
        raise RegardError(f"{path} is not UTF-8 text.") from None


def parse_override(text: str) -> tuple[str, Any]:
    """`train.steps=500` as a key and a TOML value; what is no TOML value is taken as a string."""
    key, equals, value = text.partition("=")
    if not equals:
        raise RegardError(f"Override {text!r} has no '=': write section.key=value, e.g. train.steps=500.")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def read_section(
    kind: type[Section], values: Mapping[str, Any], where: str = "", known: Sequence[str] | None = None
) -> Section:
    """Build a section from plain values, checking every key and type.

    `where` is the dotted path so far, `known` the dotted keys of the whole recipe, those of `kind` by default.
    """
    hints = hints_of(kind)
    known = keys_of(kind, where) if known is None else known
    for key in values:
        if key not in hints:
            raise RegardError(f"Unknown recipe key {where}{key}{nearest_key(where + key, known)}.")
    if issubclass(kind, TransformerConfig):
        preset = read_value(hints["preset"], values.get("preset", ""), "model.preset")
        values = {**PRESETS.get(preset, {}), **values}
    built: dict[str, Any] = {}
    for key, value in values.items():
        if choices := sections_of(hints[key]):
            if not isinstance(value, Mapping):
                raise RegardError(f"Recipe key {where}{key} is a section: write [{where}{key}] and its keys.")
            section = chosen(choices, value, f"{where}{key}.")
            built[key] = read_section(section, value, f"{where}{key}.", known)
        else:
            built[key] = read_value(hints[key], value, f"{where}{key}")
    return kind(**built)


def read_model(values: Mapping[str, Any]) -> PairModel:
    """The [model] section of a recipe for sequence pairs alone."""
    section: PairModel = read_section(chosen(sections_of(PairModel), values, "model."), values, "model.")
    return section


def sections_of(hint: Any) -> list[type]:
    """The kinds of section a field may hold: one, or several told apart by their `family`; none for a single value."""
    kinds = typing.get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return [kind for kind in kinds if isinstance(kind, type) and dataclasses.is_dataclass(kind)]


def chosen(kinds: Sequence[type], values: Mapping[str, Any], where: str) -> type:
    """The kind of section whose `family` the values name; the first where they name none. A key of another family is
    refused here, where all of them are known."""
    if len(kinds) == 1:
        return kinds[0]
    families = families_of(kinds)
    first = next(iter(families))
    family = read_value(Literal[tuple(families)], values.get("family", first), f"{where}family")
    for key in values:
        others = [f'"{name}"' for name, kind in families.items() if key in hints_of(kind)]
        if others and f'"{family}"' not in others:
            told = f"{where}{key} is a key of {where}family = {' or '.join(others)}"
            if "family" in values:
                raise RegardError(f'{told}, and this model is "{family}": leave it out.')
            raise RegardError(f'{told}, and without a family a model is "{first}": set {where}family.')
    return families[family]


def families_of(kinds: Sequence[type]) -> dict[str, type]:
    """Kinds of section by their `family`; none where they have no such key."""
    return {typing.get_args(hints["family"])[0]: kind for kind in kinds if "family" in (hints := hints_of(kind))}


def keys_of(kind: type, where: str = "") -> list[str]:
    """Every key that such a section may have, and its sections' keys, dotted."""
    keys: list[str] = []
    for key, hint in hints_of(kind).items():
        keys.append(f"{where}{key}")
        for section in sections_of(hint):
            keys += keys_of(section, f"{where}{key}.")
    return keys


def nearest_key(key: str, known: Sequence[str]) -> str:
    """A hint at the right dotted key: one that ends alike, or else one that looks alike."""
    last = key.rpartition(".")[2]
    same = [other for other in known if other.endswith(f".{last}")]
    return f" (did you mean {same[0]}?)" if same else nearest(key, known)


NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text in quotes"}


def read_value(hint: Any, value: Any, key: str) -> Any:
    """`value` checked against a field's type: int, float, bool, str, Literal[...] or tuple[str, ...]."""
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        one_of(value, choices, f"Recipe key {key}")
        return value
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise RegardError(f'Recipe key {key} must be a list such as ["a.en", "a.de"], not {value!r}.')
        return tuple(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not hint:
        raise RegardError(f"Recipe key {key} must be {NAMES[hint]}, not {value!r}.")
    if hint is float and not math.isfinite(value):
        raise RegardError(f"Recipe key {key} must be a finite number, not {value!r}.")
    return value


# --- writing and comparing -------------------------------------------------------------------------------


def to_dict(recipe: Any) -> dict[str, Any]:
    """Plain values, as JSON and TOML know them."""
    values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(recipe)))
    return values


def to_toml(recipe: Recipe) -> str:
    """The resolved recipe as TOML; JSON's scalars and lists of strings are TOML's too."""
    top, sections = [], []
    for key, value in to_dict(recipe).items():
        if isinstance(value, dict):
            lines = [f"{name} = {json.dumps(item, ensure_ascii=False)}" for name, item in value.items()]
            sections.append("\n".join([f"[{key}]", *lines]))
        else:
            top.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return "\n\n".join(["\n".join(top), *sections]) + "\n"


def differences(ours: Any, theirs: Any) -> list[str]:
    """One line for each key in which two recipes or sections differ: `train.steps: 100 here, 200 there`."""
    here, there = flatten(to_dict(ours)), flatten(to_dict(theirs))
    keys = dict.fromkeys([*here, *there])
    return [
        f"{key}: {here.get(key)!r} here, {there.get(key)!r} there" for key in keys if here.get(key) != there.get(key)
    ]


def flatten(values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{where}{key}.")
        else:
            flat[f"{where}{key}"] = value
    return flat
