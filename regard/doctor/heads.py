"""Attention that has collapsed: heads that look the same way whatever they are asked.

A head's weights are the same for every query when each row is nearly the mean of all rows. Some heads of a good model
do that; a whole attention of such heads passes nothing on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from regard.decode.translator import Translator
from regard.doctor.findings import Finding, Where
from regard.nn.attention import capture

ALIKE = 0.03  # mean distance (half the sum of differences) of a query's weights from the mean of all queries'
EVEN = 0.02  # the same from weights that are all equal


def collapsed(translator: Translator, sources: Sequence[str], targets: Sequence[str], file: str) -> Iterator[Finding]:
    """Attentions all of whose heads have collapsed, on some sentence pairs."""
    kinds = kinds_of_heads(translator, sources, targets)
    dead = {path: heads for path, heads in kinds.items() if all(heads)}
    cross = [path for path in kinds if path.endswith("cross_attn")]
    if cross and all(path in dead for path in cross):
        kind = most_common([kind for path in cross for kind in dead[path]])
        yield Finding(
            "attention-collapsed", "error", Where((file,)),
            f"Every head from the decoder to the source is {kind}: the model does not look at what it translates.",
            "Train longer, or with a lower learning rate and a longer warm-up; check that source and target belong "
            "together.",
            tuple(cross[:3]),
        )  # fmt: skip
        dead = {path: heads for path, heads in dead.items() if path not in cross}
    if dead:
        yield Finding(
            "attention-collapsed", "warning" if 2 * len(dead) > len(kinds) - len(cross) else "note", Where((file,)),
            f"All heads of {len(dead)} of {len(kinds)} attentions look the same way for every query.",
            "Train longer or with a lower learning rate; a model that stays so needs fewer layers.",
            tuple(f"{path}: {most_common(heads)}" for path, heads in list(dead.items())[:3]),
        )  # fmt: skip
    single = [
        f"{path} head {i}: {k}" for path, heads in kinds.items() if path not in dead for i, k in enumerate(heads) if k
    ]
    if single:
        yield Finding(
            "idle-heads", "note", Where((file,)), f"{len(single)} heads look the same way for every query.",
            "Some such heads are in every model.", tuple(single[:3]),
        )  # fmt: skip


def most_common(kinds: Sequence[str]) -> str:
    return max(set(kinds), key=kinds.count)


@torch.inference_mode()
def kinds_of_heads(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> dict[str, list[str]]:
    """For each attention, how each of its heads has collapsed; "" for one that has not."""
    src = [translator.fit(tokens) for tokens in translator.tokenizers.source.encode(sources)]
    tgt = [tokens[: translator.longest] for tokens in translator.tokenizers.target.encode(targets)]
    long = [i for i in range(len(src)) if min(len(src[i]), len(tgt[i])) > 2]
    src, tgt = [src[i] for i in long], [tgt[i] for i in long]
    if not long:
        return {}
    with capture(translator.model) as maps:
        translator.feed(src, tgt)
    kinds = {}
    for path, weights in maps.items():
        itself = path.startswith("decoder") and path.endswith("self_attn")
        causal = itself and translator.model.causal
        rows, columns = (tgt if path.startswith("decoder") else src), (tgt if itself else src)
        measured = torch.stack(
            [
                measure(one[:, : len(q), : len(k)].float(), causal)
                for one, q, k in zip(weights, rows, columns, strict=True)
            ]
        )
        alike, even = measured.mean(dim=0).T
        kinds[path] = [
            "nearly uniform" if e < EVEN else "stuck on the same positions" if a < ALIKE else ""
            for a, e in zip(alike.tolist(), even.tolist(), strict=True)
        ]
    return kinds


def measure(weights: Tensor, causal: bool) -> Tensor:
    """weights (H, Q, K) → (H, 2): distance of the rows from each other, and from even weights."""
    _, Q, K = weights.shape
    if causal:  # a query sees what is before it: even is 1 / position, and alike is all on the first
        allowed = torch.ones(Q, K).tril()
        even = allowed / allowed.sum(dim=1, keepdim=True)
        alike = 1 - weights[:, 1:, 0].mean(dim=1)
        return torch.stack([alike, (weights - even).abs().sum(dim=2)[:, 1:].mean(dim=1) / 2], dim=1)
    mean = weights.mean(dim=1, keepdim=True)
    alike = (weights - mean).abs().sum(dim=2).mean(dim=1) / 2
    return torch.stack([alike, (weights - 1 / K).abs().sum(dim=2).mean(dim=1) / 2], dim=1)
