"""Sets through the kernels for packed sequences, against the same without them."""

from __future__ import annotations

import pytest
import torch

from regard.config import SetTransformerConfig
from regard.models.set_transformer import SetTransformer
from regard.nn import kernels
from regard.nn.layout import Packed

LENGTHS = [3, 0, 9, 1]


@pytest.mark.parametrize("encoder", ["sab", "isab"])
@pytest.mark.parametrize(("pooling", "pool_heads"), [("pma", 2), ("pma", 8), ("dotprod", 0)])
def test_kernels_change_neither_output_nor_gradient(
    encoder: str, pooling: str, pool_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    options = {
        "encoder": encoder,
        "pooling": pooling,
        "pool_heads": pool_heads,
        "d_pool": 8,
    }  # Table 2: heads of width 1
    config = SetTransformerConfig(d_model=24, n_heads=2, n_inducing=5, layer_norm=True, **options)  # type: ignore[arg-type]
    model, layout, x = SetTransformer(config, 3, 2), Packed.of(LENGTHS), torch.randn(sum(LENGTHS), 3)
    outcomes = []
    for use in (False, True):
        monkeypatch.setattr(kernels, "usable", lambda x, use=use: use)
        out = model(x, layout)
        outcomes.append((out, torch.autograd.grad(out.square().sum(), list(model.parameters()))))
    (plain, plain_gradients), (fused, fused_gradients) = outcomes
    torch.testing.assert_close(plain, fused, rtol=1e-5, atol=1e-5)
    for a, b in zip(plain_gradients, fused_gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
