"""Where the time of an update or a search goes, in the terms one would optimise."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.wording import counted

if TYPE_CHECKING:
    import torch

# The first that matches decides: attention kernels are built of matrix products, and a fused kernel names its parts.
GROUPS = {
    "optimiser": r"adam|multi_tensor|optim",
    "attention": r"flash|fmha|attention|attn|varlen|step_kernel|source_kernel|put_kernel|look_",
    "search": r"chunk_kernel|rank_kernel|choice_kernel",
    "loss": r"cross_entropy|log_softmax|nll_loss|cunn_softmax|softmax|xent|loss_kernel",
    "normalisation + dropout": r"norm|dropout|bernoulli|philox|random|rand|sum_kernel",
    "biases + ReLU": r"columns_kernel|threshold",
    "embedding": r"embed",
    "matrix products": r"gemm|gemv|matmul|addmm|aten::mm|aten::bmm|linear|mkldnn|cutlass|nvjet|xmma|splitk",
}
OTHER = "other"
TOP = 25
PAUSE = 0.05  # milliseconds without a kernel that are worth a line


class Span(NamedTuple):
    """What a GPU did, and when, in milliseconds."""

    start: float
    end: float
    name: str


class Pause(NamedTuple):
    """When it did nothing."""

    start: float
    ms: float
    after: str
    before: str


def profile(work: Callable[[], object], times: int, device: torch.device) -> dict[str, Any]:
    """Milliseconds by group and by name, of one of the times that the work is done. On a GPU its kernels are counted,
    and the pauses between them, on a CPU the operations."""
    import torch  # here, because the parent, which only writes the page, needs none of it
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity

    cuda = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with torch.profiler.profile(activities=activities) as profiler:
        start = time.perf_counter()
        work()
        if cuda:
            torch.cuda.synchronize()
        wall = time.perf_counter() - start
    rows = []
    for event in profiler.key_averages():
        if (event.device_type == DeviceType.CUDA) != cuda or getattr(event, "is_user_annotation", False):
            continue
        micros = event.self_device_time_total if cuda else event.self_cpu_time_total
        rows.append({"name": event.key, "ms": micros / 1000 / times, "calls": event.count / times})
    rows.sort(key=lambda row: -row["ms"])
    groups = dict.fromkeys([*GROUPS, OTHER], 0.0)
    for row in rows:
        groups[group(row["name"])] += row["ms"]
    found = {"wall_ms": 1000 * wall / times, "groups": groups, "top": rows[:TOP], "device": device.type}
    if cuda:
        kernels = [
            Span(one.time_range.start / 1000, one.time_range.end / 1000, one.name)
            for one in profiler.events()
            if one.device_type == DeviceType.CUDA and not getattr(one, "is_user_annotation", False)
        ]
        found |= {"times": times, "span_ms": extent(kernels), "pauses": [one._asdict() for one in pauses(kernels)]}
    return found


def extent(spans: Sequence[Span]) -> float:
    """From the first beginning to the last end."""
    ends = [end for start, end, _ in spans]
    return max(ends) - min(start for start, _, _ in spans) if ends else 0.0


def pauses(spans: Iterable[Span], least: float = PAUSE) -> list[Pause]:
    """The times in which nothing was done, the longest first; they are counted from the first of all kernels."""
    ordered = sorted(spans)
    found, (begin, end, name) = [], ordered[0] if ordered else Span(0.0, 0.0, "")
    for span in ordered[1:]:
        if span.start - end >= least:
            found.append(Pause(end - begin, span.start - end, name, span.name))
        if span.end > end:
            _, end, name = span
    return sorted(found, key=lambda pause: -pause.ms)


def group(name: str) -> str:
    return next((kind for kind, pattern in GROUPS.items() if re.search(pattern, name, re.IGNORECASE)), OTHER)


def page(result: dict[str, Any], title: str, what: str = "an update") -> str:
    """The profile as Markdown."""
    counted = "GPU kernels" if result["device"] == "cuda" else "CPU operations"
    total = sum(result["groups"].values())
    lines = [
        f"# Where {what} of `regard` goes: {title}", "",
        f"{counted}: {total:.1f} ms of {result['wall_ms']:.1f} ms, which the profiler itself slows down.", "",
        "| group | ms | share |", "|---|--:|--:|",
        *(f"| {name} | {ms:.2f} | {ms / total:.0%} |" for name, ms in result["groups"].items() if ms), "",
        "| ms | calls | group | name |", "|--:|--:|---|---|",
    ]  # fmt: skip
    for row in result["top"]:
        name = row["name"].replace("|", "\\|")[:150]
        lines.append(f"| {row['ms']:.2f} | {row['calls']:g} | {group(row['name'])} | `{name}` |")
    lines += waiting(result) if "pauses" in result else []
    return "\n".join(lines) + "\n"


def waiting(result: dict[str, Any]) -> list[str]:
    """The pauses of a GPU as lines of Markdown: of all times that the work was done."""
    found, times = result["pauses"], result["times"]
    idle = sum(pause["ms"] for pause in found)
    whole = "From the first kernel to the last" + (f", {times} times" if times > 1 else "")
    lines = [
        "", f"{whole}: {result['span_ms']:.1f} ms, {idle:.1f} of them in {counted(len(found), 'pause')} of at least "
        f"{PAUSE} ms. The longest:", "",
        "| at, ms | ms | after | before |", "|--:|--:|---|---|",
    ]  # fmt: skip
    for pause in found[:TOP]:
        names = " | ".join("`" + pause[key].replace("|", "\\|")[:60] + "`" for key in ("after", "before"))
        lines.append(f"| {pause['start']:.1f} | {pause['ms']:.2f} | {names} |")
    return lines
