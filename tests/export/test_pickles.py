"""torch's files read without executing them; a file that asks for anything else is refused."""

from __future__ import annotations

import argparse
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import RegardError
from regard.export import fairseq, marian, pickles

KINDS = {"zip": True, "legacy": False}


class Payload:
    """Unpickled by an ordinary unpickler, it makes a file."""

    def __init__(self, target: Path, call: Callable[..., Any] = os.system) -> None:
        self.target, self.call = target, call

    def __reduce__(self) -> tuple[Any, ...]:
        command = f"touch {self.target}" if self.call is os.system else f"open({str(self.target)!r}, 'w')"
        return (self.call, (command,))


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_come_out_as_they_went_in(tmp_path: Path, kind: str) -> None:
    base = torch.randn(6, 4)
    content = {
        "model": OrderedDict(
            a=base, b=base.T, c=base[2:4], d=torch.arange(5), e=torch.randn(3).half(), f=torch.randn(2).bfloat16(),
            g=torch.nn.Parameter(torch.randn(2)), h=torch.tensor(3.5), i=torch.empty(0), j=torch.tensor([True, False]),
        ),
        "args": argparse.Namespace(arch="transformer", layers=[1, 2], rate=0.5, none=None),
        "extra": {"bytes": b"\x00\xff", "set": {1, 2}, "tuple": (1, "ä")},
    }  # fmt: skip
    path = tmp_path / "a.pt"
    torch.save(content, path, _use_new_zipfile_serialization=KINDS[kind])
    found = pickles.read(path)
    tensors = pickles.tensors(found["model"], path)
    for name, tensor in content["model"].items():  # type: ignore[attr-defined]
        assert torch.equal(tensors[name], tensor.detach()), name
        assert tensors[name].dtype == tensor.dtype
    assert pickles.plain(found["args"])["layers"] == [1, 2]
    assert found["extra"] == content["extra"]


@pytest.mark.parametrize("call", [os.system, eval, exec])
@pytest.mark.parametrize("kind", KINDS)
def test_a_payload_is_refused_and_not_executed(tmp_path: Path, kind: str, call: Callable[..., Any]) -> None:
    hit, path = tmp_path / "hit", tmp_path / "evil.pt"
    torch.save({"model": Payload(hit, call)}, path, _use_new_zipfile_serialization=KINDS[kind])
    with pytest.raises(RegardError, match="nothing in it was executed"):
        pickles.read(path)
    assert not hit.exists()
    torch.load(path, weights_only=False)  # the payload does work
    assert hit.exists()


def test_a_bare_pickle_is_refused_and_not_executed(tmp_path: Path) -> None:
    hit, path = tmp_path / "hit", tmp_path / "evil.pt"
    path.write_bytes(pickle.dumps(Payload(hit)))
    with pytest.raises(RegardError, match="nothing in it was executed"):
        pickles.read(path)
    assert not hit.exists()


@pytest.mark.parametrize(
    "name", [b"cbuiltins\ngetattr\n.", b"cos\nsystem\n.", b"ctorch.hub\nload\n.", b"cfairseq\nos.system\n."]
)
def test_names_outside_the_list_are_refused_one_by_one(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", name)
    with pytest.raises(RegardError, match="nothing in it was executed"):
        pickles.read(path)


def test_every_importer_refuses_a_payload(tmp_path: Path) -> None:
    hit = tmp_path / "hit"
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "marian"}')
    (folder / "dict.txt").write_text("a 1\n")
    for name in ("pytorch_model.bin", "checkpoint_best.pt"):
        torch.save({"model": {"x": Payload(hit)}, "args": Payload(hit)}, folder / name)
    for read in (marian.read, fairseq.read):
        with pytest.raises(RegardError, match="nothing in it was executed"):
            read(folder, tmp_path / "run")
    assert not hit.exists()
    assert not (tmp_path / "run").exists()


def test_a_part_outside_its_storage_is_refused(tmp_path: Path) -> None:
    class Beyond:
        def __reduce__(self) -> tuple[Any, ...]:
            storage = torch.randn(4).untyped_storage()
            typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=torch.float32, _internal=True)
            return torch._utils._rebuild_tensor_v2, (typed, 0, (1000,), (1,), False, OrderedDict())

    path = tmp_path / "a.pt"
    torch.save({"model": Beyond()}, path)
    with pytest.raises(RegardError, match="damaged"):
        pickles.read(path)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 no archive", pickle.dumps([1, 2])])
def test_what_is_no_file_of_torchs_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(content)
    with pytest.raises(RegardError, match=r"a\.pt is no file"):
        pickles.read(path)


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    for kind, new in KINDS.items():
        path = tmp_path / f"{kind}.pt"
        torch.save({"a": torch.randn(1000)}, path, _use_new_zipfile_serialization=new)
        path.write_bytes(path.read_bytes()[:-2000])
        with pytest.raises(RegardError, match="no file"):
            pickles.read(path)


def test_compressed_entries_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickle.dumps({"a": 1}))
    with pytest.raises(RegardError, match="compressed"):
        pickles.read(path)
