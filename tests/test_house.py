"""The plan of the house: imports point one way, and every room says what it is for."""

from __future__ import annotations

import ast
from pathlib import Path

import regard

PACKAGE = Path(regard.__file__).parent

OPEN = {"config", "__pycache__"}  # to all; so is `errors`
# Each room and those it may use.
ROOMS = {
    "nn": set(),
    "view": set(),
    "data": set(),
    "evaluate": {"data"},
    "models": {"nn"},
    "decode": {"nn", "models", "data"},
    "tasks": {"nn", "models", "data", "decode", "evaluate", "view"},
    "training": {"nn", "models", "data", "decode", "evaluate", "tasks", "view"},
    "doctor": {"nn", "models", "data", "decode", "evaluate", "tasks", "training", "view"},
    "recipes": set(),
    "estimators": {"nn", "models", "data", "tasks", "training"},
    "export": {"nn", "models", "data", "decode", "evaluate", "tasks", "training"},
    "reproduce": {"nn", "models", "data", "decode", "evaluate", "tasks", "view", "training"},
    "serve": {"data", "decode", "training", "export", "tasks", "view"},
    "cli": {
        "nn",
        "models",
        "data",
        "decode",
        "evaluate",
        "tasks",
        "view",
        "training",
        "doctor",
        "export",
        "reproduce",
        "serve",
    },
}


def imported_rooms(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in modules if name.startswith("regard.")} & set(ROOMS)


def test_every_folder_is_a_room_of_the_plan() -> None:
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir()} - OPEN == set(ROOMS)


def test_imports_point_one_way() -> None:
    for room, allowed in ROOMS.items():
        for path in (PACKAGE / room).rglob("*.py"):
            assert imported_rooms(path) <= allowed | {room}, path


def test_config_and_errors_lean_on_nothing() -> None:
    for path in (PACKAGE / "errors.py", *(PACKAGE / "config").glob("*.py")):
        assert imported_rooms(path) == set()


def test_every_module_says_what_it_is() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_models_know_nothing_of_data_or_training() -> None:
    """Building and running a Transformer loads neither."""
    import subprocess
    import sys

    code = """
import sys, torch
from regard import Transformer, TransformerConfig
from regard.nn.layout import Padded
model = Transformer(TransformerConfig(n_layers=1, d_model=8, d_ff=8, n_heads=2), 10)
model(torch.ones(1, 3, dtype=int), Padded.of([3]), torch.ones(1, 2, dtype=int), Padded.of([2]))
loaded = {name.split(".")[1] for name in sys.modules if name.startswith("regard.")}
assert loaded == {"nn", "models", "config", "errors"}, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)
