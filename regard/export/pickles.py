"""torch's pickled files, read without executing anything in them.

A pickle is a program: it may call any function that it can name. Here a name stands for one of a few harmless things, a
tensor over bytes of the file, a container, an inert record; any other name ends the reading. The two kinds of file that
torch has written are read: the zip archive of today, and the stream of pickles and bytes before it.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from regard.errors import RegardError

LEGACY = (0x1950A86A20F9469CFC6C, 1001)  # how a stream begins: a number and a version

TYPES = {
    "DoubleStorage": torch.float64, "FloatStorage": torch.float32, "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16, "LongStorage": torch.int64, "IntStorage": torch.int32,
    "ShortStorage": torch.int16, "CharStorage": torch.int8, "ByteStorage": torch.uint8, "BoolStorage": torch.bool,
}  # fmt: skip


class Record:
    """A stand-in for an object of somebody's class: it keeps what the file says of it and does nothing."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self.arguments = arguments
        self.__dict__.update(more)

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self.__dict__.update({str(key): value for key, value in state.items()})
        else:
            self.state = state


def rebuild_tensor(storage: Tensor, offset: int, size: Any, stride: Any, *rest: Any) -> Tensor:
    """A tensor over a part of a storage; torch itself refuses a part that lies outside."""
    return storage.as_strided(tuple(size), tuple(stride), offset)


def rebuild_parameter(data: Tensor, *rest: Any) -> Tensor:
    return data


def as_bytes(text: str, encoding: str = "latin1") -> bytes:
    """What a pickle of old calls to make bytes from text."""
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor"): rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch", "Size"): tuple,
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "defaultdict"): lambda *kind: defaultdict(None),
    ("argparse", "Namespace"): Record,
    ("_codecs", "encode"): as_bytes,
    ("typing", "Any"): Record,
    **{("torch", name): kind for name, kind in TYPES.items()},
    **{("torch.storage", name): kind for name, kind in TYPES.items()},
    **{("torch", str(kind).removeprefix("torch.")): kind for kind in TYPES.values()},
    **{(room, kind.__name__): kind for kind in (set, frozenset, list, tuple, dict, int, float, bool, str, complex)
       for room in ("builtins", "__builtin__")},
}  # fmt: skip
INERT = ("omegaconf", "fairseq")  # packages whose objects are kept as records, whatever they were


class Unpickler(pickle.Unpickler):
    """Reads one pickle; `storage` finds the numbers that a tensor in it refers to."""

    def __init__(self, file: IO[bytes], name: str, storage: Callable[[Any], Tensor]) -> None:
        super().__init__(file, encoding="latin1")
        self.name, self.storage = name, storage

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in ALLOWED:
            return ALLOWED[module, name]
        if module.split(".")[0] in INERT and name.isidentifier():
            return Record
        raise RegardError(
            f"{self.name} asks for {module}.{name}, which is no part of a checkpoint's data: it was not read further "
            "and nothing in it was executed. Get the file from a source you trust, or convert it to safetensors there."
        )

    def persistent_load(self, pid: Any) -> Tensor:
        return self.storage(pid)


def read(path: Path) -> Any:
    """What is in a file that `torch.save` has written."""
    try:
        with path.open("rb") as file:
            if zipfile.is_zipfile(file):
                return Archive(zipfile.ZipFile(file), path).read()
            file.seek(0)
            return Stream(file, path).read()
    except FileNotFoundError:
        raise RegardError(f"No such file: {path}.") from None
    except RegardError:
        raise
    except Exception as error:  # a pickle can be wrong in as many ways as a program
        raise RegardError(f"{path} is no file of torch's, or a damaged one: {type(error).__name__}: {error}.") from None


class Archive:
    """A zip archive: `…/data.pkl`, and the bytes of each storage in `…/data/NUMBER`."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self.archive, self.path = archive, path
        (self.pickle,) = (name for name in archive.namelist() if name.endswith("data.pkl") and name.count("/") == 1)
        self.root = self.pickle.removesuffix("data.pkl")
        self.storages: dict[str, Tensor] = {}
        if f"{self.root}byteorder" in archive.namelist() and archive.read(f"{self.root}byteorder") != b"little":
            raise RegardError(f"{path} has its numbers' bytes in the other order: save it again on a common machine.")

    def read(self) -> Any:
        return Unpickler(io.BytesIO(self.member(self.pickle)), str(self.path), self.storage).load()

    def member(self, name: str) -> bytes:
        """An entry as it lies in the file: torch does not compress, and what is compressed may unfold without end."""
        if self.archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
            raise RegardError(f"{self.path}: the entry {name} is compressed, as torch never writes it.")
        return self.archive.read(name)

    def storage(self, pid: Any) -> Tensor:
        kind, key = described(pid)
        if key not in self.storages:
            self.storages[key] = numbers(self.member(f"{self.root}data/{key}"), kind)
        return self.storages[key]


class Stream:
    """Five pickles, then the bytes of the storages: tensors are made first and filled afterwards."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self.file, self.path, self.size = file, path, path.stat().st_size
        self.storages: dict[str, Tensor] = {}

    def read(self) -> Any:
        beginning = self.load(), self.load()
        if beginning != LEGACY:
            raise RegardError(f"{self.path} is no file that torch.save has written.")
        if not self.load().get("little_endian", True):
            raise RegardError(f"{self.path} has its numbers' bytes in the other order: save it again.")
        content = self.load()
        for key in self.load():
            storage = self.storages[str(key)]
            count = int.from_bytes(self.file.read(8), "little")
            if count != len(storage):
                raise ValueError(f"storage {key} has {count} numbers, not {len(storage)}")
            storage.copy_(numbers(self.file.read(count * storage.itemsize), storage.dtype))
        return content

    def load(self) -> Any:
        return Unpickler(self.file, str(self.path), self.storage).load()

    def storage(self, pid: Any) -> Tensor:
        kind, key = described(pid)
        count = int(pid[4])
        if len(pid) > 5 and pid[5] is not None:
            raise ValueError(f"storage {key} is a part of another, as torch has not written it for years")
        if not 0 <= count * kind.itemsize <= self.size:
            raise ValueError(f"storage {key} is larger than the file")
        if key not in self.storages:
            self.storages[key] = torch.zeros(count, dtype=kind)
        return self.storages[key]


def described(pid: Any) -> tuple[torch.dtype, str]:
    """The type and the name in ("storage", type, name, place, count)."""
    what, kind, key, *_ = pid
    if what != "storage" or not isinstance(kind, torch.dtype):
        raise ValueError("a tensor refers to something that is no storage")
    return kind, str(key)


def numbers(content: bytes, kind: torch.dtype) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=kind) if content else torch.zeros(0, dtype=kind)


def plain(value: Any) -> Any:
    """Settings as plain values: records and OmegaConf's nodes become dictionaries, lists and scalars."""
    if isinstance(value, Record):
        inside = vars(value)
        if "_content" in inside:  # DictConfig, ListConfig
            return plain(inside["_content"])
        return plain(inside["_val"]) if "_val" in inside else plain(inside)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def tensors(value: Any, path: Path) -> dict[str, Tensor]:
    """A state dictionary, each tensor with memory of its own."""
    if not isinstance(value, dict) or not value or not all(isinstance(item, Tensor) for item in value.values()):
        raise RegardError(f"{path} holds no dictionary of tensors where the weights should be.")
    return {str(name): tensor.detach().clone() for name, tensor in value.items()}
