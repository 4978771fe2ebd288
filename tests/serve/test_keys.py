"""Keys are kept as hashes, and may make so many requests a minute."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from regard.errors import RegardError
from regard.serve import keys
from regard.serve.keys import Key, Keyring
from regard.serve.limits import Refusal


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_file_has_no_key_and_is_its_owners(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key = keys.add(file, "anna")
    assert key not in file.read_text()
    assert keys.hashed(key) in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(RegardError, match="anna"):
        keys.add(file, "anna")


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[31m"])
def test_a_key_needs_a_name_that_can_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(RegardError, match="A key needs a name of printable characters"):
        keys.add(tmp_path / "keys.json", name)
    assert not (tmp_path / "keys.json").exists()


def test_a_key_is_known_and_others_are_not(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key = keys.add(file, "anna")
    ring = Keyring(file)
    assert ring.find(key).name == "anna"
    for wrong, status in (("", 401), (key + "x", 403), (keys.hashed(key), 403), ("\udc80", 403), ("\ud800", 403)):
        with pytest.raises(Refusal) as refusal:
            ring.find(wrong)
        assert refusal.value.status == status


def test_a_key_that_is_removed_ends_and_a_new_one_begins(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys.json", Clock()
    anna = keys.add(file, "anna")
    told: list[str] = []
    ring = Keyring(file, clock, complain=told.append)
    assert ring.find(anna)
    keys.remove(file, "anna")
    ben = keys.add(file, "ben")
    clock.now += 2
    assert ring.find(ben)
    with pytest.raises(Refusal):
        ring.find(anna)
    os.replace(file, tmp_path / "gone")
    for _ in range(2):
        clock.now += 2
        assert ring.find(ben), "a file that is gone leaves the keys as they were"
    file.write_text("{")
    clock.now += 2
    assert ring.find(ben), "so does a damaged one"
    assert ["no file of keys" in told[0], "damaged" in told[1]] == [True, True]
    assert len(told) == 2, "each trouble is told once"


def test_a_key_that_is_removed_while_the_file_is_read_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, clock = tmp_path / "keys.json", Clock()
    anna = keys.add(file, "anna")
    reading = keys.read

    def read(path: Path) -> list[Key]:
        found = reading(path)
        monkeypatch.setattr(keys, "read", reading)
        keys.remove(file, "anna")
        return found

    monkeypatch.setattr(keys, "read", read)
    ring = Keyring(file, clock)
    assert ring.keys
    clock.now += 2
    with pytest.raises(Refusal):
        ring.find(anna)


def test_what_an_interrupted_write_left_does_not_make_the_keys_public(tmp_path: Path) -> None:
    file, left = tmp_path / "keys.json", tmp_path / "keys.json.part"
    left.write_text("half")
    left.chmod(0o666)
    keys.add(file, "anna")
    assert file.stat().st_mode & 0o077 == 0
    assert not left.exists()
    aim = tmp_path / "aim"
    left.symlink_to(aim)
    keys.add(file, "ben")
    assert not aim.exists(), "nor is a link followed"


@pytest.mark.parametrize(
    ("change", "words"),
    [({"rate": 0}, "rate of anna must be"), ({"rate": 10**400}, "rate of"), ({"hash": "ä"}, "no SHA")],
)
def test_a_file_that_a_hand_has_spoilt_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    file = tmp_path / "keys.json"
    keys.add(file, "anna")
    (entry,) = json.loads(file.read_text())["keys"]
    file.write_text(json.dumps({"keys": [entry | change]}))
    with pytest.raises(RegardError, match=words):
        Keyring(file)


def test_a_rate_is_so_many_at_once_and_comes_back_with_time(tmp_path: Path) -> None:
    file, clock = tmp_path / "keys.json", Clock()
    fast, slow = keys.add(file, "fast", 60), keys.add(file, "slow", 2)
    ring = Keyring(file, clock)
    for _ in range(2):
        ring.spend(ring.find(slow))
    with pytest.raises(Refusal) as refusal:
        ring.spend(ring.find(slow))
    assert refusal.value.status == 429
    assert refusal.value.headers["Retry-After"] == "30"
    ring.spend(ring.find(fast))
    clock.now += 31
    ring.spend(ring.find(slow))


@pytest.mark.parametrize("content", ["", "{}", '{"keys": [{"name": 1}]}', "[]"])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "keys.json").write_text(content)
    with pytest.raises(RegardError, match="damaged"):
        keys.read(tmp_path / "keys.json")
