# `make demo` and `make test` need Python 3.11+ and make; they prepare everything else in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint reproduction clean
.DEFAULT_GOAL := test

$(VENV)/.cli: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[cli]"
	@touch $@

$(VENV)/.test: $(VENV)/.cli
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test]"
	@touch $@

demo: $(VENV)/.cli
	$(BIN)/neucmds demo --force

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Needs the data of the paper: set NEUCMDS_DATA. About five minutes on two cores.
reproduction: $(VENV)/.cli
	$(BIN)/neucmds paper --force -o paper-neucmds
	cp paper-neucmds/reproduction.md docs/reproduction.md

clean:
	rm -rf $(VENV) demo paper-neucmds .pytest_cache .mypy_cache .ruff_cache .hypothesis
