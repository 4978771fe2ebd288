"""What a run found: JSON with every round, a table, a picture."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.setting import Setting, operations

OURS = "regard"
COLUMNS = (
    "system", "target tok/s", f"{OURS} is faster by (min–max)", "ms/update", "TFLOP/s", "of matrix peak",
    "peak GiB", "first step",
)  # fmt: skip


def summary(setting: Setting, systems: dict[str, dict[str, Any]], peak: float | None) -> dict[str, dict[str, Any]]:
    """Medians over rounds; the ratio to a peer is the median of the ratios round by round, which a machine that is
    faster in one minute than in the next does not disturb."""
    ours = {r["round"]: r["seconds"] for r in systems.get(OURS, {}).get("rounds", [])}
    found = {}
    for name, system in systems.items():
        rounds = system["rounds"]
        if not rounds:
            continue
        flops = [r["operations"] / r["seconds"] for r in rounds]
        ratios = [r["seconds"] / ours[r["round"]] for r in rounds if r["round"] in ours]
        found[name] = {
            "target_tokens_per_second": median(r["target_tokens"] / r["seconds"] for r in rounds),
            "ratio": {"median": median(ratios), "min": min(ratios), "max": max(ratios)} if ratios else None,
            "ms_per_update": median(1000 * r["seconds"] / setting.updates for r in rounds),
            "tflops": median(flops) / 1e12,
            "share_of_peak": median(flops) / peak if peak else None,
            "peak_gib": max(r["peak_gib"] for r in rounds),
            "first_step_s": system["first_step_s"],
        }
    return found


def record(setting: Setting, answer: dict[str, Any], number: int, place: int) -> dict[str, Any]:
    """A worker's answer as a row of the JSON, with the operations its tokens stand for."""
    counted = operations(setting.model, answer["source_tokens"], answer["target_tokens"])
    return {"round": number, "place": place, "operations": counted, **answer}


def title(setting: Setting, machine: str) -> str:
    batches = f"{setting.sentences} sentences, {setting.budget:,} tokens a side, {setting.shapes} shapes"
    return f"{machine}, {setting.precision}: {setting.name}, {batches}"


def rows(result: dict[str, Any]) -> list[list[str]]:
    cells = []
    for name, system in result["systems"].items():
        found = result["summary"].get(name)
        if found is None:
            cells.append([name, system["error"] or "no round", *[""] * (len(COLUMNS) - 2)])
            continue
        ratio, share = found["ratio"], found["share_of_peak"]
        cells.append([
            name + (f" (then: {system['error']})" if system["error"] else ""),
            f"{found['target_tokens_per_second']:,.0f}",
            "–" if name == OURS or not ratio else f"×{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})",
            f"{found['ms_per_update']:,.1f}", f"{found['tflops']:.3g}", f"{share:.0%}" if share else "–",
            f"{found['peak_gib']:.2f}", f"{found['first_step_s']:.1f} s",
        ])  # fmt: skip
    return cells


def markdown(result: dict[str, Any]) -> str:
    setting = Setting.of(result["setting"])
    rounds = max((len(system["rounds"]) for system in result["systems"].values()), default=0)
    lines = [
        f"### {title(setting, result['machine'])}", "",
        "| " + " | ".join(COLUMNS) + " |", "|---|" + "--:|" * (len(COLUMNS) - 1),
        *("| " + " | ".join(cells) + " |" for cells in rows(result)), "",
        f"{rounds} rounds of {setting.updates} updates, interleaved. Dropout {setting.model.dropout:g}, vocabulary "
        f"{setting.model.vocab_size:,}, {setting.n_batches} batches, {result['padding']:.1%} padding as rectangles.",
        ", ".join(f"{name} {version}" for name, version in result["versions"].items()) + ".",
    ]  # fmt: skip
    if result["peak_flops"]:
        lines.append(f"Largest matrix product: {result['peak_flops'] / 1e12:.3g} TFLOP/s.")
    return "\n".join(lines) + "\n"


def show(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*COLUMNS[:1], title=title(Setting.of(result["setting"]), result["machine"]))
    for column in COLUMNS[1:]:
        table.add_column(column, justify="right")
    for cells in rows(result):
        table.add_row(*cells)
    console = Console()
    Console(width=max(console.width, 120)).print(table)


def save(result: dict[str, Any], folder: Path) -> None:
    """After every round, so that a run that is stopped leaves what it has."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "training.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "training.md").write_text(markdown(result), encoding="utf-8")


def draw(result: dict[str, Any], path: Path) -> None:
    """Bars of tokens a second, each with how many times faster ours is."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = sorted(result["summary"].items(), key=lambda item: item[1]["target_tokens_per_second"])
    if not found:
        return
    figure, axes = pyplot.subplots(figsize=(8.5, 1.2 + 0.5 * len(found)), layout="constrained")
    names = [name for name, _ in found]
    speeds = [row["target_tokens_per_second"] for _, row in found]
    bars = axes.barh(names, speeds, color=["#d1495b" if name == OURS else "#8d99ae" for name in names])
    labels = []
    for name, row in found:
        ratio = "" if name == OURS or not row["ratio"] else f"   {OURS} ×{row['ratio']['median']:.2f}"
        labels.append(f"{row['target_tokens_per_second']:,.0f}{ratio}")
    axes.bar_label(bars, labels, padding=4, fontsize=9)
    axes.set_xlim(0, 1.35 * max(speeds))
    axes.set_xlabel("target tokens per second in training")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title(title(Setting.of(result["setting"]), result["machine"]), fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
