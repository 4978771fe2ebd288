"""Linear maps for training: torch's own, one for mixed precision on a GPU, one for a CPU.

Under autocast torch multiplies in bfloat16 and also hands back the weight's gradient in bfloat16, to be widened
afterwards. `MixedLinear` has the matrix product write it in float32 at once: nothing is lost in the sum over a batch's
tokens, and a pass over memory is saved. On a CPU torch has two libraries for float32 products and takes MKL's for
linear layers; `CpuLinear` takes oneDNN's, faster at the shapes of a Transformer by a tenth (docs/log.md), except for
the weight's gradient. In both, and on a GPU where no gradient is asked for, ReLU and bias join the product they follow.
Decoding on a CPU multiplies few rows at a time, by a copy of the matrix in oneDNN's own order: several rows then take
little longer than one (docs/log.md). On a GPU a few rows in float32, where no gradient is asked for, have a kernel.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, MutableMapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from regard.nn import kernels

LARGE = 2**27  # multiplications; about a millisecond's work, which is what a new shape costs
FEW, WIDE = 256, 2**18  # rows of a product in decoding, and numbers of its matrix, where a copy in oneDNN's order pays
FEWEST = 32  # rows up to which every number has a program of its own; above, only multiples
FEW_ON_GPU = 4  # rows up to which a float32 product has a kernel; with more, most are slower by it (docs/log.md)
# Of a weight: what was made of it, with the state of the weights it was made of.
DERIVED: MutableMapping[Tensor, dict[Any, tuple[Any, Tensor]]] = WeakIdKeyDictionary()


class MixedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
        half = product_type(x)
        x, w = x.to(half), weight.to(half)
        rows = x.reshape(-1, x.shape[-1])
        if relu and bias is not None:
            out = torch._addmm_activation(bias.to(half), rows, w.t())
        elif bias is not None:
            out = torch.addmm(bias.to(half), rows, w.t())
        else:
            out = rows @ w.t()
        ctx.save_for_backward(rows, w, out if relu else None)
        ctx.has_bias, ctx.shape = bias is not None, x.shape
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        from regard.nn.kernels.columns import sum_rows

        rows, w, h = ctx.saved_tensors
        g = g.reshape(-1, g.shape[-1]).contiguous()
        d_bias = sum_rows(g, h) if ctx.has_bias else None
        dx = (g @ w).view(ctx.shape)
        return dx, wide_product(g.t(), rows), d_bias, None


def wide_product(a: Tensor, b: Tensor) -> Tensor:
    """a b in float32, whatever their type."""
    return torch.mm(a, b) if a.dtype == torch.float32 else torch.mm(a, b, out_dtype=torch.float32)


class CpuLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        out = onednn_product(rows, weight, bias, relu)
        ctx.save_for_backward(rows, weight, out if relu else None)
        ctx.shape = x.shape
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, h = ctx.saved_tensors
        g = g.reshape(-1, g.shape[-1]).contiguous()
        if h is not None:
            g = torch.ops.aten.threshold_backward(g, h, 0)
        need_x, need_weight, need_bias, _ = ctx.needs_input_grad
        dx = onednn_product(g, weight.t(), None, False).view(ctx.shape) if need_x else None
        dw = None
        if need_weight:  # the wider factor first, which MKL likes better
            dw = g.t() @ rows if g.shape[1] >= rows.shape[1] else (rows.t() @ g).t().contiguous()
        return dx, dw, g.sum(0) if need_bias else None, None


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """x Wᵀ + b, or what ReLU leaves of it.   x: (…, d_in)   weight: (d_out, d_in)   → (…, d_out)"""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "relu" if relu else "none", [], None)


def onednn_takes(x: Tensor) -> bool:
    """Whether x is for oneDNN: float32 in a CPU's memory, where the library is there."""
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
        and not torch.is_autocast_enabled("cpu")
        and not memory_is_limited()
    )


def memory_is_limited() -> bool:
    """Whether the process may be refused memory (`ulimit -v`), which oneDNN answers with a crash."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def worth_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether the product is large enough: for each new shape oneDNN first writes its program."""
    return x.numel() * len(weight) >= LARGE and onednn_takes(x)


def few_rows(x: Tensor, weight: Tensor) -> bool:
    """Whether this is decoding, with few rows."""
    return (
        not torch.is_grad_enabled()
        and 0 < x.numel() // x.shape[-1] <= FEW
        and weight.numel() >= WIDE
        and not weight.is_inference()  # it would be put in order each time
        and onednn_takes(x)
    )


def derived(make: Callable[..., Tensor], *weights: Tensor) -> Tensor:
    """`make(*weights)`, made once, for as long as the first of the weights lives and all stay as they are."""
    if any(weight.is_inference() for weight in weights):  # nobody knows when they change
        return make(*weights)
    made, now = DERIVED.setdefault(weights[0], {}), [(weight._version, weight.data_ptr()) for weight in weights]
    if make not in made or made[make][0] != now:
        with torch.inference_mode(False), torch.no_grad():
            made[make] = now, make(*weights)
    return made[make][1]


def reordered(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), FEWEST)


def in_decoding(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """The same for few rows, by the reordered copy. Hypotheses come in any number, and programs for all would fill the
    memory: above FEWEST there are some for multiples alone."""
    rows = x.reshape(-1, x.shape[-1])
    n = len(rows)
    if n > FEWEST and n % FEWEST:
        rows = F.pad(rows, (0, 0, 0, -n % FEWEST))
    return onednn_product(rows, derived(reordered, weight), bias, relu)[:n].view(*x.shape[:-1], len(weight))


def product_type(x: Tensor) -> torch.dtype:
    """The type in which matrix products of x are computed, autocast considered."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def rows_kernel_for(x: Tensor, weight: Tensor) -> Callable[..., Tensor] | None:
    """The kernel for several rows, but few, on a GPU, where this is a product of them and no gradient is asked for."""
    alike = x.dtype == weight.dtype == torch.float32 and weight.is_contiguous()
    few = x.numel() and 1 < x.numel() // x.shape[-1] <= FEW_ON_GPU
    if torch.is_grad_enabled() or not (kernels.usable(x) and alike and few):
        return None
    from regard.nn.kernels.rows import product_of_rows

    return product_of_rows


def mixed(x: Tensor) -> bool:
    return kernels.usable(x) and torch.is_autocast_enabled(x.device.type)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b.   x: (…, d_in) → (…, d_out)"""
    if mixed(x):
        return MixedLinear.apply(x, weight, bias, False)
    if kernel := rows_kernel_for(x, weight):
        return kernel(x, weight, bias, False)
    if few_rows(x, weight):
        return in_decoding(x, weight, bias, False)
    return on_cpu(x, weight, bias, False) if worth_onednn(x, weight) else F.linear(x, weight, bias)


def on_cpu(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    return CpuLinear.apply(x, weight, bias, relu) if torch.is_grad_enabled() else onednn_product(x, weight, bias, relu)


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """max(0, x Wᵀ + b), for one reader: on a GPU its gradient is overwritten on the way back."""
    if mixed(x):
        return MixedLinear.apply(x, weight, bias, True)
    if kernel := rows_kernel_for(x, weight):
        return kernel(x, weight, bias, True)
    if kernels.usable(x) and not torch.is_grad_enabled():
        out = torch._addmm_activation(bias, x.reshape(-1, x.shape[-1]), weight.t())
        return out.view(*x.shape[:-1], len(weight))
    if few_rows(x, weight):
        return in_decoding(x, weight, bias, True)
    return on_cpu(x, weight, bias, True) if worth_onednn(x, weight) else F.linear(x, weight, bias).relu_()


def side_by_side(x: Tensor, *parts: nn.Linear) -> Tensor:
    """Several linear maps of the same input as one matrix product → (…, Σ d_out)."""
    weights: list[Tensor] = [part.weight for part in parts]
    biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
    return linear(x, torch.cat(weights), torch.cat(biases) if biases else None)
