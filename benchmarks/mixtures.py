"""How well can sets be clustered by likelihood at all?

    python benchmarks/mixtures.py --sets 1000

On the test sets of a clustering recipe: the parameters that drew the points (the oracle), expectation maximisation from
there, and the likeliest of many such climbs, with σ to be found, as by a network, and with the true σ. Climbs begin at
points that are drawn by their distance from those drawn before, in turn by its square, as k-means++ does it, and by
itself.

What is likelier than the truth need not be closer to it. Two clusters that overlap are likelier as one, the component
that is left over splits another; and a component may collapse on a few points that happen to lie close together, which
the last column counts: sets with a σ below a third of the true one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.config import resolve_as
from regard.config.set_tasks import ClusteringRecipe
from regard.nn.em import assign, em_step, mean_log_likelihood
from regard.nn.layout import Padded
from regard.nn.mixture import Mixture
from regard.tasks.clustering import ClusteringTask, oracle, rand_indices


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="set-clustering")
    parser.add_argument("--sets", type=int, default=1_000)
    parser.add_argument("--restarts", type=int, default=40)
    parser.add_argument("--steps", type=int, default=60, help="of every climb")
    parser.add_argument("--out", type=Path, help="folder for mixtures.json")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    task = ClusteringTask(resolve_as(ClusteringRecipe, arguments.recipe, {}))
    found: dict[str, list[np.ndarray]] = {}
    for sets, batch in task.held_out("test", arguments.sets, torch.device("cpu")):
        truth = oracle(sets, batch.x.device)
        for name, mixture in answers(batch.x, batch.layout, truth, arguments.restarts, arguments.steps):
            likelihood = mean_log_likelihood(batch.x, batch.layout, mixture).numpy()
            indices = rand_indices(assign(batch.x, batch.layout, mixture).numpy(), sets)
            collapsed = (mixture.sigmas < truth.sigmas / 3).any(dim=2).any(dim=1).numpy()
            found.setdefault(name, []).append(np.stack([likelihood, indices, collapsed]))
    whole = {name: np.concatenate(parts, axis=1) for name, parts in found.items()}
    print(table(whole))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        means = {name: values.mean(axis=1).tolist() for name, values in whole.items()}
        (arguments.out / "mixtures.json").write_text(json.dumps(means, indent=1) + "\n")


def table(found: dict[str, np.ndarray]) -> str:
    """found: of every way, (3, sets): likelihood, Rand index, whether a component has collapsed"""
    head = ("", "log-likelihood", "adjusted Rand index", "sets more than 0.1 below the oracle", "collapsed")
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    for name, (likelihood, indices, collapsed) in found.items():
        far = (found["oracle"][1] - indices > 0.1).mean()
        lines.append(
            f"| {name} | {likelihood.mean():.4f} | {indices.mean():.4f} | {far:.1%} | {collapsed.mean():.1%} |"
        )
    return "\n".join(lines)


def answers(x: Tensor, layout: Padded, truth: Mixture, restarts: int, steps: int) -> Iterator[tuple[str, Mixture]]:
    yield "oracle", truth
    yield "expectation maximisation from the oracle", climb(x, layout, truth, steps)
    yield f"the likeliest of {restarts} climbs", likeliest(x, layout, truth, restarts, steps)
    yield f"the likeliest of {restarts} climbs, true σ", likeliest(x, layout, truth, restarts, steps, truth.sigmas)


def climb(x: Tensor, layout: Padded, mixture: Mixture, steps: int, sigmas: Tensor | None = None) -> Mixture:
    """So many steps of expectation maximisation, σ given where it is."""
    for _ in range(steps):
        mixture = em_step(x, layout, mixture)
        mixture = mixture if sigmas is None else mixture._replace(sigmas=sigmas)
    return mixture


def likeliest(
    x: Tensor, layout: Padded, truth: Mixture, restarts: int, steps: int, sigmas: Tensor | None = None
) -> Mixture:
    """Of each set, the best of many climbs. Of the truth only the shape and the first σ are used."""
    B, K = truth.log_weights.shape
    even = torch.full((B, K), 1 / K).log()
    best, likelihood = truth, torch.full((B,), -torch.inf)
    for number in range(restarts):
        new = climb(x, layout, Mixture(even, seeds(x, layout, K, 2 - number % 2), truth.sigmas), steps, sigmas)
        reached = mean_log_likelihood(x, layout, new)
        better = ~(reached <= likelihood)  # the first is better than nothing, whatever it is
        likelihood = torch.where(better, reached, likelihood)
        best = Mixture(*(torch.where(fitting(better, a), a, b) for a, b in zip(new, best, strict=True)))
    return best


def fitting(sets: Tensor, part: Tensor) -> Tensor:
    """(B,) as (B, 1, …), for a part of a mixture."""
    return sets.view(-1, *[1] * (part.dim() - 1))


def seeds(x: Tensor, layout: Padded, K: int, power: int) -> Tensor:
    """(B, K, d): elements, each drawn by its distance, to a power, from those drawn before."""
    rows, chosen = torch.arange(len(x)), []
    distance = layout.mask.float()
    for _ in range(K):
        seed = x[rows, torch.multinomial(distance**power + 1e-12 * layout.mask, 1)[:, 0]]
        from_it = (x - seed[:, None]).norm(dim=-1) * layout.mask
        distance = torch.minimum(distance, from_it) if chosen else from_it
        chosen.append(seed)
    return torch.stack(chosen, dim=1)


if __name__ == "__main__":
    main()
