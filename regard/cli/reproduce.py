"""`regard reproduce`: the tables of the papers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from regard.cli.options import Device, Sets, console, warn
from regard.config import PairRecipe, parse_override, resolve_as
from regard.errors import RegardError, nearest

MOST_SEEDS = 20  # that a table looks for

app = typer.Typer(help="A paper's table, measured here and printed beside the paper's figures.")

Rows = Annotated[
    str, typer.Option("--rows", metavar="NAMES", help="Only these, separated by commas: groups (A) or rows (N = 2).")
]


@app.command("table-1")
def table_1(
    device: Device = "auto",
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="N,N,…", help="Lengths n, at a width of 128.")
    ] = "512,1024,2048,4096",
    widths: Annotated[
        str, typer.Option("--widths", metavar="D,D,…", help="Widths d, at a length of 256.")
    ] = "128,256,512,1024",
    paths: Annotated[
        str, typer.Option("--paths", metavar="N,N,…", help="Lengths at which steps and paths are counted.")
    ] = "16,64,256",
    k: Annotated[int, typer.Option("--k", help="Width of the convolution.")] = 3,
    r: Annotated[int, typer.Option("--r", help="Positions of a neighbourhood.")] = 32,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Of each timing; the median counts.")] = 5,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Sequences at once.")] = 1,
    out: Annotated[Path, typer.Option("--out", help="Folder of the table, the figures and the picture.")] = Path(
        "runs/table-1"
    ),
) -> None:
    """*Attention Is All You Need*, Table 1: what attention, recurrence and convolution cost, measured.

    Time and memory at growing n and d with fitted exponents, operations, sequential steps and path lengths as counted,
    beside the paper's formulas.

    Example:  regard reproduce table-1 --device cpu
    """
    from regard.reproduce import table1
    from regard.training.device import pick

    asked = table1.Sizes(
        lengths=numbers(sizes, "--sizes"), widths=numbers(widths, "--widths"), paths=numbers(paths, "--paths"),
        k=k, r=r, repeats=repeats, batch=batch,
    )  # fmt: skip
    with console.status("") as status:
        found = table1.measure(asked, pick(device), status.update)
    table1.write(found, asked, str(pick(device).type), out)
    print((out / "table-1.md").read_text(encoding="utf-8"))
    print(f"{out / 'table-1.md'}\n{out / 'table-1.json'}\n{out / 'table-1.png'}")


@app.command("forgetting")
def forgetting(
    device: Device = "auto",
    distance: Annotated[int, typer.Option("--distance", min=2, help="Positions between output and input.")] = 100,
    width: Annotated[int, typer.Option("--width", min=8, help="d of every network.")] = 64,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Networks of each kind.")] = 5,
    out: Annotated[Path, typer.Option("--out", help="Folder of the table, the figures and the picture.")] = Path(
        "runs/forgetting"
    ),
) -> None:
    """What recurrence forgets: the gradient of an output with respect to an input, by the distance between them.

    For RNN, LSTM, GRU, convolutions and the Transformer as they are initialised; for the RNN with its recurrent matrix
    made smaller and larger, with and without clipping.

    Example:  regard reproduce forgetting --device cpu
    """
    from regard.reproduce import forgetting as measured
    from regard.training.device import pick

    measured.write(measured.measure(distance, width, seeds, pick(device)), out)
    print((out / "forgetting.md").read_text(encoding="utf-8"))
    print(f"{out / 'forgetting.md'}\n{out / 'forgetting.json'}\n{out / 'forgetting.png'}")


def numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise RegardError(f"{option} {text}: give whole numbers separated by commas, e.g. 512,1024,2048.") from None


@app.command("table-3")
def table_3(
    scale: Annotated[str, typer.Option("--scale", help="multi30k, or wmt: the paper's own setting.")] = "multi30k",
    rows: Rows = "",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds of every row.")] = 1,
    seeds_deciding: Annotated[
        int, typer.Option("--seeds-deciding", min=1, help="Seeds of the rows that an ordering depends on.")
    ] = 1,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs at once on the one device.")] = 1,
    out: Annotated[Path, typer.Option("--out", help="Folder of the runs, the table and the picture.")] = Path(
        "runs/table-3"
    ),
    sets: Sets = None,
    show: Annotated[bool, typer.Option("--show", help="Print what is there so far, and train nothing.")] = False,
) -> None:
    """*Attention Is All You Need*, Table 3: variations of the Transformer, ours beside the paper's.

    Every row is a run directory of its own in --out. The same command again goes on where it stopped, and does nothing
    twice. At the scale of multi30k, fetch the corpus first: regard data fetch multi30k-en-de.

    Example:  regard reproduce table-3 --jobs 4 --seeds-deciding 3
    """
    from regard.data.corpus import load_required
    from regard.reproduce import table3
    from regard.reproduce.experiments import carry_out
    from regard.view import table_png

    if scale not in table3.SCALES:
        raise RegardError(f"No scale {scale}{nearest(scale, table3.SCALES)}; there are {', '.join(table3.SCALES)}.")
    overrides = dict(parse_override(text) for text in sets or ())
    setting, chosen = table3.SCALES[scale], table3.choose(rows)
    experiments = table3.experiments(setting, out, chosen, seeds, seeds_deciding, overrides)
    measure = partial(table3.measure, weights=setting.weights)
    if not show:
        recipe = resolve_as(PairRecipe, experiments[0].recipe)
        load_required(recipe.data, "valid")  # a corpus that is missing is missing for all rows
    failures = [] if show else carry_out(experiments, measure, jobs, console)
    found = table3.experiments(setting, out, table3.ROWS, MOST_SEEDS, MOST_SEEDS, overrides)  # earlier ones too
    claims = [f"- {claim}: {word}" for claim, word in table3.verdicts(found)]
    lines = [table3.table(found), "", *claims]
    print("\n".join([table3.narrow(found), "", *(fill(claim, 80, subsequent_indent="  ") for claim in claims)]))
    rows_done, ours, papers = table3.columns(found)
    if rows_done and not show:
        (out / "table-3.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        table_png(out / "table-3.png", "Table 3: BLEU on the development set", rows_done, ours, papers)
        print(f"\n{out / 'table-3.md'}\n{out / 'table-3.png'}")
    if failures:
        warn(f"{len(failures)} of {len(experiments)} runs failed; the same command tries them again.")
        raise typer.Exit(1)
