"""API keys: a file of their hashes, and how many requests a minute each may make.

A key is 256 random bits, so that a plain SHA-256 of it cannot be searched backwards; the key itself is printed once and
kept nowhere. The file is read again when it has changed: a key that is removed ends within a second.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from regard.errors import RegardError, nearest
from regard.serve.limits import Refusal

PREFIX = "regard_"
RATE = 600  # requests a minute, unless another rate is given


@dataclass(frozen=True)
class Key:
    name: str
    hash: str
    rate: int  # requests a minute
    created: str


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def read(file: Path) -> list[Key]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))["keys"]
        return [Key(str(one["name"]), str(one["hash"]), int(one["rate"]), str(one["created"])) for one in entries]
    except FileNotFoundError:
        raise RegardError(
            f"There is no file of keys {file}: make one with regard keys add NAME --file {file}."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise RegardError(f"{file} is damaged: it is no file of keys.") from None


def write(file: Path, keys: list[Key]) -> None:
    """In one move, readable by its owner alone."""
    part = file.with_name(f"{file.name}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
        out.write(json.dumps({"keys": [vars(key) for key in keys]}, indent=1) + "\n")
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)


def add(file: Path, name: str, rate: int = RATE) -> str:
    """A new key, which nobody can read again."""
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

    def __post_init__(self) -> None:
        self.keys = read(self.file)
        self.version = self.stamp()

    def stamp(self) -> tuple[int, int]:
        status = self.file.stat()
        return status.st_mtime_ns, status.st_ino

    def refresh(self) -> None:
        """Read the file again where it has changed. One that is gone or damaged leaves the keys as they are."""
        if self.clock() - self.looked < 1.0:
            return
        self.looked = self.clock()
        try:
            if self.stamp() != self.version:
                self.keys, self.version = read(self.file), self.stamp()
        except (OSError, RegardError):
            return

    def find(self, given: str) -> Key:
        self.refresh()
        if not given:
            raise Refusal(401, "A key is needed: send it as Authorization: Bearer KEY, or as api_key.")
        digest = hashed(given)
        found = [key for key in self.keys if hmac.compare_digest(key.hash, digest)]
        if not found:
            raise Refusal(403, "The key is not known here: ask whoever runs this server for one.")
        return found[0]

    def spend(self, given: str) -> Key:
        """Count a request against its key."""
        key, now = self.find(given), self.clock()
        bucket = self.buckets.setdefault(key.hash, Bucket(key.rate, now))
        bucket.left = min(key.rate, bucket.left + (now - bucket.seen) * key.rate / 60)
        bucket.seen = now
        if bucket.left < 1:
            wait = (1 - bucket.left) * 60 / key.rate
            raise Refusal(429, f"This key may make {key.rate} requests a minute: wait a little.", wait)
        bucket.left -= 1
        return key
