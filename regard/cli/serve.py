"""`regard serve` and `regard keys`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Beam, Device, Weights, given
from regard.errors import RegardError
from regard.serve.keys import HIGHEST_RATE, RATE
from regard.serve.limits import Limits

PANEL = "Limits (all are on)"

keys_app = typer.Typer(help="API keys for regard serve --keys FILE: hashes in a file.", no_args_is_help=True)
KeyFile = Annotated[Path, typer.Option("--file", help="The file of keys.")]
KEYS = Path("keys.json")
LIMITS = Limits()  # for their defaults


@keys_app.command("add")
def add_key(
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    file: KeyFile = KEYS,
    rate: Annotated[int, typer.Option("--rate", min=1, max=HIGHEST_RATE, help="Requests a minute.")] = RATE,
) -> None:
    """Make a key and print it, once: the file keeps its hash.

    Example:  regard keys add anna --rate 120
    """
    from regard.serve import keys

    print(keys.add(file, name, rate))


@keys_app.command("list")
def list_keys(file: KeyFile = KEYS) -> None:
    """Names, rates and dates, a key a line."""
    from regard.serve import keys

    for key in keys.read(file):
        print(f"{key.name}\t{key.rate}/min\t{key.created}")


@keys_app.command("remove")
def remove_key(name: Annotated[str, typer.Argument(help="Whose key it is.")], file: KeyFile = KEYS) -> None:
    """Remove a key: a running server refuses it within a second."""
    from regard.serve import keys

    keys.remove(file, name)


def limit(text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(min=1, help=text, rich_help_panel=PANEL)
    return option


def serve(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN…", help="Run directories or exports; en-de=RUN where a run does not say."),
    ],
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 is all of the machine's.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 5000,
    host_name: Annotated[
        list[str] | None,
        typer.Option("--host-name", help="A name by which clients call the server, where it listens locally."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Pages that may ask, such as https://example.org, or *. Else none."),
    ] = None,
    keys: Annotated[Path | None, typer.Option(help="A file made by regard keys add: a key is needed then.")] = None,
    log_text: Annotated[bool, typer.Option("--log-text", help="Write the users' texts into the log.")] = False,
    engine: Annotated[str, typer.Option(metavar="auto|torch|ctranslate2", help="What searches.")] = "auto",
    quantization: Annotated[str, typer.Option(metavar="float32|int16|int8", help="Bits for CTranslate2.")] = "",
    beam: Beam = None,
    weights: Weights = "auto",
    device: Device = "auto",
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="CPU threads. Else all cores but one, which has the requests.", show_default=False),
    ] = None,
    batch_tokens: Annotated[
        int, typer.Option("--batch-tokens", min=1, help="Sentences × longest × beam that are searched together.")
    ] = 16_384,
    max_characters: Annotated[int, limit("Of a request's texts together.")] = LIMITS.characters,
    max_items: Annotated[int, limit("Texts of a request.")] = LIMITS.items,
    max_beam: Annotated[int, limit("Beam that a request may ask for.")] = LIMITS.beam,
    max_n_best: Annotated[int, limit("Translations that a request may ask for.")] = LIMITS.n_best,
    max_sentence: Annotated[
        int, limit("Characters of a sentence; a longer one is translated in parts.")
    ] = LIMITS.sentence_characters,
    max_terms: Annotated[int, limit("Terms of a request's glossary.")] = LIMITS.glossary_terms,
    max_term: Annotated[
        int, limit("Characters of a glossary's term or translation; ten times as many of a prefix.")
    ] = LIMITS.term_characters,
    max_attention: Annotated[
        int, limit("Characters whose attention is asked for; twice as many of a given translation.")
    ] = LIMITS.attention_characters,
    max_body: Annotated[int, limit("Bytes of a request.")] = LIMITS.body_bytes,
    max_queue: Annotated[int, limit("Sentences that wait; beyond it, 429.")] = LIMITS.queue,
    max_requests: Annotated[int, limit("Requests that are answered at once; beyond it, 429.")] = LIMITS.in_flight,
    max_seconds: Annotated[float, limit("From a request to its answer; beyond it, 504.")] = LIMITS.seconds,
    read_seconds: Annotated[
        float, limit("For a request's header to come, and again its body; beyond it, 408.")
    ] = LIMITS.read_seconds,
    drain_seconds: Annotated[float, limit("From SIGTERM to the end, whatever is left.")] = LIMITS.drain_seconds,
) -> None:
    """Serve models over HTTP: an API, LibreTranslate's API, and a page. docs/serving.md tells all.

    It listens to this machine alone unless --host says otherwise, and refuses what is beyond its limits in a sentence.
    The log, on stderr, has no user's text. SIGTERM ends it when everything accepted is answered.

    Example:  regard serve runs/demo

    curl localhost:5000/v1/translate --json '{"text": "Is she sleeping?"}'
    """
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        try:
            import_module(package)
        except ImportError:
            raise RegardError(f"A server needs {package}: pip install 'regard[serve]'.") from None
    import torch

    from regard.export.engines import Settings
    from regard.serve.batcher import Batcher
    from regard.serve.guard import LOOPBACK, Access
    from regard.serve.journal import now
    from regard.serve.keys import Keyring
    from regard.serve.metrics import Metrics
    from regard.serve.models import Models, Place, open_served
    from regard.serve.server import listening, loopback, run
    from regard.serve.state import Serving

    limits = Limits(
        characters=max_characters, items=max_items, beam=max_beam, n_best=max_n_best, sentence_characters=max_sentence,
        glossary_terms=max_terms, term_characters=max_term, attention_characters=max_attention, body_bytes=max_body,
        queue=max_queue, in_flight=max_requests, seconds=max_seconds, read_seconds=read_seconds,
        drain_seconds=drain_seconds,
    )  # fmt: skip
    places = [Place.read(text) for text in runs]

    def write(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def say(text: str) -> None:
        write(f"{now()} {text}")

    keyring = Keyring(keys, complain=say) if keys else None
    taken = listening(host, port)
    local = loopback(host)
    if not local and not keyring:
        say("This server listens beyond this machine and needs no key: see --keys, and docs/serving.md.")
    torch.set_num_threads(threads or max(1, torch.get_num_threads() - 1))  # one core is for requests
    settings = Settings(device="cpu" if device == "auto" else device).spread(torch.get_num_threads(), side_by_side=True)
    options = given(beam_size=beam)
    models = Models(
        [open_served(place, engine, quantization, weights, device, settings, say, **options) for place in places]
    )

    metrics = Metrics()
    batcher = Batcher(models.models, limits, metrics, batch_tokens, complain=say)
    names = (*LOOPBACK, *(name.lower() for name in host_name or ())) if local else tuple(host_name or ())
    access = Access(names, tuple(cors or ()))
    for served in models:
        first = models.find(served.source, served.target)
        others = "" if first is served else f' {first.name} answers for this pair: ask for "model": "{served.name}".'
        say(f"{served.name}: {served.source} to {served.target}, by {served.engine}.{others}")
    run(Serving(models, limits, metrics, batcher, keyring, access, write, log_text), taken, say)
