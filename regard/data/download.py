"""One file over HTTP that survives a bad line: resumed where it broke off, checked, and only then given its name.

What has arrived lies in NAME.part, and beside it NAME.part.json says which version of the file that is. Going on
asks the server for the rest of that very version (Range with If-Range); a server that cannot, or whose file has
changed, sends everything again.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.files import file_hash
from regard.errors import RegardError

Report = Callable[[str, int, int | None], None]  # file name, bytes so far, bytes in all where known
Say = Callable[[str], None]

PAUSES = (1.0, 2.0, 5.0, 10.0)  # seconds before each new attempt; one that got further starts the row anew
TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 16
PASSING = {408, 425, 429, 500, 502, 503, 504}  # answers that may be better next time


@dataclass(frozen=True)
class Receipt:
    """What was got, and from where."""

    address: str
    size: int
    sha256: str


class BrokenOff(Exception):
    """The transfer ended before the file did."""


def download(
    address: str, to: Path, checksum: str = "", report: Report | None = None, say: Say | None = None,
    pauses: Sequence[float] = PAUSES, timeout: float = TIMEOUT,
) -> Receipt:  # fmt: skip
    """The file at `address` as `to`; nothing is sent where it is there already."""
    if not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        part = to.with_name(f"{to.name}.part")
        insist(address, part, report or (lambda name, done, total: None), say or (lambda text: None), pauses, timeout)
        check(address, part, checksum)
        os.replace(part, to)
        note_of(part).unlink(missing_ok=True)
    return Receipt(address, to.stat().st_size, file_hash(to))


def insist(address: str, part: Path, report: Report, say: Say, pauses: Sequence[float], timeout: float) -> None:
    """Transfer, and again after a pause where the line or the server fails."""
    failures, furthest = 0, size(part)
    while True:
        try:
            return transfer(address, part, report, timeout)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:  # what we have is longer than the file: it is another one
                part.unlink(missing_ok=True)
            elif error.code not in PASSING:
                raise RegardError(
                    f"{address} cannot be fetched: the server says {error.code} {error.reason}. "
                    "Get the file another way and give its folder with --from."
                ) from None
            problem = f"the server says {error.code} {error.reason}"
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
            problem = str(getattr(error, "reason", error)) or type(error).__name__
        except BrokenOff as error:
            problem = str(error)
        failures = failures + 1 if size(part) <= furthest else 1
        furthest = max(furthest, size(part))
        if failures > len(pauses):
            raise RegardError(
                f"{address} could not be fetched: {problem}. {size(part):,} bytes have arrived; the same command "
                "goes on from there. Without a network, get the file another way and give its folder with --from."
            )
        say(f"{address}: {problem}; again in {pauses[failures - 1]:g} s")
        time.sleep(pauses[failures - 1])


def transfer(address: str, part: Path, report: Report, timeout: float) -> None:
    """One attempt: the rest of what is in `part`, or everything."""
    have, version, total = state(address, part)
    if have and have == total:
        return
    headers = {"User-Agent": "regard", "Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": version}
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=timeout) as response:
        length = response.headers.get("Content-Length")
        piece = response.headers.get("Content-Range", "") if response.status == 206 else "bytes 0-"
        have, total = begins(piece, part, have)
        total = have + int(length) if total is None and length else total
        version = version_of(response.headers.get("ETag", ""), response.headers.get("Last-Modified", ""))
        note_of(part).write_text(json.dumps({"address": address, "version": version, "total": total}))
        with part.open("ab" if have else "wb") as file:
            while chunk := response.read1(CHUNK):
                file.write(chunk)
                have += len(chunk)
                report(part.name.removesuffix(".part"), have, total)
    if total is not None and have != total:
        raise BrokenOff(f"the transfer broke off after {have:,} of {total:,} bytes")


def state(address: str, part: Path) -> tuple[int, str, int | None]:
    """Bytes that can be kept, the version they are of, and the size of the whole."""
    try:
        note = json.loads(note_of(part).read_text())
        usable = note["address"] == address and note["version"]
        return (size(part), note["version"], note["total"]) if usable else (0, "", None)
    except (OSError, ValueError, KeyError, TypeError):
        return 0, "", None


def version_of(etag: str, last_modified: str) -> str:
    """What If-Range takes: a strong tag, else a date."""
    return etag if etag.startswith('"') else last_modified


def begins(content_range: str, part: Path, have: int) -> tuple[int, int | None]:
    """Where a piece of a file begins, and the size of the whole where it is told. A piece that fits neither behind
    what we have nor at the beginning is no use, and the next attempt asks for everything."""
    found = re.match(r"bytes (\d+)-\d*(?:/(\d+))?", content_range)
    if not found or int(found[1]) not in (0, have):
        part.unlink(missing_ok=True)
        raise BrokenOff("the server sent another piece of the file than it was asked for")
    return int(found[1]), int(found[2]) if found[2] else None


def check(address: str, part: Path, checksum: str) -> None:
    algorithm, _, expected = checksum.partition(":")
    if expected and file_hash(part, algorithm) != expected:
        part.unlink()
        note_of(part).unlink(missing_ok=True)
        raise RegardError(
            f"{address} does not have the checksum it should have ({checksum}), so what arrived was deleted: "
            "try again, and if it stays so, the file has been changed at its source."
        )


def note_of(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
