"""Recurrent layers: a state that reads one position after another.

    RNN:   h_t = tanh(W x_t + U h_{t−1} + b)                                       (Elman 1990)
    LSTM:  i, f, o = σ(W x_t + U h_{t−1} + b),  g = tanh(…)                        (Hochreiter and Schmidhuber 1997,
           c_t = f ∘ c_{t−1} + i ∘ g,  h_t = o ∘ tanh c_t                           forget gate: Gers et al. 2000)
    GRU:   r, z = σ(W x_t + U h_{t−1} + b),  n = tanh(W x_t + b + r ∘ (U h_{t−1} + b'))
           h_t = (1 − z) ∘ n + z ∘ h_{t−1}                                         (Cho et al. 2014)

`CELLS` has the formulas; torch's fused layers, equal to them, do the work: a whole sequence in one call, or one step in
one call where each input waits for the output before it. Cells compute in the type of their weights whatever the
precision around them: a state is a sum over all steps, and torch would run them in float16 under autocast.

Departures from the papers: the GRU is torch's variant, which multiplies by r after the product with U; Cho et al. do it
before. Its z is theirs (1 − z is what Bahdanau et al. call z). A layer reads backwards by reading its sequences turned
round, each within its own length, so that nothing asks a GPU for lengths; padding comes last and is read by nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.dropout import dropout
from regard.nn.layout import Layout, gathered

State = tuple[Tensor, ...]  # (h,), or (h, c) of an LSTM; each (…, H)


class Weights(NamedTuple):
    """Of one cell, its gates one below the other, as torch keeps them."""

    w: Tensor  # (G·H, d_in)
    u: Tensor  # (G·H, H)
    b_w: Tensor  # (G·H,)
    b_u: Tensor  # (G·H,)

    def of_input(self, x: Tensor) -> Tensor:
        return F.linear(x, self.w, self.b_w)

    def of_state(self, h: Tensor) -> Tensor:
        return F.linear(h, self.u, self.b_u)


# --- the formulas ----------------------------------------------------------------------------------------


def rnn_cell(x: Tensor, state: State, weights: Weights) -> State:
    """x: (B, d_in)   state: h (B, H)   → h"""
    (h,) = state
    return (torch.tanh(weights.of_input(x) + weights.of_state(h)),)


def lstm_cell(x: Tensor, state: State, weights: Weights) -> State:
    """x: (B, d_in)   state: h, c, each (B, H)   → h, c"""
    h, c = state
    i, f, g, o = (weights.of_input(x) + weights.of_state(h)).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_cell(x: Tensor, state: State, weights: Weights) -> State:
    """x: (B, d_in)   state: h (B, H)   → h"""
    (h,) = state
    r_x, z_x, n_x = weights.of_input(x).chunk(3, dim=-1)
    r_h, z_h, n_h = weights.of_state(h).chunk(3, dim=-1)
    r, z = (r_x + r_h).sigmoid(), (z_x + z_h).sigmoid()
    n = (n_x + r * n_h).tanh()
    return ((1 - z) * n + z * h,)


CELLS: dict[str, Callable[[Tensor, State, Weights], State]] = {"rnn": rnn_cell, "lstm": lstm_cell, "gru": gru_cell}
PARTS = {"rnn": 1, "lstm": 2, "gru": 1}  # tensors a state consists of
GATES = {"rnn": 1, "lstm": 4, "gru": 3}


def unrolled(kind: str, x: Tensor, state: State, weights: Weights) -> Tensor:
    """One layer along a sequence, by the formula. x: (B, N, d_in) → h of every position, (B, N, H)"""
    states = []
    for x_t in x.unbind(dim=1):
        state = CELLS[kind](x_t, state, weights)
        states.append(state[0])
    return torch.stack(states, dim=1)


# --- torch's fused layers, which do the work -------------------------------------------------------------

FUSED: dict[str, type[nn.RNN | nn.LSTM | nn.GRU]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class Layer(nn.Module):
    """One layer in one direction."""

    def __init__(self, kind: str, d_in: int, d_hidden: int) -> None:
        super().__init__()
        self.kind, self.d_hidden = kind, d_hidden
        self.fused = FUSED[kind](d_in, d_hidden, batch_first=True)
        initialise_cell(self.weights, kind)

    @property
    def weights(self) -> Weights:
        return Weights(*self.fused.all_weights[0])

    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        """x: (B, N, d_in)   state: (P, B, H), before the first; zeros where it is left out   → (B, N, H)"""
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(self.weights.w.dtype)
            if state is None:
                return self.fused(x)[0]
            parts = state.to(x.dtype)[:, None].contiguous().unbind(0)  # (1, B, H) each
            return self.fused(x, parts if len(parts) > 1 else parts[0])[0]

    def step(self, x: Tensor, state: Tensor) -> Tensor:
        """One position more. x: (B, d_in)   state: (P, B, H) → (P, B, H), of which the first part is the output"""
        with torch.autocast(x.device.type, enabled=False):
            w = self.weights
            x, state = x.to(w.w.dtype), state.to(w.w.dtype)
            if self.kind == "lstm":
                return torch.stack(torch.lstm_cell(x, state.unbind(0), *w))
            cell = torch.gru_cell if self.kind == "gru" else torch.rnn_tanh_cell
            return cell(x, state[0], *w)[None]


class Recurrence(nn.Module):
    """Layers one on another, from left to right, that begin with a given state and can go on step by step."""

    def __init__(self, kind: str, d_in: int, d_hidden: int, n_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        widths = [d_in, *[d_hidden] * (n_layers - 1)]
        self.layers = nn.ModuleList(Layer(kind, width, d_hidden) for width in widths)
        self.n_parts, self.d_hidden, self.dropout = PARTS[kind], d_hidden, dropout

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        """x: (B, N, d_in)   state: (L, P, B, H)   → the upper layer's, (B, N, H)"""
        for i, layer in enumerate(self.layers):
            x = layer(self.between(x) if i else x, state[i])
        return x

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """x: (B, d_in)   state: (L, P, B, H)   → the upper layer's output (B, H), and the state after it"""
        after = []
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            after.append(layer.step(self.between(x) if i else x, state[i]))
            x = after[-1][0]
        return x, torch.stack(after)

    def between(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout) if self.training else x


class RecurrentEncoder(nn.Module):
    """Layers over whole sequences, each from left to right, or in both directions side by side."""

    def __init__(
        self, kind: str, d_in: int, d_hidden: int, n_layers: int, bidirectional: bool, dropout: float = 0.0
    ) -> None:
        """d_hidden: of each direction."""
        super().__init__()
        self.d_out = d_hidden * (2 if bidirectional else 1)
        widths = [d_in, *[self.d_out] * (n_layers - 1)]
        self.forwards = nn.ModuleList(Layer(kind, width, d_hidden) for width in widths)
        self.backwards = nn.ModuleList(Layer(kind, width, d_hidden) for width in widths if bidirectional)
        self.dropout = dropout

    def forward(self, x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """x: (…, d_in) in `layout` → states (…, d_out) in `layout`, and the last ones of each layer (L, B, d_out).

        "Last" is where each direction ends: at a sequence's end, and for the backward one at its beginning.
        """
        x, lengths = layout.pad(x), layout.mask.sum(dim=1)  # (B, N, d_in), (B,)
        turn = turned(lengths, layout.size)
        ends, finals = (lengths - 1).clamp(min=0), []
        for i, layer in enumerate(self.forwards):
            if i and self.training:
                x = dropout(x, self.dropout)
            ahead = layer(x)
            states, last = [ahead], [at(ahead, ends)]
            if self.backwards:
                back = self.backwards[i](gathered(x, turn))
                states.append(gathered(back, turn))
                last.append(at(back, ends))
            x = torch.cat(states, dim=-1)
            finals.append(torch.cat(last, dim=-1))
        return layout.unpad(x), torch.stack(finals)


def turned(lengths: Tensor, size: int) -> Tensor:
    """Where each position goes when each sequence is turned round within its length; padding stays. → (B, N)"""
    places = torch.arange(size, device=lengths.device)[None]
    back = lengths[:, None] - 1 - places
    return torch.where(back >= 0, back, places)


def at(x: Tensor, places: Tensor) -> Tensor:
    """x: (B, N, d)   places: (B,) → (B, d)"""
    return gathered(x, places[:, None])[:, 0]


def initialise_cell(weights: Weights, kind: str) -> None:
    """Glorot-uniform input matrices, orthogonal recurrent ones, gate by gate; biases zero, but the LSTM's forget gate
    begins open, with 1 (Gers et al. 2000; Jozefowicz et al. 2015)."""
    H = weights.u.shape[1]
    with torch.no_grad():
        for w, u in zip(weights.w.split(H), weights.u.split(H), strict=True):
            limit = math.sqrt(6 / (w.shape[1] + H))
            w.uniform_(-limit, limit)
            nn.init.orthogonal_(u)
        weights.b_w.zero_()
        weights.b_u.zero_()
        if kind == "lstm":
            weights.b_w[H : 2 * H] = 1.0
