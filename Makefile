# A fresh clone needs nothing but Python 3.11 or later and pip.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test soak check fmt clean

setup: $(READY)

# One marker file stands for the finished installation, so that a second call returns at once.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		--config-settings editable_mode=compat -e '.[dev]'
	@touch $(READY)

demo: $(READY)  ## train, score and draw the built-in English–German corpus
	$(BIN)/regard train demo

test: $(READY) check  ## everything that CI runs
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

soak: $(READY)  ## what takes long: many kills, long runs
	$(BIN)/python -m pytest -m soak

check: $(READY)  ## lint and strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fmt: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
