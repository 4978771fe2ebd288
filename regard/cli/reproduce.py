"""`regard reproduce`: the tables of the papers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from regard.cli.options import Sets, console, warn
from regard.config import PairRecipe, parse_override, resolve_as
from regard.errors import RegardError, nearest

MOST_SEEDS = 20  # that a table looks for

app = typer.Typer(help="Train the rows of a paper's table and print it beside the paper's figures.")

Rows = Annotated[
    str, typer.Option("--rows", metavar="NAMES", help="Only these, separated by commas: groups (A) or rows (N = 2).")
]


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
