"""How do time and memory of attention over a set grow with its size?

    python benchmarks/sets.py --out FOLDER [--device cuda] [--threads 2] [--largest 1000000]

Forward and backward on one set of n elements, n from 100 upwards by half powers of ten, until one pass takes more than
`--seconds` or `--gib`: SAB and ISAB alone, and whole networks, encoder, PMA and a SAB among the seeds, beside PyG's
`SetTransformerAggregation` of the same layers where torch_geometric is installed. That the two networks compute the
same is checked first. On a CPU every point has a process of its own; memory is what the pass took beyond the weights
and the set. The exponents are slopes through the last three points of each curve; on a CPU that of time is of processor
time, which other processes on the machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import SetTransformerConfig
from regard.models.set_transformer import SetTransformer
from regard.nn.layout import Layout, Packed
from regard.nn.sets import ISAB, SAB
from regard.reproduce.fits import POINTS, exponent

GIB = 2**30
FIGURES = ("seconds", "processor", "bytes")  # what is measured of a pass
PEER = "PyG, SAB + PMA + SAB"
SYSTEMS = ("SAB", "ISAB", "SAB + PMA + SAB", PEER, "ISAB + PMA + SAB")


@dataclass(frozen=True)
class Setting:
    """Everything that decides a measurement but the system and n."""

    device: str = "cpu"
    threads: int = 0  # 0: torch's own choice
    d_model: int = 64
    n_heads: int = 4
    n_inducing: int = 16
    seconds: float = 60.0
    gib: float = 16.0

    @property
    def precision(self) -> str:
        return "float32" if self.device == "cpu" else "bfloat16"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for sets.json, sets.md and sets.png")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=0, help="0: torch's own choice")
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--systems", default=";".join(SYSTEMS), help="names, separated by semicolons")
    parser.add_argument("--d-model", type=int, default=64)
    parser.add_argument("--n-heads", type=int, default=4)
    parser.add_argument("--n-inducing", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0, help="the longest pass")
    parser.add_argument("--gib", type=float, default=16.0, help="the largest pass")
    arguments = vars(parser.parse_args())
    out, largest, systems = arguments.pop("out"), arguments.pop("largest"), arguments.pop("systems").split(";")
    result = run(Setting(**arguments), systems, sizes(largest), out)
    print(markdown(result))


def sizes(largest: int) -> list[int]:
    """100, 316, 1,000 … up to `largest`."""
    every = [round(10 ** (2 + half / 2)) for half in range(2 * 8)]
    return [n for n in every if n <= largest]


def run(setting: Setting, systems: list[str], ns: list[int], out: Path) -> dict[str, Any]:
    """All curves, one after the other; what has been measured is written after each point."""
    out.mkdir(parents=True, exist_ok=True)
    process = Apart(setting)
    described = process.ask(describe, setting, limited=False)
    result: dict[str, Any] = {"setting": asdict(setting), "precision": setting.precision, **described}
    result["curves"] = {}
    for name in systems:
        curve = result["curves"][name] = {"points": [], "ended": ""}
        for n in ns:
            point = process.ask(measure, name, n, setting)
            if "error" in point:
                curve["ended"] = f"n = {n:,}: {point['error']}"
                break
            curve["points"].append(point)
            curve["exponents"] = exponents(curve["points"])
            (out / "sets.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            if point["seconds"] > setting.seconds or point["bytes"] > setting.gib * GIB:
                break
    process.end()
    (out / "sets.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (out / "sets.md").write_text(markdown(result), encoding="utf-8")
    draw(result, out / "sets.png")
    return result


# --- in a process of its own -----------------------------------------------------------------------------


class Apart:
    """A process that measures. On a CPU each measurement has a new one, since memory is what the process has; on a GPU,
    whose allocator counts, one serves until something goes wrong in it."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.process = setting, None
        self.context = multiprocessing.get_context("spawn")

    def ask(self, function: Callable[..., dict[str, Any]], *values: Any, limited: bool = True) -> dict[str, Any]:
        """`function(*values)` there, ended where it goes far beyond a limit."""
        setting = self.setting
        if self.process is None:
            self.pipe, other = self.context.Pipe()
            self.process = self.context.Process(target=serve, args=(other,), daemon=True)
            self.process.start()
            other.close()
        began, found = time.perf_counter(), None
        try:
            self.pipe.send((function, values))
            while found is None:
                if self.pipe.poll(0.05):
                    found = self.pipe.recv()
                elif limited and time.perf_counter() - began > 60 + 3 * setting.seconds:  # start, first pass, timed one
                    found = {"error": f"more than {setting.seconds:g} s"}
                elif limited and setting.device == "cpu" and resident(self.process.pid) > (1 + setting.gib) * GIB:
                    found = {"error": f"more than {setting.gib:g} GiB"}
        except (EOFError, OSError):  # it was ended by the system
            found = {"error": "out of memory"}
        if setting.device == "cpu" or "error" in found:
            self.end()
        return found

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None


def serve(pipe: Connection) -> None:
    while True:
        function, values = pipe.recv()
        pipe.send(answer(function, *values))


def resident(pid: int | None) -> int:
    """Bytes of memory that a process has now."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except (OSError, ValueError):
        return 0


def answer(function: Callable[..., dict[str, Any]], *values: Any) -> dict[str, Any]:
    try:
        return function(*values)
    except ModuleNotFoundError as error:
        return {"error": f"not installed: {error.name}"}
    except Exception as error:
        import traceback

        from regard.training.memory import out_of_memory

        if out_of_memory(error):
            return {"error": "out of memory"}
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"}


def describe(setting: Setting) -> dict[str, Any]:
    """The machine, and whether our network and PyG's compute the same."""
    from benchmarks.worker import machine, versions

    device = prepare(setting)
    found = {"machine": machine(device), "versions": versions()}
    try:
        import torch_geometric
    except ImportError:
        return {**found, "difference": None}
    torch.manual_seed(0)
    ours, theirs = built("SAB + PMA + SAB", setting), built(PEER, setting)
    copy_weights(ours, theirs)
    x = torch.randn(50, setting.d_model)
    difference = float((ours(x) - theirs(x)).detach().abs().max())
    assert difference < 1e-4, f"the networks differ by {difference}"
    return {**found, "versions": {**versions(), "torch_geometric": torch_geometric.__version__},
            "difference": difference}  # fmt: skip


def prepare(setting: Setting) -> torch.device:
    if setting.threads:
        torch.set_num_threads(setting.threads)
    device = torch.device(setting.device)
    if device.type == "cuda":
        share = setting.gib * GIB / torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, 1.1 * share))
    return device


def measure(name: str, n: int, setting: Setting) -> dict[str, Any]:
    """Seconds by the clock and of the processor, the least of up to three, and bytes of forward and backward."""
    from benchmarks.worker import peak_memory

    device = prepare(setting)
    torch.manual_seed(0)
    network, x = built(name, setting).to(device), torch.randn(n, setting.d_model, device=device, requires_grad=True)
    weights = [x, *network.parameters()]
    once(network, torch.randn(10, setting.d_model, device=device), weights, setting)  # libraries start up
    before = resident_now(device)
    times = [once(network, x, weights, setting)]
    taken = peak_memory(device) - before
    while len(times) < 3 and sum(wall for wall, _ in times) < setting.seconds / 4:
        times.append(once(network, x, weights, setting))
    wall, processor = (min(column) for column in zip(*times, strict=True))
    return {"n": n, "seconds": wall, "processor": processor, "passes": len(times), "bytes": max(taken, 1)}


def resident_now(device: torch.device) -> int:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    return resident(os.getpid())


def once(network: nn.Module, x: Tensor, weights: list[Tensor], setting: Setting) -> tuple[float, float]:
    """Seconds of one pass: by the clock, and of the processor, which other processes on the machine disturb less."""
    for weight in weights:
        weight.grad = None
    wait = torch.cuda.synchronize if setting.device != "cpu" else lambda: None
    wait()
    began, used = time.perf_counter(), time.process_time()
    with torch.autocast(setting.device, torch.bfloat16, enabled=setting.precision == "bfloat16"):
        out = network(x)
    out.float().square().mean().backward()
    wait()
    return time.perf_counter() - began, time.process_time() - used


# --- what is measured ------------------------------------------------------------------------------------


class OfOneSet(nn.Module):
    """A part that takes sets, given one: (n, D) → whatever it gives."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part
        self.layouts: dict[int, Layout] = {}

    def forward(self, x: Tensor) -> Tensor:
        if len(x) not in self.layouts:
            self.layouts[len(x)] = Packed.of([len(x)]).to(x.device)
        return self.part(x, self.layouts[len(x)])


class Whole(nn.Module):
    """An encoder, PMA and a SAB, without the last linear map, which PyG leaves to others."""

    def __init__(self, encoder: str, setting: Setting) -> None:
        super().__init__()
        config = SetTransformerConfig(
            encoder=encoder, n_layers=1, d_model=setting.d_model, n_heads=setting.n_heads,
            n_inducing=setting.n_inducing, decoder_layers=1, pool_rff=True, layer_norm=True, scale="head",
            residual="plain",
        )  # fmt: skip
        self.network = SetTransformer(config, setting.d_model, setting.d_model)
        self.network.head = nn.ModuleList()

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        return self.network(x, layout)


class Peer(nn.Module):
    """PyG's network of the same layers, of one set."""

    def __init__(self, setting: Setting) -> None:
        from torch_geometric.nn import SetTransformerAggregation

        super().__init__()
        self.network = SetTransformerAggregation(
            setting.d_model, num_seed_points=1, heads=setting.n_heads, layer_norm=True
        )

    def forward(self, x: Tensor) -> Tensor:
        index = torch.zeros(len(x), dtype=torch.long, device=x.device)
        return self.network(x, index, dim_size=1)[:, None]


def built(name: str, setting: Setting) -> nn.Module:
    """A network of one set: (n, D) → whatever it gives."""
    d, h, m = setting.d_model, setting.n_heads, setting.n_inducing
    parts: dict[str, Callable[[], nn.Module]] = {
        "SAB": lambda: OfOneSet(SAB(d, d, h)),
        "ISAB": lambda: OfOneSet(ISAB(d, d, h, m)),
        "SAB + PMA + SAB": lambda: OfOneSet(Whole("sab", setting)),
        "ISAB + PMA + SAB": lambda: OfOneSet(Whole("isab", setting)),
        PEER: lambda: Peer(setting),
    }
    return parts[name]()


def copy_weights(ours: Any, theirs: Any) -> None:
    """Ours into PyG's network of the same layers."""
    network, peer = ours.part.network, theirs.network
    blocks = [
        (network.encoder[0].mab, peer.encoders[0].mab), (network.pool.mab, peer.pma.mab),
        (network.decoder[0].mab, peer.decoders[0].mab),
    ]  # fmt: skip
    with torch.no_grad():
        peer.pma.lin.load_state_dict(network.pool.rff.maps[0].state_dict())
        peer.pma.seed.copy_(network.pool.seeds[None])
        for mab, block in blocks:
            projections = (mab.attn.w_q, mab.attn.w_k, mab.attn.w_v)
            block.attn.in_proj_weight.copy_(torch.cat([part.weight for part in projections]))
            block.attn.in_proj_bias.copy_(torch.cat([part.bias for part in projections]))
            block.attn.out_proj.load_state_dict(mab.attn.w_o.state_dict())
            block.lin.load_state_dict(mab.feed_forward.state_dict())
            block.layer_norm1.load_state_dict(mab.attn_norm.state_dict())
            block.layer_norm2.load_state_dict(mab.feed_forward_norm.state_dict())


# --- what was found --------------------------------------------------------------------------------------


def exponents(points: list[dict[str, Any]]) -> dict[str, float | None]:
    """Of each figure in n, through the last points, once there are enough."""
    ns = [point["n"] for point in points]
    return {key: exponent(ns, [point[key] for point in points]) if len(points) >= POINTS else None for key in FIGURES}


def markdown(result: dict[str, Any]) -> str:
    ns = sorted({point["n"] for curve in result["curves"].values() for point in curve["points"]})
    setting = Setting(**result["setting"])
    lines = [
        f"### {result['machine']}, {result['precision']}: width {setting.d_model}, {setting.n_heads} heads, "
        f"{setting.n_inducing} inducing points, one set, forward and backward", "",
        "| | " + " | ".join(f"{n:,}" for n in ns) + " | time grows as | memory grows as | |",
        "|---|" + "--:|" * (len(ns) + 2) + "---|",
    ]  # fmt: skip
    for name, curve in result["curves"].items():
        at = {point["n"]: point for point in curve["points"]}
        cells = [f"{shown(at[n]['seconds'])}, {at[n]['bytes'] / GIB:.3g} GiB" if n in at else "–" for n in ns]
        time_of = "processor" if setting.device == "cpu" else "seconds"
        slopes = [curve.get("exponents", {}).get(key) for key in (time_of, "bytes")]
        cells += ["–" if slope is None else f"n^{slope:.2f}" for slope in slopes]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {curve['ended']} |")
    lines += ["", ", ".join(f"{name} {version}" for name, version in result["versions"].items()) + "."]
    if result["difference"] is not None:
        lines.append(f"Largest difference to PyG's outputs with the same weights: {result['difference']:.1e}.")
    return "\n".join(lines) + "\n"


def shown(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def draw(result: dict[str, Any], path: Path) -> None:
    from regard.view.curves import Panel, curves_png

    panels = []
    for key, unit, label in (("seconds", 1, "seconds, forward and backward"), ("bytes", GIB, "GiB beyond weights")):
        lines = {
            name: [(point["n"], point[key] / unit) for point in curve["points"]]
            for name, curve in result["curves"].items()
        }
        panels.append(Panel({"seconds": "time", "bytes": "memory"}[key], "elements of the set", label, lines))
    curves_png(path, f"{result['machine']}, {result['precision']}", panels)


if __name__ == "__main__":
    main()
