# What a newcomer runs: `make up` and `make test`. Needs Python 3.11+ and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
PORT ?= 8080

.PHONY: up test lint bench chaos lock docs markdown-it clean

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

# The Markdown parser of the chat page, bundled anew (needs npm; nothing else of convoq does).
VENDOR := api/convoq/api/static/vendor
markdown-it:
	rm -rf $(VENV)/js && mkdir -p $(VENV)/js
	npm install --silent --prefix $(VENV)/js markdown-it@15.0.3 linkify-it@6.1.0 mdurl@2.1.0 uc.micro@3.0.0 punycode.js@2.3.1 esbuild@0.28.2
	echo 'import markdownit from "markdown-it"; globalThis.markdownit = markdownit;' > $(VENV)/js/page.js
	$(VENV)/js/node_modules/.bin/esbuild $(VENV)/js/page.js --bundle --minify --format=iife --target=es2022 --legal-comments=none \
	    --alias:entities=$(CURDIR)/$(VENDOR)/entities.mjs --outfile=$(VENDOR)/markdown-it.min.js \
	    --banner:js="/*! markdown-it 15.0.3 | MIT | (c) 2014 Vitaly Puzrin, Alex Kocharin | https://github.com/markdown-it/markdown-it | licences: markdown-it.LICENSE */"

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
