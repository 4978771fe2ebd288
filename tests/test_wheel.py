"""The wheel: built, installed into an empty environment under the same constraints, and used from there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import regard

ROOT = Path(__file__).parent.parent


def test_the_wheel_runs_in_an_empty_environment(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def call(*command: str | Path, cwd: Path = tmp_path) -> str:
        result = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    source = tmp_path / "source"  # a copy, so that no stale build folder can fill in for a missing file
    shutil.copytree(ROOT / "regard", source / "regard", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, source)
    (wheel,) = tmp_path.glob("*.whl")
    static = [file for folder in ("serve/page", "view/viewer") for file in (ROOT / "regard" / folder).iterdir()]
    assert {str(file.relative_to(ROOT)) for file in static} <= set(zipfile.ZipFile(wheel).namelist())
    venv.create(tmp_path / "env", with_pip=True)
    python, command = tmp_path / "env" / "bin" / "python", tmp_path / "env" / "bin" / "regard"
    constraints = ROOT / "constraints.txt"
    call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints, wheel)
    assert call(command, "--version") == f"regard {regard.__version__}\n"
    place = call(python, "-c", "import regard; print(regard.__file__)")
    assert str(tmp_path) in place  # not this source tree
    sets = ("train.steps=3", "train.average=1", "data.test_size=3", "data.train_size=2000", "data.valid_size=5")
    printed = call(command, "train", "reverse", *(f"--set={item}" for item in sets))
    assert "test BLEU = " in printed
    assert (tmp_path / "runs" / "reverse" / "report" / "attention.html").exists()
