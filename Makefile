# Two commands matter: `make demo` and `make test`. Both set everything up first, inside this folder, and only once.
# PYTHON chooses the Python the virtual environment is made from; JAVA_HOME, if set, chooses the Java.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PACKAGES := app cli connectors kafka_io spark_jobs
# `make test TESTS=tests/unit` runs a part.
TESTS ?=
FUZZ ?=
SOAK ?=
BENCH ?=

.DEFAULT_GOAL := help
.PHONY: help check setup installed types lint test soak fuzz docs demo bench clean

help:
	@echo 'make demo    two real Kafka clusters, the worker, records that arrive: until Ctrl-C'
	@echo 'make test    every check and every test, real brokers included'
	@echo 'make setup   what both do first: .venv, dependencies, Kafka'"'"'s jars'
	@echo 'make lint    format, style, types, import directions'
	@echo 'make soak    the tests that kill, fence and hand over, 20 times with other seeds; how often each passed'
	@echo 'make fuzz    requests made up from openapi.yaml, for minutes, each time others'
	@echo 'make docs    docs/configuration.md anew from the tables that the code reads'
	@echo 'make bench   this product beside MirrorMaker 2, measured'
	@echo 'make clean   removes what tests and checks left; .venv and .cache stay'

check:
	@PYTHON='$(PYTHON)' bash deploy/check-machine.sh

setup: check
	@# Two at once, in two terminals, would write into each other's .venv.
	@$(PYTHON) deploy/one_at_a_time.py .cache/setup.lock $(MAKE) --no-print-directory installed

installed: $(VENV)/.project
	@$(BIN)/python -m deploy.local.kafka_jars
	@# Also where PYTHONDONTWRITEBYTECODE is set or nobody may write here later: a start needs no compiling.
	@$(BIN)/python -m compileall -q $(PACKAGES)

# Each stamp is written last: a step that was interrupted is done again, one that was finished downloads nothing.
$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.dependencies: requirements.lock $(VENV)/.created
	@# The lock file is complete; nobody is asked to bring a compiler: wheels only, but for pyspark, pure Python without one.
	$(PIP) --no-deps --only-binary :all: --no-binary pyspark --requirement $<
	@touch $@

$(VENV)/.project: pyproject.toml $(VENV)/.dependencies
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# mypy takes names from folders: it sees the packages under the names they are installed by.
types:
	@mkdir -p build/types/mirror_connect
	@for package in $(PACKAGES); do ln -sfn ../../../$$package build/types/mirror_connect/$$package; done

lint: setup types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy build/types/mirror_connect deploy docs $(if $(wildcard benchmarks/*.py),benchmarks)
	@# It prints a banner of its own: shown only with the complaint.
	@said=$$($(BIN)/lint-imports 2>&1) && echo 'Import directions kept.' || { echo "$$said"; exit 1; }

test: lint
	@# Brokers of older releases; without them the tests that copy from and to those are skipped, which CI takes for a failure.
	@$(if $(TESTS),,$(BIN)/python -m deploy.local.kafka_jars old $(if $(filter-out 0 false,$(CI)),,|| true))
	@$(BIN)/python -m tests.run $(TESTS)

# `make soak SOAK='--rounds 3 --seed 7'`; what else is in SOAK goes to pytest, as `-k killed`.
soak: setup
	@$(BIN)/python -m deploy.local.kafka_jars old $(if $(filter-out 0 false,$(CI)),,|| true)
	@exec $(BIN)/python -m tests.soak $(SOAK)

# `make fuzz FUZZ='--seconds 60 --seed 7'` is shorter, and a run that was had before.
fuzz: setup
	@exec $(BIN)/python -m tests.contract.openapi_fuzz $(FUZZ)

docs: setup
	@$(BIN)/python -m docs.generate_configuration > docs/configuration.md

demo: setup
	@exec $(BIN)/python -m deploy.demo

# A tree with changes is refused; `make bench BENCH='--only latency --dirty'` goes on and marks the result.
bench: setup
	@exec $(BIN)/python -m benchmarks $(BENCH)

clean:
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .grimp_cache spark-warehouse metastore_db
	find $(PACKAGES) deploy tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
