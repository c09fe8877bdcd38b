# Two commands: `make demo` shows the main job, `make test` checks everything.
# Both make .venv themselves; nothing but Python, pip and make is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# Python compiles what is imported, and keeps it also where the environment forbids it to: else each of a hundred
# processes would compile PyTorch again. Compiling every file of every package takes longer than that.
export PYTHONDONTWRITEBYTECODE :=
PIP_INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

.PHONY: demo test format check tests core-tests chromium other-tests slow-tests clean

# Threads that spin while they wait are seven times slower on two cores that others use as well.
demo: $(VENV)/.demo
	OMP_WAIT_POLICY=passive $(BIN)/triprune run --config examples/demo.toml --out runs/demo

# What looks at no time goes side by side; it leaves a core idle otherwise.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target check core-tests chromium
	@$(MAKE) --no-print-directory other-tests

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

# Coverage is held for the mathematics alone: tracing slows the rest. Small tensors gain nothing from a
# second thread, and threads that wait for each other on busy cores take ten times as long: worker
# processes fill the cores. They begin with a half of the tests each, in order, so that what a file
# or a folder makes once is rarely made twice.
core-tests other-tests slow-tests: export OMP_NUM_THREADS = 1
tests: core-tests chromium other-tests

core-tests: $(VENV)/.dev
	$(BIN)/python -m pytest tests/core --cov --cov-report=term-missing:skip-covered

chromium:
	@sh tools/install_chromium.sh

other-tests: $(VENV)/.dev
	$(BIN)/python -m pytest --ignore=tests/core -m "not alone" --numprocesses=$(WORKERS) --dist=worksteal
	$(BIN)/python -m pytest --ignore=tests/core -m alone

slow-tests: $(VENV)/.dev
	TRIPRUNE_SLOW_TESTS=1 $(BIN)/python -m pytest -m slow

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --editable ".[dev,vision,onnx,ray]"
	@touch $@ $(VENV)/.demo
