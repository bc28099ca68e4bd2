# What a newcomer runs: `make up` and `make test`. Needs Python 3.11+ and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
PORT ?= 8080

.PHONY: up test lint bench chaos lock docs clean

up: $(STAMP)
	@exec $(BIN)/convoq up --workers $(WORKERS) --port $(PORT)

test: lint
	$(BIN)/pytest -n auto --dist loadgroup $(PYTEST_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

# Kills, freezes, cuts and restarts things under load, and counts what breaks. CHAOS_ARGS="--seed 2 --seconds 60".
chaos: $(STAMP)
	$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

# The pinned versions: requirements.lock for work on convoq, deploy/requirements.lock for the image.
lock:
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet uv
	printf 'hatchling>=1.27\neditables>=0.5\n' | $(VENV)/lock/bin/uv pip compile $(LOCK_FLAGS) --group dev pyproject.toml - --output-file requirements.lock
	$(VENV)/lock/bin/uv pip compile $(LOCK_FLAGS) --constraints requirements.lock --extra postgres --extra mongo --extra providers pyproject.toml --output-file deploy/requirements.lock

LOCK_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate

# The texts that are made from the settings: deploy/settings.md, deploy/env.example.
docs: $(STAMP)
	$(BIN)/python -m tests.docs.made

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: convoq needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) -V); try make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "error: $(PYTHON) has no venv module; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
