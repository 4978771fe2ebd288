"""How fast `regard data prepare` is, and whether its memory stays the same when the corpus grows.

    python benchmarks/prepare.py --data FOLDER --out OUT [--sizes 100000 800000]

Takes the first pairs of FOLDER's train.en and train.de (plain, .gz, .xz or .zst), with valid.en and valid.de held out
where they are there, and runs the command as it is installed, every filter on. Each size runs twice: once learning its
tokenizer, which is timed apart, and once with that tokenizer given. Processor seconds are those of all processes; peak
memory is the largest sum of what they hold (resident, shared pages counted in each).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data.fetch import find
from regard.data.files import open_bytes

COLUMNS = (
    "pairs", "kept", "pairs a minute", "seconds", "processor seconds", "tokenizer s", "peak MiB, tokenizer given",
    "peak MiB, tokenizer learned", "index bytes a pair",
)  # fmt: skip
PAUSE = 0.1  # seconds between two looks at the memory


@dataclass(frozen=True)
class Measured:
    """One run of the command."""

    report: dict[str, Any]  # its own, as --json prints it
    peak_mib: float

    def seconds(self, clock: str) -> float:
        return sum(spent for stage, spent in self.report[clock].items() if stage != "tokenizer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of train.en, train.de and perhaps valid.*")
    parser.add_argument("--out", type=Path, help="folder for prepare.json and prepare.md")
    parser.add_argument("--languages", nargs=2, default=("en", "de"))
    parser.add_argument("--sizes", type=int, nargs="+", default=(100_000, 800_000), help="pairs")
    parser.add_argument("--vocab-size", type=int, default=32_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = [measure(arguments, size, Path(folder)) for size in arguments.sizes]
    table = markdown(runs, arguments)
    print(table, end="")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        plain = [{name: asdict(run) for name, run in pair.items()} for pair in runs]
        (arguments.out / "prepare.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
        (arguments.out / "prepare.md").write_text(table, encoding="utf-8")


def measure(arguments: argparse.Namespace, size: int, folder: Path) -> dict[str, Measured]:
    """The command on the first `size` pairs, learning a tokenizer and being given it."""
    text = folder / f"first-{size}"
    for language in arguments.languages:
        path = find(arguments.data, f"train.{language}")
        if path is None:
            raise SystemExit(f"There is no train.{language} in {arguments.data}.")
        with open_bytes(path) as lines, text.with_name(f"{text.name}.{language}").open("wb") as file:
            file.writelines(islice(lines, size))
    command = [
        sys.executable, "-m", "regard", "data", "prepare", "--json", "--train", str(text), "--languages",
        *arguments.languages, "--jobs", str(arguments.jobs),
    ]  # fmt: skip
    if find(arguments.data, f"valid.{arguments.languages[0]}"):
        command += ["--valid", str(arguments.data / "valid")]
    learned, given = folder / f"learned-{size}", folder / f"given-{size}"
    return {
        "learned": watch([*command, "--out", str(learned), "--vocab-size", str(arguments.vocab_size)]),
        "given": watch([*command, "--out", str(given), "--tokenizer", str(learned / "tokenizer")]),
    }


def watch(command: list[str]) -> Measured:
    """Run a command that prints its report, looking at the memory of its processes all the while."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        peak, ended = [0.0], threading.Event()

        def look() -> None:
            while not ended.wait(PAUSE):
                peak[0] = max(peak[0], tree_mib(process.pid))

        watcher = threading.Thread(target=look)
        watcher.start()
        printed, _ = process.communicate()
        ended.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(f"The command ended with {process.returncode}: {' '.join(command)}")
    return Measured(json.loads(printed), peak[0])


def tree_mib(root: int) -> float:
    """Resident memory of a process and all below it (Linux)."""
    parents, pages = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                pages[int(entry.name)] = int((entry / "statm").read_text().split()[1])
            except (OSError, IndexError):  # it has ended
                continue
    family, size = {root}, 0
    while len(family) > size:
        size = len(family)
        family |= {child for child, parent in parents.items() if parent in family}
    return sum(pages.get(member, 0) for member in family) * os.sysconf("SC_PAGE_SIZE") / 2**20


def markdown(runs: list[dict[str, Measured]], arguments: argparse.Namespace) -> str:
    lines = [
        f"### Preparing data: {arguments.jobs} processes, {os.cpu_count()} cores, vocabulary {arguments.vocab_size:,}",
        "", "| " + " | ".join(COLUMNS) + " |", "|" + "--:|" * len(COLUMNS),
    ]  # fmt: skip
    for run in runs:
        learned, given = run["learned"], run["given"]
        index = learned.report["duplicates_index"]
        cells = (
            f"{learned.report['read']:,}", f"{learned.report['kept']:,}",
            f"{max(one.report['pairs_per_minute'] for one in run.values()):,.0f}",
            f"{min(one.seconds('seconds') for one in run.values()):,.1f}",
            f"{min(one.seconds('cpu_seconds') for one in run.values()):,.1f}",
            f"{learned.report['seconds']['tokenizer']:,.1f}", f"{given.peak_mib:,.0f}", f"{learned.peak_mib:,.0f}",
            f"{index['bytes_per_pair']:.1f} (at most {index['peak_bytes_per_pair']:.1f})",
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Speed and seconds: the better of two runs, without learning the tokenizer."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
