"""What a model of sets looks at, ready for `regard.view`.

Sets of points are drawn as points: what each seed and inducing point collects, and which elements some elements look
at. Sets of anything else are drawn as heat maps with an element a column, as sentences are, and sets of images once
more with the images themselves. All but large sets of points have a page beside
the picture.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.nn.em import assign
from regard.nn.layout import Padded
from regard.tasks.set_model import SetModel
from regard.tasks.sets import to_numpy
from regard.view import AttentionMap, AttentionView, attention_page, attention_png
from regard.view.sets import Clustering, Looks, clusterings_picture, flat, image_looks_png, looks_png
from regard.wording import counted

MOST_ON_A_PAGE = 100  # points: the page stores weights in 8 bits, which cannot tell those of larger sets apart


def draw(model: SetModel, number: int, folder: Path, name: str) -> list[Path]:
    """Draw what the model looks at in a test set; gives the files."""
    sets = model.test_sets([number])
    (answer,), captured = model.attend(sets)
    folder.mkdir(parents=True, exist_ok=True)
    seen = {path: to_numpy(weights[0]) for path, weights in captured.items()}  # (H, Q, K)
    if not seen:
        raise RegardError(f"{model.name} has no attention to look at: neither its encoder nor its pooling attends.")
    title, verdict = f"{model.name} · test set {number}", model.task.verdict(answer, sets)
    png = folder / f"{name}.png"
    looks = [looks_of(path, weights) for path, weights in seen.items() if to_elements(path)]
    points = flat(sets.elements[0]) if model.task.spatial else None
    names = place_names(points) if points is not None else model.task.element_names(sets, answer)
    view = AttentionView(title, f"a set of {int(sets.sizes[0])}", verdict, labelled(seen, names, points))
    drawn = [png]
    if points is not None:
        looks_png(points, looks, png, f"{title} · {verdict}")
    else:
        attention_png(view, png)
    if len(model.task.element) > 1:
        drawn.append(folder / f"{name}-images.png")
        image_looks_png(sets.elements[0], names, looks, drawn[-1], f"{title} · {verdict}")
    if points is not None and len(points) > MOST_ON_A_PAGE:
        return drawn
    page = folder / f"{name}.html"
    page.write_text(attention_page(view), encoding="utf-8")
    return [page, *drawn]


def place_names(points: np.ndarray) -> list[str]:
    return [f"({x:.3g}, {y:.3g})" for x, y in points]


def to_elements(path: str) -> bool:
    """Whether an attention looks at the elements of the set, not at inducing points or among seeds."""
    parts = path.split(".")
    return "distribute" not in parts and "decoder" not in parts


def looks_of(path: str, weights: np.ndarray) -> Looks:
    return Looks(path, looker(path), weights.mean(axis=0))


def looker(path: str) -> str:
    parts = path.split(".")
    if "pool" in parts or "decoder" in parts:
        return "seed"
    return "inducing" if "collect" in parts else "element"


def labelled(seen: dict[str, np.ndarray], elements: list[str], points: np.ndarray | None = None) -> list[AttentionMap]:
    """Maps with names for what looks and what is looked at, and their places where the elements are points."""
    maps = []
    for path, weights in seen.items():
        _, Q, K = weights.shape
        who, whom = looker(path), "element" if to_elements(path) else "seed" if "decoder" in path else "inducing"
        rows = elements if who == "element" else [f"{who} {i}" for i in range(Q)]
        columns = elements if whom == "element" else [f"{whom} {i}" for i in range(K)]
        places = [points if one == "element" else None for one in (who, whom)]
        maps.append(AttentionMap(path, rows, columns, weights, *places))
    return maps


# --- clusterings -----------------------------------------------------------------------------------------


def draw_clusterings(model: SetModel, path: Path, count: int = 10) -> None:
    """The first test sets with the centres and covariances that were found, and those that are true (Figure 4): `path`,
    and beside it the same as SVG."""
    sets = model.test_sets(range(min(count, model.n_test_sets)))
    found, _ = model.attend(sets)
    panels = []
    for row, mixture in enumerate(found):
        points = sets.elements[row, : sets.sizes[row]]
        nearest = assign(torch.from_numpy(points)[None], Padded.whole(1, len(points)), mixture)[0].numpy()
        ours = plain(mixture.log_weights.exp()), plain(mixture.means), plain(mixture.sigmas)
        truth = tuple(sets.truth[key][row] for key in ("weights", "means", "sigmas"))
        panels.append(Clustering(points, nearest, ours, (truth[0], truth[1], truth[2])))
    clusterings_picture(
        panels, [path, path.with_suffix(".svg")], f"{model.name} · {counted(len(panels), 'test set')}, by number"
    )


def plain(part: Tensor) -> np.ndarray:
    return to_numpy(part[0])
