"""The most probable next tokens and the normaliser of all, in one pass over the logits.

The first kernel takes the maximum of each block of tokens and the sum of exponentials of a chunk of them. The k best
tokens lie in the k blocks with the largest maxima: the second kernel, a program a row, finds those blocks, reads them
once more and takes the k largest numbers one after another.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 128  # tokens of which the largest stands for all
BLOCKS = 32  # of a chunk
MOST_BANNED = 4
MOST = 64  # that can be asked for
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def barred(x, tokens, b0, b1, b2, b3):
    return tl.where((tokens == b0) | (tokens == b1) | (tokens == b2) | (tokens == b3), -float("inf"), x)


@triton.jit
def chunk_kernel(
    logits, maxima, highest, sums, b0, b1, b2, b3, stride,
    V: tl.constexpr, N: tl.constexpr, CHUNKS: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    size: tl.constexpr = BLOCKS * BLOCK
    blocks = chunk * BLOCKS + tl.arange(0, BLOCKS)
    tokens = blocks[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    if (chunk + 1) * size <= V:
        x = tl.load(logits + row * stride + tokens).to(tl.float32)
    else:
        x = tl.load(logits + row * stride + tokens, tokens < V, -float("inf")).to(tl.float32)
    tops = tl.max(x, axis=1)
    top = tl.max(tops, axis=0)
    base = tl.maximum(top, -1e30) * LOG2E  # of a chunk in which nothing is possible
    tl.store(highest + row * CHUNKS + chunk, top)
    tl.store(sums + row * CHUNKS + chunk, tl.sum(tl.sum(tl.exp2(x * LOG2E - base), axis=1), axis=0))
    if (b0 // size == chunk) | (b1 // size == chunk) | (b2 // size == chunk) | (b3 // size == chunk):
        tops = tl.max(barred(x, tokens, b0, b1, b2, b3), axis=1)  # here alone: it costs as much as all the rest
    tl.store(maxima + row * N + blocks, tops, blocks < N)


@triton.jit
def rank_kernel(
    logits, maxima, highest, sums, values, chosen, totals, b0, b1, b2, b3, k, stride,
    V: tl.constexpr, N: tl.constexpr, NP: tl.constexpr, CHUNKS: tl.constexpr, CP: tl.constexpr, KP: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    parts = tl.arange(0, CP)
    tops = tl.load(highest + row * CHUNKS + parts, parts < CHUNKS, -float("inf"))
    base = tl.maximum(tl.max(tops, axis=0), -1e30)
    terms = tl.load(sums + row * CHUNKS + parts, parts < CHUNKS, 0.0) * tl.exp(tops - base)
    tl.store(totals + row, tl.log(tl.sum(terms, axis=0)) + base)
    blocks, lines, inside = tl.arange(0, NP), tl.arange(0, KP), tl.arange(0, BLOCK)
    left = tl.load(maxima + row * N + blocks, blocks < N, -float("inf"))
    found, ends = tl.zeros([KP], tl.int32), tl.zeros([KP], tl.int32)
    for i in range(0, k):
        block = tl.argmax(left, axis=0)
        end = tl.where(tl.max(left, axis=0) > -float("inf"), V, 0)  # nothing is read where no block is left
        left = tl.where(blocks == block, -float("inf"), left)
        found, ends = tl.where(lines == i, block, found), tl.where(lines == i, end, ends)
    tokens = found[:, None] * BLOCK + inside[None, :]
    x = tl.load(logits + row * stride + tokens, tokens < ends[:, None], -float("inf")).to(tl.float32)
    flat = tl.reshape(barred(x, tokens, b0, b1, b2, b3), [KP * BLOCK])
    places = tl.arange(0, KP * BLOCK)
    for i in range(0, k):
        value = tl.max(flat, axis=0)
        # Not argmax: where k is 1 that would be all that reads `flat`, and Triton may then reorder it (docs/log.md).
        best = tl.min(tl.where(flat == value, places, KP * BLOCK), axis=0)
        block = tl.sum(tl.where(lines == best // BLOCK, found, 0), axis=0)
        tl.store(values + row * k + i, value)
        tl.store(chosen + row * k + i, (block * BLOCK + best % BLOCK).to(tl.int64))
        flat = tl.where(places == best, -float("inf"), flat)


def ranked(logits: Tensor, banned: tuple[int, ...], k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k largest logits of tokens that are not banned, best first, these tokens, and log Σ exp of all logits.

    logits: (…, V) → (…, k), (…, k), (…)
    """
    V = logits.shape[-1]
    rows = logits.reshape(-1, V)
    n, device = len(rows), logits.device
    N, chunks = triton.cdiv(V, BLOCK), triton.cdiv(V, BLOCK * BLOCKS)
    b = (*banned, *[-1] * MOST_BANNED)[:MOST_BANNED]
    maxima = torch.empty(n, N, device=device)
    highest, sums = torch.empty(n, chunks, device=device), torch.empty(n, chunks, device=device)
    chunk_kernel[(n, chunks)](
        rows, maxima, highest, sums, *b, rows.stride(0),
        V=V, N=N, CHUNKS=chunks, BLOCKS=BLOCKS, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
    values, tokens = torch.empty(n, k, device=device), torch.empty(n, k, dtype=torch.long, device=device)
    totals, lines = torch.empty(n, device=device), triton.next_power_of_2(k)
    rank_kernel[(n,)](
        rows, maxima, highest, sums, values, tokens, totals, *b, k, rows.stride(0),
        V=V, N=N, NP=triton.next_power_of_2(N), CHUNKS=chunks, CP=triton.next_power_of_2(chunks),
        KP=lines, BLOCK=BLOCK, num_warps=max(1, lines // 8),  # of one warp no thread waits for another
    )  # fmt: skip
    shape = logits.shape[:-1]
    return values.view(*shape, k), tokens.view(*shape, k), totals.view(shape)
