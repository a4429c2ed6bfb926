# Every Number: GPT-2 with every number clickable. `make help` lists what can be made.
#
# TORCH_INDEX=URL   where pip looks for torch as well: PyTorch's CPU package index saves several GB on Linux x86-64
# PIP_ARGS=…        more arguments for pip install
# PYTHON=…          the Python (3.11 or newer) that builds .venv

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
PIP_ARGS ?=
TORCH_INDEX ?=
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-input -q -c constraints.txt \
  $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) $(PIP_ARGS)

# Settings of the app may stand on make's command line; what is not given keeps the app's own default.
ifeq ($(origin PORT),command line)
run serve-cluster: export EVERYNUMBER_PORT := $(PORT)
endif
ifeq ($(origin HOST),command line)
run serve-cluster: export EVERYNUMBER_HOST := $(HOST)
endif
ifeq ($(origin MODEL),command line)
run serve-cluster: export EVERYNUMBER_MODEL := $(MODEL)
endif

ifeq ($(origin GPT2),command line)
test-gpt2: export EVERYNUMBER_GPT2 := $(GPT2)
endif

.PHONY: help setup run serve-cluster test test-gpt2 fuzz mutants audit bench load soak kill replicas lint format clean chromium pins rehearse

help:
	@echo 'make setup    the environment in .venv: all that running, testing and changing the code needs'
	@echo 'make run      set up what running needs and serve   (PORT=8000 HOST=127.0.0.1 MODEL=embedded)'
	@echo 'make test     set up and run all tests              (ARGS="tests/model -x" runs some of them)'
	@echo 'make test-gpt2   check GPT-2 itself on published figures, where its weights are   (GPT2=/path/to/gpt2)'
	@echo 'make fuzz     odd requests to every route, many and new ones each time (see docs/operations.md)'
	@echo 'make mutants  plant hundreds of small faults in the model and see that tests notice (see docs/testing.md)'
	@echo 'make audit    compare the pinned packages with known advisories (asks an online service)'
	@echo 'make bench    set up and run the benchmarks         (ARGS=… goes to them)'
	@echo 'make load     a class of a hundred opens a lesson at once (also: soak, kill, replicas; see docs/operations.md)'
	@echo 'make serve-cluster   serve from several replicas with Ray (see docs/scaling.md)'
	@echo 'make lint     ruff, mypy and the imports that each part may have, dead code'
	@echo 'make format   let ruff rewrite the code'
	@echo 'make rehearse build and start what the Dockerfile says, without Docker'
	@echo 'make clean    remove the environment and what tools left behind'

setup: $(VENV)/.dev
	@echo 'Set up. Next: make run'

run: $(VENV)/.run
	@exec $(BIN)/python -m app

serve-cluster: $(VENV)/.scale
	@exec $(BIN)/python -m app.cluster

test: $(VENV)/.test chromium
	@$(BIN)/python -m pytest -q -n auto --maxprocesses 4 $(ARGS)

test-gpt2: $(VENV)/.test
	@$(BIN)/python -m tests.gpt2_weights
	@$(BIN)/python -m pytest -q -n 0 tests/app/test_gpt2_figures.py $(ARGS)

fuzz: $(VENV)/.test
	@$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --timeout 3600 --hypothesis-profile fuzz tests/fuzz $(ARGS)

mutants: $(VENV)/.test
	@$(BIN)/python -m tests.mutants $(ARGS)

audit: $(VENV)/.dev
	@$(BIN)/pip-audit --strict --disable-pip --no-deps -r constraints.txt $(ARGS)

bench: $(VENV)/.test
	@$(BIN)/python -m benchmarks $(ARGS)

load: $(VENV)/.load
	@$(BIN)/python -m benchmarks.load class $(ARGS)

soak kill: $(VENV)/.load
	@$(BIN)/python -m benchmarks.load $@ $(ARGS)

replicas: $(VENV)/.scale
	@$(BIN)/python -m benchmarks.load replicas $(ARGS)

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/vulture

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# The Dockerfile's own commands without Docker, in a new directory with a new environment (docs/operations.md).
rehearse: $(VENV)/.test
	@$(BIN)/python deploy/rehearse.py $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The browser tests' Chromium: the one that is installed, else Debian's, else the line that brings one.
chromium: $(VENV)/.test
	@$(BIN)/python tests/browser/chromium.py

# Renew the pins from what is installed (see the head of constraints.txt).
pins: $(VENV)/.dev
	@{ sed -n '/^#/p' constraints.txt; \
	  $(BIN)/python -m pip freeze --all --exclude pip --exclude every-number \
	    | sed -E -e '/^(#|-e )/d' -e 's/^(torch==[^+]+)\+.*/\1/'; } > $(VENV)/pins
	@mv $(VENV)/pins constraints.txt

# Each stamp says that .venv holds what that purpose needs; all go stale when the declared packages change.
$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing what running needs into $(VENV) …'
	@$(PIP_INSTALL) -e .
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing what the tests need into $(VENV) …'
	@$(PIP_INSTALL) -e '.[test,scale]'
	@touch $(VENV)/.run $(VENV)/.scale $@

$(VENV)/.load: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing what the load tests need into $(VENV) …'
	@$(PIP_INSTALL) -e '.[load]'
	@touch $(VENV)/.run $@

$(VENV)/.scale: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing what replicas need into $(VENV) …'
	@$(PIP_INSTALL) -e '.[scale]'
	@touch $(VENV)/.run $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing all that development needs into $(VENV) …'
	@$(PIP_INSTALL) -e '.[test,dev,train,load,scale]'
	@touch $(VENV)/.run $(VENV)/.test $(VENV)/.load $(VENV)/.scale $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Every Number needs Python 3.11 or newer (make PYTHON=python3.12 … picks one). On Debian or Ubuntu: sudo apt-get install -y python3 python3-venv'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo 'This Python cannot make virtual environments. On Debian or Ubuntu: sudo apt-get install -y python3-venv'; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
