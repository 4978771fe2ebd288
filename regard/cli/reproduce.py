"""`regard reproduce`: the tables of the papers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Device, Sets, console, warn
from regard.config import PairRecipe, parse_override, resolve_as
from regard.errors import RegardError, nearest

if TYPE_CHECKING:
    from regard.reproduce.experiments import Experiment
    from regard.reproduce.tables import Table

MOST_SEEDS = 20  # that a table looks for

app = typer.Typer(help="A paper's table, measured here and printed beside the paper's figures.")

Rows = Annotated[
    str, typer.Option("--rows", metavar="NAMES", help="Only these, separated by commas: groups (A) or rows (N = 2).")
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Seeds of every row.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Runs at once on the one device.")]
Show = Annotated[bool, typer.Option("--show", help="Print what is there so far, and train nothing.")]


@app.command("table-1")
def table_1(
    device: Device = "auto",
    sizes: Annotated[str, typer.Option("--sizes", metavar="N,N,…", help="Lengths n.")] = "512,1024,2048,4096",
    widths: Annotated[str, typer.Option("--widths", metavar="D,D,…", help="Widths d.")] = "128,256,512,1024",
    width: Annotated[int, typer.Option("--width", min=1, help="d where n grows.")] = 128,
    length: Annotated[int, typer.Option("--length", min=2, help="n where d grows.")] = 256,
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

    A GPU needs larger sizes than the defaults, which are for a CPU: below some milliseconds it measures how fast work
    is handed to it.

    Examples:  regard reproduce table-1 --device cpu

    regard reproduce table-1 --device cuda --sizes 4096,8192,16384,32768 --widths 512,1024,2048,4096 --length 2048
    """
    from regard.reproduce import table1
    from regard.training.device import pick

    asked = table1.Sizes(
        lengths=numbers(sizes, "--sizes"), widths=numbers(widths, "--widths"), paths=numbers(paths, "--paths"),
        width=width, length=length, k=k, r=r, repeats=repeats, batch=batch,
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
    seeds: Seeds = 1,
    seeds_deciding: Annotated[
        int, typer.Option("--seeds-deciding", min=1, help="Seeds of the rows that an ordering depends on.")
    ] = 1,
    jobs: Jobs = 1,
    out: Annotated[Path, typer.Option("--out", help="Folder of the runs, the table and the picture.")] = Path(
        "runs/table-3"
    ),
    sets: Sets = None,
    show: Show = False,
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
    print_table(table3.narrow(found), [], claims)
    rows_done, ours, papers = table3.columns(found)
    if rows_done and not show:
        write_table(out, "table-3", table3.table(found), [], claims)
        table_png(out / "table-3.png", "Table 3: BLEU on the development set", rows_done, ours, papers)
        print(f"\n{out / 'table-3.md'}\n{out / 'table-3.png'}")
    count_failures(failures, len(experiments))


def print_table(narrow: str, remarks: list[str], claims: list[str]) -> None:
    """For a terminal: the table, what must be known of it, and the claims that could be checked."""
    wrapped = [fill(line, 80, subsequent_indent="  ") for line in [*remarks, *claims]]
    print("\n".join([narrow, "", *wrapped]))


def write_table(out: Path, name: str, table: str, remarks: list[str], claims: list[str]) -> None:
    text = "\n".join([table, "", *remarks, *([""] if remarks else []), *claims])
    (out / f"{name}.md").write_text(text + "\n", encoding="utf-8")


def count_failures(failures: list[str], total: int) -> None:
    if failures:
        warn(f"{len(failures)} of {total} runs failed; the same command tries them again.")
        raise typer.Exit(1)


# --- Set Transformer -------------------------------------------------------------------------------------

SET_TABLES = {
    "set-max": "*Set Transformer*, Table 1: the largest number of a set.",
    "set-unique": "*Set Transformer*, Table 2: counting unique characters. Needs --set data.path=OMNIGLOT.npz.",
    "set-inducing": "*Set Transformer*, Figure 3: accuracy by inducing points. Needs --set data.path=OMNIGLOT.npz.",
    "set-clustering": "*Set Transformer*, Table 3: mixtures of four Gaussians.",
    "set-clustering-large": "*Set Transformer*, supplement: mixtures of six Gaussians.",
    "set-points": "*Set Transformer*, Table 4: point clouds of generated shapes, digits or ModelNet40.",
    "set-anomaly": "*Set Transformer*, Table 5: the image that does not belong. Needs --set data.path=FLICKR8K.",
    "set-keychain": "Multiple instances: key chains, and whether attention finds the key.",
}
AGAIN = """

    Every row is a run directory of its own in --out. The same command again goes on where it stopped, and does nothing
    twice; rows and seeds may be added. Shorter training by --set train.steps=N is said in the table.

    Example:  regard reproduce NAME --jobs 4 --seeds 3
"""


def add_set_table(name: str) -> None:
    """A command for one of the tables."""

    def command(
        rows: Rows = "",
        seeds: Seeds = 1,
        jobs: Jobs = 1,
        out: Annotated[Path, typer.Option("--out", help="Folder of the runs, the table and the picture.")] = Path(
            f"runs/{name}"
        ),
        sets: Sets = None,
        show: Show = False,
    ) -> None:
        set_table(name, rows, seeds, jobs, out, sets or [], show)

    command.__doc__ = SET_TABLES[name] + AGAIN.replace("NAME", name)
    app.command(name)(command)


for table_name in SET_TABLES:
    add_set_table(table_name)


def set_table(name: str, rows: str, seeds: int, jobs: int, out: Path, sets: list[str], show: bool) -> None:
    from regard.reproduce.experiments import carry_out
    from regard.reproduce.sets import TABLES, draw_best, measure
    from regard.reproduce.tables import choose
    from regard.training.sets import check_data

    table, overrides = TABLES[name], dict(parse_override(text) for text in sets)
    experiments = table.experiments(out, choose(table.rows, rows, name), seeds, overrides)
    failures: list[str] = []
    if not show:
        check_data(experiments[0].recipe)  # a file that is missing is missing for all rows
        failures = carry_out(experiments, measure, jobs, console)
    found = table.finished(out)  # earlier ones too
    remarks, claims = table.remarks(found), [f"- {claim}: {word}" for claim, word in table.verdicts(found)]
    print_table(table.narrow(found), remarks, claims)
    if any(each.result for each in found) and not show:
        write_table(out, name, table.markdown(found), remarks, claims)
        draw_set_table(table, found, out / f"{name}.png")
        print(f"\n{out / f'{name}.md'}\n{out / f'{name}.png'}")
        if draw_best(found, out / "clusters.png"):
            print(out / "clusters.png")
    count_failures(failures, len(experiments))


def draw_set_table(table: Table, found: list[Experiment], path: Path) -> None:
    """Rows as points; of Figure 3, a line over the numbers of inducing points where there are any."""
    from regard.view import line_png, table_png

    rows, ours, papers = table.picture(found)
    here = dict(zip(rows, ours, strict=True))
    if table.name == "set-inducing" and any(name.startswith("ISAB") for name in rows):
        changes = {row.name: row.change for row in table.rows}
        induced = {changes[name]["model.n_inducing"]: here[name] for name in rows if name.startswith("ISAB")}
        levels = {name: mean for name, (mean, _) in here.items() if not name.startswith("ISAB")}
        line_png(path, table.title, "inducing points", induced, levels)
        return
    table_png(path, f"{table.title} ({table.columns[0].title})", rows, ours, papers)


@app.command("table-4")
def table_4(
    treebanks: Annotated[Path, typer.Option("--treebanks", help="The folder of the treebanks' files.")] = Path("."),
    rows: Annotated[str, typer.Option("--rows", metavar="NAMES", help="Only these of wsj, gum, craft, joint.")] = "",
    text: Annotated[
        Path | None,
        typer.Option("--text", help="Plain sentences: also rows that learn from their own parses of them."),
    ] = None,
    least_confidence: Annotated[
        float, typer.Option("--least-confidence", min=0.0, max=1.0, help="Of the parses that are learned from.")
    ] = 0.9,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds of every row.")] = 1,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs at once on the one device.")] = 1,
    out: Annotated[Path, typer.Option("--out", help="Folder of the runs and the table.")] = Path("runs/table-4"),
    sets: Sets = None,
    show: Annotated[bool, typer.Option("--show", help="Print what is there so far, and train nothing.")] = False,
) -> None:
    """*Attention Is All You Need*, Table 4: English constituency parsing, ours beside the paper's.

    The paper's treebank is not free; each row says what it was trained on and scored on. Every row is a run directory
    in --out, and the same command again goes on where it stopped. Malformed outputs are counted with the grammar and
    without.

    Example:  regard reproduce table-4 --treebanks constituency --jobs 4
    """
    from regard.reproduce import table4
    from regard.reproduce.experiments import carry_out

    overrides = dict(parse_override(item) for item in sets or ())
    chosen = table4.choose(rows)
    again = [row for row in table4.SELF_TRAINED if row.parent in {one.name for one in chosen}]
    failures: list[str] = []
    if not show:
        table4.check_files(chosen, treebanks)
        planned = table4.experiments(chosen, treebanks, out, seeds, overrides)
        failures = carry_out(planned, table4.measure, jobs, console)
        if text and not failures:
            asked = table4.Text(text, least_confidence)
            measure = partial(table4.measure_again, text=asked, folder=out)
            more = table4.experiments(again, treebanks, out, seeds, overrides)
            failures = carry_out(more, measure, jobs, console)
    every = [*table4.ROWS, *table4.SELF_TRAINED]
    found = table4.experiments(every, treebanks, out, MOST_SEEDS, overrides)  # earlier ones too
    print(table4.narrow(found, every))
    if not show:
        out.mkdir(parents=True, exist_ok=True)
        (out / "table-4.md").write_text(table4.table(found, every) + "\n", encoding="utf-8")
        print(f"\n{out / 'table-4.md'}")
    if failures:
        warn(f"{len(failures)} runs failed; the same command tries them again.")
        raise typer.Exit(1)
