"""API keys: a file of their hashes, and how many requests a minute each may make.

A key is 256 random bits, so that a plain SHA-256 of it cannot be searched backwards; the key itself is printed once and
kept nowhere. The file is read again when it has changed: a key that is removed ends within a second. A file that is
gone or damaged ends none, lest a slip of the hand shuts everybody out; the log says so.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from regard.errors import RegardError, nearest
from regard.serve.limits import Refusal

PREFIX = "regard_"
RATE = 600  # requests a minute, unless another rate is given
HIGHEST_RATE = 1_000_000
HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Key:
    name: str
    hash: str
    rate: int  # requests a minute
    created: str


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()  # JSON may bring half of a surrogate pair


def read(file: Path) -> list[Key]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))["keys"]
        keys = [Key(str(one["name"]), str(one["hash"]), int(one["rate"]), str(one["created"])) for one in entries]
    except FileNotFoundError:
        raise missing(file) from None
    except (ValueError, KeyError, TypeError, OverflowError):
        raise RegardError(f"{file} is damaged: it is no file of keys.") from None
    for key in keys:
        if not 1 <= key.rate <= HIGHEST_RATE:
            raise RegardError(
                f"{file}: the rate of {key.name} must be from 1 to {HIGHEST_RATE:,} requests a minute. To end a key, "
                f"remove it: regard keys remove {key.name} --file {file}."
            )
        if not HASH.fullmatch(key.hash):
            raise RegardError(f"{file} is damaged: the hash of {key.name} is no SHA-256.")
    return keys


def missing(file: Path) -> RegardError:
    return RegardError(f"There is no file of keys {file}: make one with regard keys add NAME --file {file}.")


def write(file: Path, keys: list[Key]) -> None:
    """In one move, readable by its owner alone; what an interrupted write has left is not written on, since others may
    be able to read it."""
    part = file.with_name(f"{file.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(json.dumps({"keys": [vars(key) for key in keys]}, indent=1) + "\n")
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)


def add(file: Path, name: str, rate: int = RATE) -> str:
    """A new key, which nobody can read again."""
    if not name.strip() or not name.isprintable():
        raise RegardError("A key needs a name of printable characters: regard keys add anna.")
    keys = read(file) if file.exists() else []
    if any(key.name == name for key in keys):
        raise RegardError(f"{file} has a key called {name}: remove it first, or take another name.")
    key = PREFIX + secrets.token_urlsafe(32)
    write(file, [*keys, Key(name, hashed(key), rate, datetime.now(UTC).isoformat(timespec="seconds"))])
    return key


def remove(file: Path, name: str) -> None:
    keys = read(file)
    if all(key.name != name for key in keys):
        raise RegardError(f"{file} has no key called {name}{nearest(name, [key.name for key in keys])}.")
    write(file, [key for key in keys if key.name != name])


@dataclass
class Bucket:
    """Requests that a key may still make: so many at once, and then as they come back."""

    left: float
    seen: float


@dataclass
class Keyring:
    """The keys as the server asks for them."""

    file: Path
    clock: Callable[[], float] = time.monotonic
    keys: list[Key] = field(default_factory=list)
    buckets: dict[str, Bucket] = field(default_factory=dict)
    version: tuple[int, int] = (0, 0)
    looked: float = float("-inf")
    complain: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)
    trouble: str = ""  # what was complained of last

    def __post_init__(self) -> None:
        self.load()

    def load(self) -> None:
        """Read the file where it has changed. Its stamp is taken first: what changes while it is read is read again."""
        version = self.stamp()
        if version != self.version:
            self.keys, self.version = read(self.file), version

    def stamp(self) -> tuple[int, int]:
        try:
            status = self.file.stat()
        except FileNotFoundError:
            raise missing(self.file) from None
        return status.st_mtime_ns, status.st_ino

    def refresh(self) -> None:
        """Look at the file once a second. One that is gone or damaged leaves the keys as they are, and is complained of
        once."""
        if self.clock() - self.looked < 1.0:
            return
        self.looked = self.clock()
        trouble = ""
        try:
            self.load()
        except (OSError, RegardError) as error:
            trouble = f"The keys stay as they were, since their file cannot be read. {error}"
        if trouble and trouble != self.trouble:
            self.complain(trouble)
        self.trouble = trouble

    def find(self, given: str) -> Key:
        self.refresh()
        if not given:
            raise Refusal(401, "A key is needed: send it as Authorization: Bearer KEY, or as api_key.")
        digest = hashed(given)
        found = [key for key in self.keys if hmac.compare_digest(key.hash, digest)]
        if not found:
            raise Refusal(403, "The key is not known here: ask whoever runs this server for one.")
        return found[0]

    def spend(self, key: Key) -> None:
        """Count a request against its key."""
        now = self.clock()
        bucket = self.buckets.setdefault(key.hash, Bucket(key.rate, now))
        bucket.left = min(key.rate, bucket.left + (now - bucket.seen) * key.rate / 60)
        bucket.seen = now
        if bucket.left < 1:
            wait = (1 - bucket.left) * 60 / key.rate
            raise Refusal(429, f"This key may make {key.rate} requests a minute: wait a little.", wait)
        bucket.left -= 1
