# Everything a newcomer needs: `make demo` and `make test` each set up their own .venv first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One process more than there are cores, as some tests wait for servers; tests/conftest.py says which tests share one.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
PYTEST := $(BIN)/python -m pytest --numprocesses $(shell expr $(CORES) + 1)

.DEFAULT_GOAL := help
.PHONY: help setup demo check test chromium lint bench clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(READY)  ## make .venv with exact versions (constraints.txt); about 2 minutes, 2.2 GB

# torch goes in first: the torchvision that fits is then content with whatever build of it (CPU or CUDA) is there.
$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with $(PYTHON) (about 2 minutes the first time) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "scdh needs Python 3.11 or newer; set PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)  ## search real shop photos: train, encode, index, score, and write an HTML report
	@$(BIN)/scdh demo --out demo-report

lint: $(READY)  ## style and types
	@$(BIN)/ruff check .
	@$(BIN)/mypy

check: lint  ## style, types and the fast tests; about a minute
	@$(PYTEST) -m "not slow"

test: lint chromium  ## style, types and all tests, on all cores
	@$(PYTEST)

# The tests of the web page need a browser; where there is none and none can be installed, pytest skips them by name.
chromium:
	@for name in $$SCDH_CHROMIUM chromium chromium-browser google-chrome google-chrome-stable; do \
	    command -v "$$name" >/dev/null && exit 0; done; false \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing chromium ..." \
	       && apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null; } \
	  || echo "No Chromium: the tests of the web page are skipped; get one with: sudo apt-get install chromium"

bench: $(READY)  ## speed as ratios to named rivals, written to benchmarks/RESULTS.md
	@$(BIN)/python -m benchmarks.run

clean:  ## remove .venv and what the demo wrote
	rm -rf $(VENV) demo-report
