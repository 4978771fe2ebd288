"""`regard reproduce`: the tables of the papers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Device, Sets, console, warn
from regard.config import Recipe, parse_override
from regard.errors import RegardError, nearest
from regard.wording import counted

if TYPE_CHECKING:
    from regard.reproduce.experiments import Experiment, Measure
    from regard.reproduce.tables import Printed, Values

app = typer.Typer(help="A paper's table, measured here and printed beside the paper's figures.")

Rows = Annotated[
    str, typer.Option("--rows", metavar="NAMES", help="Only these, separated by commas: groups (A) or rows (N = 2).")
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Seeds of every row.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Runs at once on the one device.")]
Show = Annotated[bool, typer.Option("--show", help="Print what is there so far of these rows, and train nothing.")]


def folder(out: Path) -> Path:
    if out.exists() and not out.is_dir():
        raise RegardError(f"--out {out} is a file: give a folder.")
    return out


OUT = typer.Option("--out", help="Folder of the runs, the table and the picture.", callback=folder)
MEASURED = typer.Option("--out", help="Folder of the table, the figures and the picture.", callback=folder)


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
    k: Annotated[int, typer.Option("--k", min=2, help="Width of the convolution.")] = 3,
    r: Annotated[int, typer.Option("--r", min=2, help="Positions of a neighbourhood.")] = 32,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Of each timing; the median counts.")] = 5,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Sequences at once.")] = 1,
    out: Annotated[Path, MEASURED] = Path("runs/table-1"),
) -> None:
    """Attention Is All You Need, Table 1: what attention, recurrence and convolution cost, measured.

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
    tell(out, "table-1")


@app.command("forgetting")
def forgetting(
    device: Device = "auto",
    distance: Annotated[int, typer.Option("--distance", min=2, help="Positions between output and input.")] = 100,
    width: Annotated[int, typer.Option("--width", min=8, help="d of every network, a multiple of 4.")] = 64,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Networks of each kind.")] = 5,
    out: Annotated[Path, MEASURED] = Path("runs/forgetting"),
) -> None:
    """What recurrence forgets: the gradient of an output with respect to an input, by the distance between them.

    For RNN, LSTM, GRU, convolutions and the Transformer as they are initialised; for the RNN with its recurrent matrix
    made smaller and larger, with and without clipping.

    Example:  regard reproduce forgetting --device cpu
    """
    from regard.reproduce import forgetting as measured
    from regard.training.device import pick

    measured.write(measured.measure(distance, width, seeds, pick(device)), out)
    tell(out, "forgetting")


def tell(folder: Path, name: str) -> None:
    """Print what was measured, and where it is written."""
    from regard.reproduce.tables import for_terminal

    written = folder / f"{name}.md"
    print(for_terminal(written.read_text(encoding="utf-8")))
    print("\n".join(["", *(str(written.with_suffix(ending)) for ending in (".md", ".json", ".png"))]))


def numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise RegardError(f"{option} {text}: give whole numbers separated by commas, e.g. 512,1024,2048.") from None


# --- tables whose rows are trained -----------------------------------------------------------------------


@app.command("table-3")
def table_3(
    scale: Annotated[str, typer.Option("--scale", help="multi30k, or wmt: the paper's own setting.")] = "multi30k",
    rows: Rows = "",
    seeds: Seeds = 1,
    seeds_deciding: Annotated[
        int, typer.Option("--seeds-deciding", min=1, help="Seeds of the rows that an ordering depends on.")
    ] = 1,
    jobs: Jobs = 1,
    out: Annotated[Path, OUT] = Path("runs/table-3"),
    sets: Sets = None,
    show: Show = False,
) -> None:
    """Attention Is All You Need, Table 3: variations of the Transformer, ours beside the paper's.

    Every row is a run directory of its own in --out. The same command again goes on where it stopped, and does nothing
    twice. At the scale of multi30k, fetch the corpus first: regard data fetch multi30k-en-de.

    Example:  regard reproduce table-3 --jobs 4 --seeds-deciding 3
    """
    from regard.reproduce.table3 import TABLES, measure
    from regard.reproduce.tables import choose

    if scale not in TABLES:
        raise RegardError(f"No scale {scale}{nearest(scale, TABLES)}; there are {', '.join(TABLES)}.")
    table = TABLES[scale]
    chosen = choose(table.rows, rows, "Table 3")
    planned = table.plan(out, chosen, seeds, seeds_deciding, changes(sets))
    if not show:
        check_corpus(planned[0].recipe)
    stage = (planned, partial(measure, weights=table.scale.weights))
    run_table(replace(table, rows=tuple(chosen)) if show else table, [stage], out, jobs, show, table.draw)


@app.command("families")
def families(
    rows: Rows = "",
    seeds: Seeds = 1,
    jobs: Jobs = 1,
    out: Annotated[Path, OUT] = Path("runs/families"),
    sets: Sets = None,
    show: Show = False,
) -> None:
    """What attention replaced: recurrence with and without it, convolution, and the Transformer, on Multi30k.

    BLEU with what long sentences lose of it, parameters, training time and decoding speed in one table; BLEU by length
    of all of them in one picture. Fetch the corpus first: regard data fetch multi30k-en-de-tok. Every row is a run
    directory of its own in --out. The same command again goes on where it stopped, and does nothing twice. Times are
    those of runs that have the machine to themselves: leave --jobs at 1 for them.

    Example:  regard reproduce families --seeds 3
    """
    from regard.reproduce.families import FAMILIES, measure
    from regard.reproduce.tables import choose

    chosen = choose(FAMILIES.rows, rows, "The table")
    planned = FAMILIES.experiments(out, chosen, seeds, changes(sets))
    if not show:
        check_corpus(planned[0].recipe)
    table = replace(FAMILIES, rows=tuple(chosen)) if show else FAMILIES
    run_table(table, [(planned, measure)], out, jobs, show, FAMILIES.draw)


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
    seeds: Seeds = 1,
    jobs: Jobs = 1,
    out: Annotated[Path, OUT] = Path("runs/table-4"),
    sets: Sets = None,
    show: Show = False,
) -> None:
    """Attention Is All You Need, Table 4: English constituency parsing, ours beside the paper's.

    The paper's treebank is not free; each row says what it was trained on and scored on. Every row is a run directory
    in --out, and the same command again goes on where it stopped. Malformed outputs are counted with the grammar and
    without.

    Example:  regard reproduce table-4 --treebanks constituency --jobs 4
    """
    from regard.reproduce import table4

    chosen = table4.choose(rows)
    again = [row for row in table4.SELF_TRAINED if row.parent in {one.name for one in chosen}]
    stages: list[Stage] = [
        (table4.experiments(chosen, treebanks, out, seeds, changes(sets)), table4.measure)
    ]  # fmt: skip
    if text:
        asked = table4.Text(text, least_confidence)
        more = table4.experiments(again, treebanks, out, seeds, changes(sets))
        stages.append((more, partial(table4.measure_again, text=asked, folder=out)))
    if not show:
        table4.check_files(chosen, treebanks)
    if text and not show:
        table4.check_text(more, asked)
    run_table(table4.Parsers(rows=(*chosen, *again)) if show else table4.Parsers(), stages, out, jobs, show)


SetRows = Annotated[
    str, typer.Option("--rows", metavar="NAMES", help="Only these rows or groups of rows, separated by commas.")
]
SET_TABLES = {  # what `--help` says of each: the tables themselves load torch
    "set-max": "Set Transformer, Table 1: the largest number of a set.",
    "set-unique": "Set Transformer, Table 2: counting unique characters. Needs --set data.path=OMNIGLOT.npz.",
    "set-inducing": "Set Transformer, Figure 3: accuracy by inducing points. Needs --set data.path=OMNIGLOT.npz.",
    "set-clustering": "Set Transformer, Table 3: mixtures of four Gaussians.",
    "set-clustering-large": "Set Transformer, supplement: mixtures of six Gaussians.",
    "set-points": "Set Transformer, Table 4: point clouds of generated shapes, digits or ModelNet40.",
    "set-anomaly": "Set Transformer, Table 5: the image that does not belong. Needs --set data.path=FLICKR8K.",
    "set-keychain": "Multiple instances: key chains, and whether attention finds the key.",
}
AGAIN = """

    Every row is a run directory of its own in --out. The same command again goes on where it stopped, and does nothing
    twice; rows and seeds may be added. Shorter training by --set train.steps=N is said in the table.

    Examples:  regard reproduce NAME --jobs 4 --seeds 3

    regard reproduce NAME --rows "ROWS"
"""
ROWS = {  # an example: rows, or a group of them
    "set-max": "SAB+PMA,rFF+Pool (max)", "set-unique": "SAB+PMA,rFF+Pool", "set-inducing": "ISAB,rFF+PMA",
    "set-clustering": "ISAB16+PMA,supplement", "set-clustering-large": "ISAB32+PMA,rFF+Pool",
    "set-points": "100,ISAB16+PMA, 1000", "set-anomaly": "SAB+PMA,rFF+Pool", "set-keychain": "any,SAB+PMA, both",
}  # fmt: skip
FILES = {  # whose data is not generated
    "set-unique": "omniglot_28x28.npz", "set-inducing": "omniglot_28x28.npz", "set-anomaly": "flickr8k",
}  # fmt: skip


def add_set_table(name: str) -> None:
    """A command for one of the tables."""

    def command(
        rows: SetRows = "",
        seeds: Seeds = 1,
        jobs: Jobs = 1,
        out: Annotated[Path, OUT] = Path(f"runs/tables/{name}"),  # runs/NAME may be that of a recipe
        sets: Sets = None,
        show: Show = False,
    ) -> None:
        from regard.reproduce.sets import TABLES, draw, measure, of_last_weights
        from regard.reproduce.tables import choose
        from regard.training.sets import check_data

        table = TABLES[name]
        chosen = choose(table.rows, rows, name)
        planned = table.experiments(out, chosen, seeds, changes(sets))
        if not show:
            check_data(planned[0].recipe)  # a file that is missing is missing for all rows
        shown = replace(table, rows=tuple(chosen)) if show else table
        stage = (planned, partial(measure, last=of_last_weights(table)))
        run_table(shown, [stage], out, jobs, show, partial(draw, table))

    asked = f"{name} --set data.path={FILES[name]}" if name in FILES else name
    command.__doc__ = SET_TABLES[name] + AGAIN.replace("NAME", asked).replace("ROWS", ROWS[name])
    app.command(name)(command)


for table_name in SET_TABLES:
    add_set_table(table_name)


# --- what they share -------------------------------------------------------------------------------------

Stage = tuple[Sequence["Experiment"], "Measure"]
Draw = Callable[[Sequence["Experiment"], Path], list[Path]]


def changes(sets: list[str] | None) -> Values:
    return dict(parse_override(text) for text in sets or ())


def check_corpus(recipe: Recipe) -> None:
    """A corpus that is missing is missing for all rows."""
    from regard.config import PairRecipe
    from regard.data.corpus import load_required

    assert isinstance(recipe, PairRecipe)
    load_required(recipe.data, "valid")


def run_table(
    table: Printed, stages: Sequence[Stage], out: Path, jobs: int, show: bool, draw: Draw | None = None
) -> None:
    """Carry out what is left, a stage after the other, and print and write what there is then, earlier rows too.

    stages: experiments that may go on at once, and how they are measured; the first that fails is the last
    """
    from regard.reproduce.experiments import carry_out, unfinished

    failures: list[str] = []
    for experiments, measure in [] if show else stages:
        failures = failures or carry_out(experiments, measure, jobs, console)
    found = table.finished(out)
    remarks, claims = table.remarks(found), [f"- {claim}: {word}" for claim, word in table.verdicts(found)]
    wrapped = [fill(line, 80, subsequent_indent="  ") for line in [*remarks, *claims]]
    begun = unfinished(out, {each.row: each.recipe.name for experiments, _ in stages for each in experiments})
    wrapped += ["", "Not finished:", *begun] if begun else []
    print("\n".join([table.narrow(found), "", *wrapped]))
    if found and not show:
        written = out / f"{table.name}.md"
        text = "\n".join([table.markdown(found), "", *remarks, *([""] if remarks else []), *claims])
        written.write_text(text + "\n", encoding="utf-8")
        print("\n".join(["", *map(str, [written, *(draw(found, out) if draw else [])])]))
    if failures:
        total = sum(len(experiments) for experiments, _ in stages)
        warn(f"Failed: {len(failures)} of {counted(total, 'run')}; the same command tries again.")
        raise typer.Exit(1)
