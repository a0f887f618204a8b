# Needs make, Python 3.11 or newer, and either Docker or a JVM (17 or newer) with Maven. `make help` lists the targets.
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UV_VERSION := 0.13.9
VERSION := 0.1.0
# 3.12 and 3.11 first: for these a redis-server comes as a wheel.
PYTHONS := python3.12 python3.11 python3.13 python3.14 python3 python
NEW_ENOUGH := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTEST_ARGS ?= -n 2
ARGS ?=

# PYTHON_IMAGE: another base. Where the code came from goes into the images' labels.
export SOURCE ?= $(shell git config --get remote.origin.url 2>/dev/null || echo unknown)
export REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
BUILD_ARGS = $(if $(PYTHON_IMAGE),--build-arg PYTHON_IMAGE=$(PYTHON_IMAGE)) --build-arg SOURCE --build-arg REVISION

.DEFAULT_GOAL := help
.PHONY: help venv demo test check format test-matrix test-containers images bench up down lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: venv ## Run the whole pipeline on this machine and show what it decided (ARGS="--help" lists options)
	@$(BIN)/tamis demo $(ARGS)

test: venv ## Run every test (PYTEST_ARGS="-n 2" by default)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: venv ## Lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: venv ## Format the code and mend what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test-matrix: venv ## Run the tests on Kafka and Redis twice: on processes of this machine, and on containers (needs Docker)
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "contract or faults"
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "contract or faults" --containers

test-containers: venv ## Run the demo in containers, disturb it, and audit it (needs Docker with compose)
	$(BIN)/python -m pytest -m containers -o faulthandler_timeout=0 -s tests/containers tests/local

images: ## Build the consumers' container images
	docker build $(BUILD_ARGS) --target slim --tag tamis:$(VERSION)-slim .
	docker build $(BUILD_ARGS) --target full --tag tamis:$(VERSION)-full .

bench: venv ## Measure speed on this machine
	$(BIN)/python -m benchmarks $(ARGS)

up: venv ## Start Kafka and Redis on this machine
	@$(BIN)/tamis up $(ARGS)

down: venv ## Stop what `up` or `demo` started
	@$(BIN)/tamis down $(ARGS)

venv: $(STAMP) ## Create or update .venv from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@test -x $(BIN)/python || { \
	  for python in $(PYTHONS); do \
	    if $$python -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then exec $$python -m venv $(VENV); fi; \
	  done; \
	  echo "Tamis needs Python 3.11 or newer with its venv module; tried: $(PYTHONS)." >&2; \
	  echo "Install one (Debian and Ubuntu: apt-get install python3 python3-venv; macOS: brew install python@3.12) and run make again." >&2; \
	  exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@echo "Installing the pinned packages into $(VENV) (the first time takes minutes: torch is large)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock"

lock: venv ## Resolve pyproject.toml anew into requirements.lock and the images' locks (UPGRADE=--upgrade for the newest)
	$(COMPILE) --all-extras $(UPGRADE) -o requirements.lock pyproject.toml
	$(COMPILE) -c requirements.lock --extra tensorboard -o deploy/images/slim.lock pyproject.toml
	$(COMPILE) -c requirements.lock --extra train --extra tensorboard -o deploy/images/full.lock pyproject.toml

clean: ## Remove caches and build output (not .venv, not .tamis)
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
