"""`regard data`: what is done with corpora. Each verb is a file."""

from __future__ import annotations

import typer

from regard.cli.fetch import fetch
from regard.cli.prepare import prepare
from regard.cli.report import report
from regard.cli.write import write

app = typer.Typer(
    help="Corpora: fetch them, look into them, prepare them for training.",
    epilog="Start with: regard data fetch",
    no_args_is_help=True,
)

for verb in (fetch, report, write):
    app.command()(verb)
app.command(context_settings={"allow_extra_args": True})(prepare)  # it says itself what is wrong with them
