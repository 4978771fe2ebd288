"""Models of sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.config.checks import at_least, between, known_words
from regard.errors import RegardError


@dataclass(frozen=True)
class SetTransformerConfig:
    """*Set Transformer* (Lee et al. 2019) and the models it is compared with: an encoder of elements, a pooling, and
    what follows it. The defaults are the released code's."""

    family: Literal["set_transformer"] = "set_transformer"
    encoder: Literal["rff", "rffp_mean", "rffp_max", "sab", "isab"] = "isab"
    pooling: Literal["mean", "sum", "max", "dotprod", "pma"] = "pma"
    n_layers: int = 2  # of the encoder
    d_model: int = 128
    n_heads: int = 4
    n_inducing: int = 16  # m, of isab
    n_seeds: int = 1  # k, of pma
    d_pool: int = 0  # width of pma; 0: d_model
    pool_heads: int = 0  # of pma; 0: n_heads
    pool_rff: bool = False  # pma of rFF(Z) (eq. 11), or of Z alone (the released code)
    decoder_layers: int = 0  # SABs among the seeds, after pma
    head_layers: int = 0  # linear maps of width d_model with ReLU before the last one
    n_outputs: int = 0  # rows of the output; 0: n_seeds. Where pooling gives other than so many, it is turned into them
    layer_norm: bool = False  # in every block: the equations have it, the released code leaves it out
    scale: Literal["width", "head"] = "width"  # scores / √d_model (the paper), or / √(d_model / n_heads)
    residual: Literal["projected", "plain"] = "projected"  # added to X W_q (the released code), or to X (the equations)
    activation: Literal["relu", "elu"] = "relu"  # of rffp
    last_activation: bool = False  # after the last map of rff (ReLU) and rffp (`activation`) too
    dropout: float = 0.0  # before pma, and before each linear map after the pooling

    def __post_init__(self) -> None:
        known_words(self, "model")
        at_least(self, "model", n_layers=1, d_model=1, n_heads=1, n_inducing=1, n_seeds=1, d_pool=0, pool_heads=0)
        at_least(self, "model", decoder_layers=0, head_layers=0, n_outputs=0)
        between(self, "model", 0.0, 1.0, "dropout")
        attends = self.encoder in ("sab", "isab") or (self.pooling == "pma" and not self.d_pool) or self.decoder_layers
        if attends and self.d_model % self.n_heads:
            raise RegardError(
                f"model.d_model = {self.d_model} is not a multiple of model.n_heads = {self.n_heads}: "
                "change one of them."
            )
        d_pool, pool_heads = self.d_pool or self.d_model, self.pool_heads or self.n_heads
        if self.pooling == "pma" and d_pool % pool_heads:
            raise RegardError(
                f"The width of pma, {d_pool}, is not a multiple of its {pool_heads} heads: "
                "change model.d_pool or model.pool_heads."
            )
        if self.pooling != "pma" and (self.decoder_layers or self.n_seeds > 1):
            key = "decoder_layers" if self.decoder_layers else "n_seeds"
            raise RegardError(f'model.{key} = {getattr(self, key)} needs model.pooling = "pma".')
