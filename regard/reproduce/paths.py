"""How far apart positions are: chains of layer applications, found by walking torch's autograd graph.

An application is one use of a layer or of a cell, from tensors of single positions to tensors of single positions. On
which inputs an output depends, backpropagation through that one application says: those with a gradient. Nothing here
knows what kind of layer it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Apply = Callable[[list[Tensor]], list[Tensor]]


@dataclass(frozen=True)
class Application:
    inputs: list[Tensor]
    outputs: list[Tensor]


class Applications:
    """All that were made, in order."""

    def __init__(self) -> None:
        self.made: list[Application] = []
        self.maker: dict[int, Application] = {}  # by the identity of an output, which `made` keeps alive

    def __call__(self, function: Apply, inputs: Sequence[Tensor]) -> list[Tensor]:
        application = Application(list(inputs), function(list(inputs)))
        self.made.append(application)
        self.maker.update({id(output): application for output in application.outputs})
        return application.outputs

    def shortest(self, start: Tensor, goal: Tensor) -> int | None:
        """The fewest applications on a way back from an output to an input; None where there is no way."""
        frontier, seen, steps = [start], {id(start)}, 0
        while frontier:
            steps += 1
            reached = [tensor for tensor in self.behind(frontier) if id(tensor) not in seen]
            if any(tensor is goal for tensor in reached):
                return steps
            seen |= {id(tensor) for tensor in reached}
            frontier = reached
        return None

    def behind(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """The inputs that these outputs depend on, each through the application that made it."""
        made: dict[int, tuple[Application, list[Tensor]]] = {}
        for output in outputs:
            if id(output) in self.maker:  # others are inputs of the whole
                application = self.maker[id(output)]
                made.setdefault(id(application), (application, []))[1].append(output)
        found: dict[int, Tensor] = {}
        for application, its in made.values():
            # Random directions: where an output depends on an input at all, the sum of such gradients is not zero.
            directions = [torch.randn_like(output) for output in its]
            gradients = torch.autograd.grad(
                its, application.inputs, directions, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            for tensor, gradient in zip(application.inputs, gradients, strict=True):
                if bool(gradient.any()):
                    found[id(tensor)] = tensor
        return list(found.values())

    def longest(self) -> int:
        """The most applications that wait for one another: so many steps even with a processor for each."""
        depth: dict[int, int] = {}
        for application in self.made:
            waited = [depth[id(self.maker[id(x)])] for x in application.inputs if id(x) in self.maker]
            depth[id(application)] = 1 + max(waited, default=0)
        return max(depth.values(), default=0)


Layers = Callable[[int], Callable[[list[Tensor], Applications], list[Tensor]]]


def inputs(n: int, d: int) -> list[Tensor]:
    return [torch.randn(1, d, dtype=torch.float64, requires_grad=True) for _ in range(n)]


def sequential_steps(layer: Callable[[list[Tensor], Applications], list[Tensor]], n: int, d: int = 2) -> int:
    """Of one layer over n positions."""
    applications = Applications()
    layer(inputs(n, d), applications)
    return applications.longest()


def maximum_path(layers: Layers, n: int, d: int = 2) -> int:
    """Applications between the first input and the last output of n, in a stack just high enough to join them.

    layers: gives the l-th of the stack, from 0, acting on tensors of width d
    """

    def across(height: int) -> int | None:
        torch.manual_seed(0)
        applications, xs = Applications(), inputs(n, d)
        ys = xs
        for level in range(height):
            ys = layers(level)(ys, applications)
        return applications.shortest(ys[-1], xs[0])

    low, high = 0, 1  # a stack of `low` does not join them
    while (found := across(high)) is None:
        low, high = high, 2 * high
        if low > n:
            raise ValueError("a layer that does not reach farther however many stand on one another")
    while high - low > 1:
        middle = (low + high) // 2
        between = across(middle)
        low, high, found = (middle, high, found) if between is None else (low, middle, between)
    return found
