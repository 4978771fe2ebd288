"""The Set Transformer and its rivals: Lee et al. (2019), §3.3 and §5.

    encoder:  rows of rFF, rFFp (Deep Sets), SAB or ISAB, equivariant to the order of the elements
    decoder:  a pooling, which is invariant to it; SABs among the seeds where it is PMA; linear maps

Departures from the paper: `SetTransformerConfig` names every choice; docs/fidelity.md has what the released code does.
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.config.sets import SetTransformerConfig
from regard.errors import InputError
from regard.nn.dropout import dropout
from regard.nn.layout import Layout, Padded
from regard.nn.sets import ISAB, PMA, RFF, SAB, BlockOptions, DotprodPool, Pool, RFFp, Row, check_fit


class RowLayer(RFF):
    """One layer of an rFF encoder, which looks at nothing but the element itself."""

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        """x: (…, d_in) → (…, d_out)."""
        return super().forward(x)


class SetTransformer(nn.Module):
    """A network from sets of vectors to `n_outputs` vectors each, whatever the order of the elements."""

    def __init__(self, config: SetTransformerConfig, d_in: int, d_out: int) -> None:
        super().__init__()
        if min(d_in, d_out) < 1:
            raise InputError(f"d_in = {d_in} and d_out = {d_out} must both be at least 1.")
        self.config, self.d_in, self.d_out = config, d_in, d_out
        widths = [d_in, *[config.d_model] * config.n_layers]
        self.encoder = nn.ModuleList(
            encoder_layer(config, width, last=number == config.n_layers) for number, width in enumerate(widths[:-1], 1)
        )
        self.pool = pooling(config)
        self.decoder = nn.ModuleList(
            SAB(width, config.d_model, config.n_heads, **block_options(config))
            for width in [pooled_width(config), *[config.d_model] * config.decoder_layers][: config.decoder_layers]
        )
        self.n_outputs = config.n_outputs or config.n_seeds
        self.one_each = self.n_outputs == config.n_seeds  # one output for each pooled vector
        width = config.d_model if config.decoder_layers else pooled_width(config)
        width *= 1 if self.one_each else config.n_seeds
        hidden = [width, *[config.d_model] * config.head_layers]
        last = d_out if self.one_each else self.n_outputs * d_out
        self.head = nn.ModuleList(Row(*pair) for pair in zip(hidden, [*hidden[1:], last], strict=True))

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (…, d_in) in `layout` → (B, n_outputs, d_out)."""
        return self.decode(self.encode(x, layout), layout)

    def encode(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (…, d_in) → (…, D), both in `layout`: every element seen among the others of its set."""
        check_fit(x, layout)
        x = layout.cleared(x)
        for layer in self.encoder:
            x = layer(x, layout)
        return x

    def decode(self, x: Tensor, layout: Layout) -> Tensor:
        """x: (…, D) in `layout`, as `encode` gives it → (B, n_outputs, d_out)."""
        if self.config.pooling == "pma":
            x = self.drop(x)
        pooled = self.pool(x, layout)  # (B, P, D)
        B, P, _ = pooled.shape
        among = Padded.whole(B, P, x.device)
        for layer in self.decoder:
            pooled = layer(pooled, among)
        if not self.one_each:
            pooled = pooled.flatten(1)[:, None]  # (B, 1, P·D)
        for number, part in enumerate(self.head, start=1):
            pooled = part(self.drop(pooled))
            if number < len(self.head):
                pooled = pooled.relu()
        return pooled.reshape(B, self.n_outputs, self.d_out)

    def drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout) if self.training else x


def encoder_layer(config: SetTransformerConfig, d_in: int, last: bool) -> nn.Module:
    if config.encoder == "sab":
        return SAB(d_in, config.d_model, config.n_heads, **block_options(config))
    if config.encoder == "isab":
        return ISAB(d_in, config.d_model, config.n_heads, config.n_inducing, **block_options(config))
    activated = config.last_activation or not last
    if config.encoder == "rff":
        return RowLayer([d_in, config.d_model], last_activation=activated)
    pool = config.encoder.removeprefix("rffp_")
    return RFFp(d_in, config.d_model, pool, config.activation if activated else "none")


def pooling(config: SetTransformerConfig) -> nn.Module:
    if config.pooling == "dotprod":
        return DotprodPool(config.d_model)
    if config.pooling != "pma":
        return Pool(config.pooling)
    return PMA(
        config.d_model, pooled_width(config), config.pool_heads or config.n_heads, config.n_seeds,
        rff=config.pool_rff, **block_options(config),
    )  # fmt: skip


def pooled_width(config: SetTransformerConfig) -> int:
    return (config.pooling == "pma" and config.d_pool) or config.d_model


def block_options(config: SetTransformerConfig) -> BlockOptions:
    return {"layer_norm": config.layer_norm, "scale": config.scale, "residual": config.residual}
