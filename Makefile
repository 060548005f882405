# Two commands matter: `make demo` and `make test`. Both set everything up first, inside this folder, and only once.
# PYTHON chooses the Python the virtual environment is made from; JAVA_HOME, if set, chooses the Java.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PACKAGE := mirror_connect
# `make test TESTS=tests/unit` runs a part.
TESTS ?=
FUZZ ?=
SOAK ?=
BENCH ?=

.DEFAULT_GOAL := help
.PHONY: help check setup installed lint test test-cluster soak fuzz docs pictures manifests demo demo-cluster bench lock sbom audit clean

help:
	@echo 'make demo    two real Kafka clusters, the worker, records that arrive: until Ctrl-C'
	@echo 'make demo-cluster  the same on a Spark cluster: eight tasks on two executors, one of which is killed'
	@echo 'make test    every check, and all tests but the longest, with real brokers'
	@echo 'make test-cluster  the core of the tests with tasks on a Spark cluster of this machine'
	@echo 'make setup   what both do first: .venv, dependencies, Kafka'"'"'s jars'
	@echo 'make lint    format, style, types, import directions'
	@echo 'make soak    the tests that kill, fence and hand over, and the longest: 20 times with other seeds'
	@echo 'make fuzz    requests made up from openapi.yaml, for minutes, each time others'
	@echo 'make docs    what is made from code: configuration.md, files.md, rooms.svg, tables and guide/topologies in docs/, openapi.yaml'
	@echo 'make pictures  the pictures of page and dashboards in docs, of real clusters; it needs chromium, chromedriver, prometheus'
	@echo 'make manifests  the Helm chart rendered into deploy/kubernetes; it needs helm'
	@echo 'make bench   this product beside MirrorMaker 2, measured'
	@echo 'make lock    the lock files again from pyproject.toml; UPGRADE=--upgrade takes newer versions'
	@echo 'make sbom    build/sbom.cdx.json: what runs, as CycloneDX'
	@echo 'make audit   known holes in what runs; it asks the registry'
	@echo 'make clean   removes what tests and checks left; .venv and .cache stay'

check:
	@PYTHON='$(PYTHON)' bash deploy/check-machine.sh

setup: check
	@# Two at once, in two terminals, would write into each other's .venv.
	@$(PYTHON) deploy/one_at_a_time.py .cache/setup.lock $(MAKE) --no-print-directory installed

installed: $(VENV)/.project $(VENV)/.archive
	@$(BIN)/python -m deploy.local.kafka_jars
	@# The classes of brokers and of Connect in files: each start takes half of the time.
	@$(BIN)/python -m deploy.local.class_archive
	@# Also where PYTHONDONTWRITEBYTECODE is set or nobody may write here later: a start needs no compiling.
	@$(BIN)/python -m compileall -q $(PACKAGE)

# Each stamp is written last: a step that was interrupted is done again, one that was finished downloads nothing.
$(VENV)/.created:
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# The lock files are complete, and a file that is not the published one is refused. Nobody is asked to bring a compiler: wheels
# only, but for pyspark, pure Python without one, which is built by what has been checked, too.
LOCKED := --require-hashes --no-deps --only-binary :all:
$(VENV)/.dependencies: requirements-dev.lock requirements-build.lock $(VENV)/.created
	@echo 'Python packages: installing them into $(VENV) (once; PySpark is large: it takes some minutes)'
	@$(PIP) $(LOCKED) --requirement requirements-build.lock
	@$(PIP) $(LOCKED) --no-binary pyspark --no-build-isolation --requirement requirements-dev.lock
	@touch $@

# What is compiled is optional. The old one goes first, as a failed build would leave it.
RECORDS := $(PACKAGE)/kafka_io/records
$(VENV)/.project: pyproject.toml $(wildcard $(RECORDS)/_*.[ch]) $(VENV)/.dependencies
	@rm -f $(RECORDS)/_compiled.*.so
	@echo 'mirror-connect: compiling and installing it'
	@$(PIP) --no-deps --no-build-isolation --editable .
	@ls $(RECORDS)/_compiled.*.so > /dev/null 2>&1 || echo 'There is no C compiler (cc and the headers of Python), so Python alone' \
		'does what decodes records: slower, with the same results. With one: touch pyproject.toml && make setup'
	@touch $@

# The classes of Spark's JVM in one file: each start takes half of the time.
# Java uses it only with the class path and the options that it was made with.
$(VENV)/.archive: $(VENV)/.dependencies mirror_connect/spark_jobs/jvm.py mirror_connect/spark_jobs/spark_settings.py \
		| $(VENV)/.project
	@echo 'Java classes: storing them for quicker starts'
	@$(BIN)/python -m mirror_connect.spark_jobs.class_archive
	@touch $@

# Tools for the lock files, apart from what they lock.
TOOLS := build/tools
UPGRADE ?=
COMPILE = $(TOOLS)/bin/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-annotate --no-header \
	--no-emit-package twofish $(UPGRADE)
$(TOOLS)/.installed: requirements-tools.lock
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check $(LOCKED) --requirement $<
	@touch $@

# Each file keeps the words at its head. One after the other: what runs is the same in all of them.
lock: $(TOOLS)/.installed
	@for part in '-build requirements-build.in' '-tools requirements-tools.in' \
		'-dev --extra=dev pyproject.toml requirements-build.in' ' --constraints=requirements-dev.lock pyproject.toml'; do \
		file="requirements$${part%% *}.lock"; echo "$$file"; head=$$(grep '^#' "$$file"); \
		$(COMPILE) --output-file "$$file" $${part#* } && printf '%s\n%s\n' "$$head" "$$(grep -v '^#' "$$file")" > "$$file.new" \
			&& mv "$$file.new" "$$file" || exit 1; \
	done

sbom: $(TOOLS)/.installed
	@$(TOOLS)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --output-format JSON \
		--output-file build/sbom.cdx.json requirements.lock
	@echo 'build/sbom.cdx.json'

audit: $(TOOLS)/.installed
	@$(TOOLS)/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements.lock

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy $(PACKAGE) deploy docs $(if $(wildcard benchmarks/*.py),benchmarks)
	@# It prints a banner of its own: shown only with the complaint.
	@said=$$($(BIN)/lint-imports 2>&1) && echo 'Import directions kept.' || { echo "$$said"; exit 1; }

test: setup
	@# pytest compiles each test once, on one core, while mypy uses the other. Its three processes would all do it at once.
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --collect-only -qq -p no:cacheprovider $(TESTS) >/dev/null 2>&1 & \
		$(MAKE) --no-print-directory lint && wait
	@# Brokers of older releases; without them the tests that copy from and to those are skipped, which CI takes for a failure.
	@$(if $(TESTS),,$(BIN)/python -m deploy.local.kafka_jars old $(if $(filter-out 0 false,$(CI)),,|| true))
	@$(if $(TESTS),,$(BIN)/python -m deploy.local.class_archive old)
	@$(BIN)/python -m tests.run $(TESTS)

# What copies, kills, fails over and transforms, with tasks on executors; then executors that are suspended, lost, have hosts of their
# own, and those of YARN and in pods.
ON_CLUSTER := $(addprefix tests/e2e/test_,identity.py identity_with_kills.py crashes.py failover_truth.py bad_input.py \
	sql.py sql_lookups.py python_transform.py)
OF_CLUSTERS := $(addprefix tests/e2e/test_,spark_cluster.py spark_cluster_long.py spark_cluster_stores.py own_hosts.py \
	yarn.py kubernetes.py)
test-cluster: setup
	@# YARN's daemons; without them the tests on YARN are skipped.
	@$(BIN)/python -m deploy.local.hadoop_jars $(if $(filter-out 0 false,$(CI)),,|| true)
	@TESTS_SPARK_MASTER=cluster $(BIN)/python -m tests.run -m 'long or not long' --numprocesses=2 --dist=loadfile --durations=15 $(ON_CLUSTER)
	@$(BIN)/python -m tests.run -m 'long or not long' --durations=15 $(OF_CLUSTERS)

# `make soak SOAK='--rounds 3 --seed 7'`; what else is in SOAK goes to pytest, as `-k killed`.
soak: setup
	@$(BIN)/python -m deploy.local.kafka_jars old $(if $(filter-out 0 false,$(CI)),,|| true)
	@$(BIN)/python -m deploy.local.hadoop_jars $(if $(filter-out 0 false,$(CI)),,|| true)
	@$(BIN)/python -m deploy.local.class_archive old
	@exec $(BIN)/python -m tests.soak $(SOAK)

# `make fuzz FUZZ='--seconds 60 --seed 7'` is shorter, and a run that was had before.
fuzz: setup
	@exec $(BIN)/python -m tests.contract.openapi_fuzz $(FUZZ)

docs: setup
	@$(BIN)/python -m docs.generate_configuration > docs/configuration.md
	@$(BIN)/python -m docs.generate_compatibility
	@$(BIN)/python -m docs.generate_metrics
	@$(BIN)/python -m docs.generate_scaling
	@$(BIN)/python -m deploy.grafana.generate
	@$(BIN)/python -m docs.generate_check_example
	@$(BIN)/python -m docs.generate_file_map > docs/files.md
	@$(BIN)/python -m docs.draw_rooms > docs/rooms.svg
	@$(BIN)/python -m docs.generate_topologies
	@$(BIN)/python -m mirror_connect.app.rest.openapi > openapi.yaml

pictures: setup
	@UI_PICTURES=docs $(BIN)/python -m pytest -q -n0 --timeout=900 tests/e2e/test_ui.py
	@UI_PICTURES=docs $(BIN)/python -m pytest -q -n0 --timeout=900 tests/e2e/test_metrics.py -k strimzis_queries

# The real Helm renders; tests without it compare the digest of the chart.
manifests: setup
	@$(BIN)/python -m deploy.kubernetes.render

demo: setup
	@exec $(BIN)/python -m deploy.demo

demo-cluster: setup
	@exec $(BIN)/python -m deploy.demo cluster

# A tree with changes is refused; `make bench CASE=latency BENCH=--dirty` goes on and marks the result.
bench: setup
	@exec $(BIN)/python -m benchmarks $(CASE) $(BENCH)

clean:
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .grimp_cache spark-warehouse metastore_db
	find $(PACKAGE) deploy tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
