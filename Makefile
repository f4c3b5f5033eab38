# Every target makes the environment it needs in .venv; see `make help`.

PYTHON ?= python3
WORKERS ?= 2
MINUTES ?= 10
SEED ?= 0

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install demo results test lint types pytest quick portable oldest docs stress wheel format clean distclean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */\1|/' | \
		awk -F'|' '{ printf "  make %-10s %s\n", $$1, $$2 }'

# torch goes first and exactly as pinned: a looser request may fetch gigabytes of CUDA libraries.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "deepwishart needs Python 3.11 or newer, but '$(PYTHON)' is older:" \
		     "name another one, for example 'make PYTHON=python3.12 test'." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -c constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(PIP) install --quiet -c constraints.txt -e '.[dev]'
	$(BIN)/python -m deepwishart.native
	@touch $@

install: $(STAMP)  ## make the environment in .venv

demo: $(STAMP)  ## from a table to a model and a page about it, build/demo/index.html, half a minute
	$(BIN)/deepwishart demo --out build/demo

results: $(STAMP)  ## report on the runs in results/, beside the paper's numbers
	$(BIN)/deepwishart uci report results --out results/report

# Types and documentation take a core each, the tests take all of them.
test: lint  ## everything that has to pass: lint, types, documentation, tests
	$(MAKE) --no-print-directory -j2 types docs
	$(MAKE) --no-print-directory pytest

lint: $(STAMP)  ## check style, formatting and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache

types: $(STAMP)  ## check the type annotations
	$(BIN)/mypy

# One thread per worker: threads that fight for the cores are slower than no threads.
pytest: $(STAMP)  ## run the tests and the examples in docstrings
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

quick: $(STAMP)  ## the tests but those marked slow, in under two minutes
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not slow"

# Four sets of settings, in turn; each starts its own workers.
portable: $(STAMP)  ## run the numerical tests as other processors and numbers of threads compute them
	$(BIN)/python .ci/portable

# Old versions call what newer ones have deprecated. torch is the pinned one here as well: an older
# one comes with gigabytes of accelerator libraries, so that its lower bound is not tested.
oldest:  ## run the quick tests with the lowest declared version of every dependency but torch
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python .ci/oldest > .venv-oldest/lowest.txt
	.venv-oldest/bin/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	.venv-oldest/bin/python -m pip install --quiet -r .venv-oldest/lowest.txt -e .
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -n $(WORKERS) --dist worksteal \
		-m "not slow" -W ignore::DeprecationWarning

docs: $(STAMP)  ## build the documentation into docs/_build/html, warnings are errors
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

stress: $(STAMP)  ## try to break it for MINUTES=10, from SEED=0; see docs/reliability.rst
	OMP_NUM_THREADS=1 $(BIN)/python -m stress --seed $(SEED) --minutes $(MINUTES)

# Without isolation: the operations are compiled against the pinned torch of .venv, and no other.
wheel: $(STAMP)  ## build a wheel with compiled operations for this torch into dist/torch-2.x
	into="dist/$$($(BIN)/python -c 'from deepwishart.native import prebuilt; print(prebuilt.torch_name())')" && \
	DEEPWISHART_BUILD_NATIVE=1 $(PIP) wheel --no-build-isolation --no-deps --wheel-dir "$$into" .

format: $(STAMP)  ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what a build or a test run left behind
	rm -rf build dist docs/_build docs/gallery docs/plots .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests docs examples stress -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean  ## clean, and remove the environment as well
	rm -rf $(VENV) .venv-oldest
