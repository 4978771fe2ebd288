"""How close two outputs of one sentence were, where two ways of searching give different ones.

Matrix products of other shapes, batches or programs round differently, so that candidates of nearly the same
probability may change places. The *margin* of a difference is how far apart the model, fed with both outputs, finds
them. Greedy search chooses a token at a time, so its margin is that of the first that differs. A beam drops beginnings
by their log-probability and ranks whole outputs by score, so its margin is the closest that the two come: beginnings of
equal length, or the whole, whose scores are brought back to log-probabilities. A beam may also part at a tie with a
third hypothesis, which neither output shows; then the margin is larger than what decided, never smaller.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.config import DecodeConfig
from regard.decode.looking import Looking
from regard.decode.state import NORMALIZATIONS

MARGIN = 1e-4  # of log-probability, within which rounding may decide


def margin(model: Looking, source: list[int], ours: list[int], theirs: list[int], config: DecodeConfig) -> float:
    """Of two different outputs of one search."""
    if config.beam_size == 1:
        return greedy_margin(model, source, ours, theirs)
    return beam_margin(model, source, ours, theirs, config)


def greedy_margin(model: Looking, source: list[int], ours: list[int], theirs: list[int]) -> float:
    first = first_difference(ours, theirs)
    if first is None:
        return float("inf")
    a, b = (token_log_probs(model, source, tokens)[first] for tokens in (ours, theirs))
    return abs(float(a - b))


def beam_margin(model: Looking, source: list[int], ours: list[int], theirs: list[int], config: DecodeConfig) -> float:
    a, b = (token_log_probs(model, source, tokens).cumsum(0) for tokens in (ours, theirs))
    norm = NORMALIZATIONS[config.normalization]
    here, there = (norm(a.new_tensor(len(one)), config.length_penalty) for one in (ours, theirs))
    whole = float((a[-1] / here - b[-1] / there).abs() * here)
    first, shorter = first_difference(ours, theirs), min(len(ours), len(theirs))
    return whole if first is None else min(whole, float((a[:shorter] - b[:shorter])[first:].abs().min()))


def first_difference(ours: list[int], theirs: list[int]) -> int | None:
    """Where two outputs part; nowhere if one goes on where the other was cut."""
    return next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)


@torch.inference_mode()
def token_log_probs(model: Looking, source: list[int], target: list[int]) -> Tensor:
    """The log-probability of each token of an output, (T,), fed at once."""
    logits = model.feed([source], [target])[0].double()  # (T, V)
    return logits.log_softmax(-1).gather(1, torch.tensor(target, device=logits.device)[:, None])[:, 0]
