"""What recurrence forgets: how much an output still depends on an input, by the distance between them.

    g(δ) = ‖∂(v·y_n) / ∂x_{n−δ}‖,   v a random direction, x random vectors

for networks as they are initialised, before anything is learned. In a recurrence g is a product of δ Jacobians: with a
recurrent matrix whose singular values are below one it vanishes, above one it may explode (Bengio et al. 1994; Pascanu
et al. 2013). A convolution is exactly blind beyond its field; attention has one step to every position.

Clipping scales a whole gradient down to a given norm. It tames explosion; what has vanished stays vanished, since every
distance is scaled alike.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.config import TransformerConfig
from regard.errors import RegardError
from regard.models.transformer import Encoder
from regard.nn.convolution import GatedConvolution
from regard.nn.layers import initialise
from regard.nn.layout import Padded
from regard.nn.positions import sinusoids
from regard.nn.recurrent import Layer
from regard.view.curves import Panel, curves_png

SCALES = (0.5, 0.8, 1.0, 1.25, 1.5, 2.0)  # of the RNN's recurrent matrix, which begins orthogonal
SMALL = 0.01  # standard deviation of the inputs of those: near zero tanh is nearly linear, so that the matrix decides
CLIP_NORM = 1.0
SEQUENCES = 16
HEADS = 4


class Convolutions(nn.Module):
    """Causal gated convolutions with residual connections scaled by √½ (Gehring et al. 2017, §3.2)."""

    def __init__(self, d: int, dilations: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GatedConvolution(d, 3, dilation, causal=True) for dilation in dilations)
        for layer in self.layers:
            assert isinstance(layer, GatedConvolution)
            layer.initialise(0.0)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, N, d) → (B, N, d)"""
        for layer in self.layers:
            x = (x + layer(x)) * math.sqrt(0.5)
        return x


class Attentions(nn.Module):
    """A Transformer's encoder, with positions."""

    def __init__(self, d: int, n_layers: int) -> None:
        super().__init__()
        self.encoder = Encoder(TransformerConfig(n_layers=n_layers, d_model=d, d_ff=4 * d, n_heads=HEADS, dropout=0.0))
        initialise(self.encoder)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, N, d) → (B, N, d)"""
        B, N, d = x.shape
        layout = Padded.whole(B, N, x.device)
        return self.encoder(x + sinusoids(torch.arange(N, device=x.device), d).to(x.dtype), layout)


Make = Callable[[int], nn.Module]
KINDS: dict[str, Make] = {
    "RNN": lambda d: Layer("rnn", d, d),
    "LSTM": lambda d: Layer("lstm", d, d),
    "GRU": lambda d: Layer("gru", d, d),
    "convolution, 8 layers": lambda d: Convolutions(d, [1] * 8),
    "convolution, 5 dilated": lambda d: Convolutions(d, [1, 2, 4, 8, 16]),
    "Transformer, 2 layers": lambda d: Attentions(d, 2),
}


def scaled_rnn(d: int, scale: float) -> nn.Module:
    layer = Layer("rnn", d, d)
    with torch.no_grad():
        layer.weights.u.mul_(scale)
    return layer


@dataclass(frozen=True)
class Scaled:
    """An RNN whose recurrent matrix is `scale` times an orthogonal one."""

    scale: float
    by_distance: list[float]
    norm: float  # of the gradient of all weights
    clipped: float  # the same after clipping
    far: float  # what part of the gradient lies in the farther half of the positions; clipping leaves it as it is


@dataclass(frozen=True)
class Forgetting:
    distance: int
    by_kind: dict[str, list[float]]  # g(δ) / g(0) for δ from 0 up to `distance`
    scaled: list[Scaled]


def measure(distance: int, width: int, seeds: int, device: torch.device) -> Forgetting:
    if width % HEADS:
        raise RegardError(f"--width {width} must be a multiple of {HEADS}, the heads of the Transformer.")
    by_kind = {name: over_seeds(make, distance, width, seeds, device) for name, make in KINDS.items()}
    return Forgetting(distance, by_kind, [one_scale(scale, distance, width, seeds, device) for scale in SCALES])


def one_scale(scale: float, distance: int, width: int, seeds: int, device: torch.device) -> Scaled:
    make = partial(scaled_rnn, scale=scale)
    by_distance = over_seeds(make, distance, width, seeds, device, SMALL)
    torch.manual_seed(0)
    model = make(width).to(device)
    gradient = gradients(model, distance, width, device, SMALL)
    norm = float(nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM))
    clipped = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None))
    far = float(gradient[distance // 2 + 1 :].sum() / gradient.sum())
    return Scaled(scale, by_distance, norm, clipped, far)


def over_seeds(
    make: Make, distance: int, width: int, seeds: int, device: torch.device, size: float = 1.0
) -> list[float]:
    """g(δ) / g(0), the geometric mean over networks; 0 where an input is not seen."""
    logarithms = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        found = gradients(make(width).to(device), distance, width, device, size)
        logarithms.append((found / found[0]).log())
    mean: list[float] = torch.stack(logarithms).mean(dim=0).exp().tolist()
    return mean


def gradients(model: nn.Module, distance: int, width: int, device: torch.device, size: float) -> Tensor:
    """g(δ) for δ from 0, a mean over sequences; leaves the gradients of the weights behind. → (distance + 1,)"""
    model.double()
    x = torch.randn(SEQUENCES, distance + 1, width, dtype=torch.float64).mul_(size).to(device).requires_grad_()
    direction = torch.randn(SEQUENCES, width, dtype=torch.float64).to(device)
    (model(x)[:, -1] * direction).sum().backward()
    assert x.grad is not None
    return x.grad.norm(dim=-1).mean(dim=0).flip(0).cpu()


# --- telling ---------------------------------------------------------------------------------------------


def table(found: Forgetting) -> str:
    """In Markdown."""
    marks = [*(δ for δ in (1, 5, 10, 20, 50, 100) if δ < found.distance), found.distance]
    lines = [
        "| network | " + " | ".join(f"δ = {δ}" for δ in marks) + " |",
        "|---|" + "--:|" * len(marks),
        *(
            f"| {name} | " + " | ".join(f"{values[δ]:.1e}" if values[δ] else "0" for δ in marks) + " |"
            for name, values in found.by_kind.items()
        ),
        "",
        "g(δ) / g(0): how strongly an output depends on the input δ positions before it, at initialisation.",
        "",
        f"| recurrent matrix × | g({found.distance}) / g(0) | gradient of the weights | clipped at {CLIP_NORM:g} | "
        "part from the farther half |",
        "|--:|--:|--:|--:|--:|",
    ]
    for one in found.scaled:
        numbers = [f"{one.scale:g}", f"{one.by_distance[-1]:.1e}", f"{one.norm:.3g}", f"{one.clipped:.3g}"]
        lines.append("| " + " | ".join([*numbers, f"{100 * one.far:.3g} %"]) + " |")
    return "\n".join(lines) + "\n"


def write(found: Forgetting, folder: Path) -> None:
    """forgetting.md, forgetting.json and forgetting.png."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "forgetting.md").write_text(table(found), encoding="utf-8")
    (folder / "forgetting.json").write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    norms = {
        "gradient of the weights": [(one.scale, one.norm) for one in found.scaled],
        f"clipped at {CLIP_NORM:g}": [(one.scale, one.clipped) for one in found.scaled],
    }
    by_scale = {f"RNN, U × {one.scale:g}": list(enumerate(one.by_distance)) for one in found.scaled}
    by_kind = {name: list(enumerate(values)) for name, values in found.by_kind.items()}
    panels = [
        Panel("at initialisation", "distance δ", "g(δ) / g(0)", by_kind, log_x=False),
        Panel("vanishing and exploding", "distance δ", "g(δ) / g(0)", by_scale, log_x=False),
        Panel("what clipping does", "scale of the recurrent matrix", "norm", norms, log_x=False),
    ]
    curves_png(folder / "forgetting.png", "What recurrence forgets", panels)
