# All commands of the project; CI calls the same. `make` without a target lists them.
#
# Requires a Rust toolchain, CPython 3.11+ and a JDK 17+ (`make check-tools` prints the missing ones); all other
# packages are installed into .venv, .venv-old-peer and .tools beside this file.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Cargo and pytest each use every core; running both at once would be slower.
.NOTPARALLEL:

PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
OLD_PEER := $(CURDIR)/.venv-old-peer
TOOLS := $(CURDIR)/.tools
ZRE_PEERS := $(TOOLS)/zre
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# The oldest release of the 1.x line that the interop tests talk to.
OLD_PEER_VERSION := 1.0.0
CARGO_DENY_VERSION := 0.20.2
# The release lines of PySpark that the guide lists as supported.
SPARK_VERSIONS ?= 4.0 4.1 4.2 4.3
FUZZ_SECONDS ?= 20
CYCLES ?= 10000
# Further arguments for pytest: make test-py PYTEST_ARGS="-k keyexpr"
PYTEST_ARGS ?=
# Tests with neighbours mostly wait, so they run in parallel. A file stays in one process, because its tests share
# fixtures.
SIDE_BY_SIDE := --dist loadfile --numprocesses

export PYTHONDONTWRITEBYTECODE := 1
# Stops pyright from asking PyPI for a newer version.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# The interpreter of the old peer for tests; PYSPARK_* below are the interpreters of Spark's driver and workers.
export ZWIRE_OLD_PEER_PYTHON := $(OLD_PEER)/bin/python
# The folder of czmq and zyre; ZYRE_GIT and CZMQ_GIT set other repositories to build them from.
export ZWIRE_ZRE_PEERS := $(ZRE_PEERS)
export PYSPARK_PYTHON := $(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(BIN)/python
export SPARK_LOCAL_IP := 127.0.0.1
# A Spark installed on the system would not match the one in .venv.
unexport SPARK_HOME

.PHONY: help
help: ## Print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

# ---- Setting up -------------------------------------------------------------------------------------

.PHONY: check-tools
check-tools: ## List missing tools
	@.ci/check-tools "$(PYTHON)" rust python java

$(VENV)/.installed: pyproject.toml constraints.txt
	@.ci/check-tools "$(PYTHON)" python
	@echo "== installing Python packages into .venv (PySpark alone is 450 MB; minutes the first time)"
	[ -x $(BIN)/python ] || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt pip setuptools
	$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --group dev
	touch $@

$(OLD_PEER)/.eclipse-zenoh-$(OLD_PEER_VERSION):
	@.ci/check-tools "$(PYTHON)" python
	[ -x $(OLD_PEER)/bin/python ] || "$(PYTHON)" -m venv $(OLD_PEER)
	$(OLD_PEER)/bin/python $(PIP_INSTALL) eclipse-zenoh==$(OLD_PEER_VERSION)
	touch $@

# Without optimization: it runs for seconds, and builds in less than half the time.
$(TOOLS)/.cargo-deny-$(CARGO_DENY_VERSION):
	@echo "== building cargo-deny $(CARGO_DENY_VERSION) into .tools (minutes the first time)"
	cargo install cargo-deny --version $(CARGO_DENY_VERSION) --locked --quiet --force --debug --root $(TOOLS) \
		--target-dir $(TOOLS)/target
	rm -rf $(TOOLS)/target
	touch $@

.PHONY: ext
ext: $(VENV)/.installed
	@.ci/check-tools "$(PYTHON)" rust
	@echo "== building the compiled module into .venv"
	VIRTUAL_ENV=$(VENV) $(BIN)/maturin develop --release --locked --quiet >/dev/null

.PHONY: dev
dev: check-tools ext ## Set up .venv with all packages, zwire installed in place
	@echo "ready: source .venv/bin/activate"

# ---- Demo -------------------------------------------------------------------------------------------

.PHONY: demo
demo: check-tools ext ## Simulated fleet -> hub -> Spark job and back, in two minutes
	$(BIN)/zwire demo --out demo-out

# ---- Testing ----------------------------------------------------------------------------------------

.PHONY: test
test: check-tools lint docs-html test-rust test-py test-interop test-zre test-spark fuzz-smoke bench-smoke ## All tests and checks, as in CI
	@echo "== all tests passed"

# Both commands use the same packages: zwire-proto alone would have other features, and compile a second time.
.PHONY: test-rust
test-rust: ## Rust: unit, vector, property, machine and engine tests
	@.ci/check-tools "$(PYTHON)" rust
	cargo test --locked --workspace --exclude zwire-py
	cargo test --locked --workspace --exclude zwire-py --lib -- --ignored a_thousand_nodes three_hundred_nodes

.PHONY: test-py
test-py: ext ## Python: API, guards, command line, examples of the documentation
	$(BIN)/python -m pytest tests/python $(PYTEST_ARGS)

.PHONY: test-interop
test-interop: ext $(OLD_PEER)/.eclipse-zenoh-$(OLD_PEER_VERSION) ## Against eclipse-zenoh, newest and 1.0 era, also on failing networks
	$(BIN)/python -m pytest tests/interop --timeout 120 $(SIDE_BY_SIDE) 4 $(PYTEST_ARGS)
	$(BIN)/python -m pytest tests/network --timeout 120 $(PYTEST_ARGS)

# Never fails: the script prints each unavailable peer, and the tests of that peer skip with the reason.
$(ZRE_PEERS)/versions: .ci/zre-peers
	@echo "== getting czmq from Debian and building zyre 2.0.1, 1.0.0 and the one of 20/ZRE into .tools/zre"
	.ci/zre-peers $(ZRE_PEERS)

# ZWIRE_CRASH_SEED=3 kills other processes at other moments; the default is 7.
.PHONY: stress
stress: ext ## Minutes of load and failing networks, with a table of figures at the end
	ZWIRE_PAIRS=1000 $(BIN)/python -m pytest tests/python/test_readiness.py -k fresh_pairs --timeout 300 $(PYTEST_ARGS)
	ZWIRE_CRASH_KILLS=30 $(BIN)/python -m pytest tests/spark/test_crash.py -k however -s --timeout 3600 $(PYTEST_ARGS)
	ZWIRE_IDLE_TRIGGERS=1000 $(BIN)/python -m pytest tests/spark/test_spool_limits.py -k idle --timeout 600 $(PYTEST_ARGS)
	$(BIN)/python -m pytest tests/network/stress_reconnect.py tests/network/stress_load.py --timeout 600 $(PYTEST_ARGS)

.PHONY: leaks
leaks: ext ## CYCLES (10000) sessions with all kinds of objects: memory, threads and descriptors stay constant
	$(BIN)/python tests/leaks/cycles.py --cycles $(CYCLES)

.PHONY: sanitize
sanitize: ext ## Tests under AddressSanitizer and LeakSanitizer; needs a nightly Rust
	.ci/sanitize $(BIN)/python $(CURDIR)/target/sanitize

.PHONY: test-zre
test-zre: ext $(ZRE_PEERS)/versions ## ZRE with pyre, zyre, czmq and a scripted 20/ZRE node, in network namespaces
	$(BIN)/python -m pytest tests/zre --timeout 120 $(SIDE_BY_SIDE) 2 $(PYTEST_ARGS)

.PHONY: test-spark
test-spark: ext ## Local Spark jobs
	@.ci/check-tools "$(PYTHON)" java
	$(BIN)/python -m pytest tests/spark --timeout 180 $(PYTEST_ARGS)

.PHONY: smoke-spark
smoke-spark: ext ## Sources and sinks of Spark on each release line (SPARK_VERSIONS), each in its .venv-spark-*
	@.ci/check-tools "$(PYTHON)" java
	.ci/smoke-spark "$(PYTHON)" $(CURDIR) constraints.txt $(SPARK_VERSIONS)

.PHONY: fuzz-smoke
fuzz-smoke: ## Each fuzz target for FUZZ_SECONDS (20)
	@.ci/check-tools "$(PYTHON)" rust
	.ci/fuzz-smoke $(FUZZ_SECONDS)

# ---- Checking ---------------------------------------------------------------------------------------

.PHONY: fmt
fmt: $(VENV)/.installed ## Format Rust and Python
	cargo fmt --all
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: lint
lint: lint-rust lint-py deny ## Formats, lints, types, stubs, dependencies; warnings are errors

.PHONY: lint-rust
lint-rust:
	@.ci/check-tools "$(PYTHON)" rust
	cargo fmt --all --check
	PYO3_PYTHON=$$(command -v "$(PYTHON)") cargo clippy --locked --workspace --all-targets -- --deny warnings
	PYO3_PYTHON=$$(command -v "$(PYTHON)") RUSTDOCFLAGS="--deny warnings" \
		cargo doc --locked --workspace --no-deps --quiet

# PYTHONPATH: --verifytypes does not follow the link of an in-place installation.
.PHONY: lint-py
lint-py: ext
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/typing
	$(BIN)/mypy examples
	$(BIN)/pyright --pythonpath $(BIN)/python
	PYTHONPATH=$(CURDIR)/python $(BIN)/pyright --pythonpath $(BIN)/python --verifytypes zwire --ignoreexternal \
		| grep -E "error:|completeness"
	$(BIN)/python -m mypy.stubtest zwire._zwire

.PHONY: deny
deny: $(TOOLS)/.cargo-deny-$(CARGO_DENY_VERSION)
	.ci/deny $(TOOLS)/bin/cargo-deny

# ---- Measuring --------------------------------------------------------------------------------------

.PHONY: bench
bench: check-tools ext ## One table: each row a ratio to a peer, measured in one run
	$(BIN)/python benches/run.py

.PHONY: bench-long
bench-long: check-tools ext ## Benchmarks that take minutes: latency through Spark, memory over 150 million rows
	$(BIN)/python benches/run.py --long

.PHONY: bench-smoke
bench-smoke: ext
	$(BIN)/python benches/run.py --smoke

# ---- Packaging --------------------------------------------------------------------------------------

.PHONY: docs
docs: docs-html ## HTML documentation in docs/_build/html and target/doc, warnings are errors
	PYO3_PYTHON=$(BIN)/python RUSTDOCFLAGS="--deny warnings" cargo doc --locked --workspace --no-deps --quiet
	@echo "docs/_build/html/index.html"

.PHONY: docs-html
docs-html: ext
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build/html

.PHONY: wheel
wheel: $(VENV)/.installed ## One abi3 manylinux wheel in dist/, tested in a clean environment
	@.ci/check-tools "$(PYTHON)" rust
	rm -rf dist
	VIRTUAL_ENV=$(VENV) PATH="$(BIN):$$PATH" $(BIN)/maturin build --release --locked --quiet \
		--zig --compatibility manylinux2014 --out dist
	.ci/try-wheel "$(PYTHON)" dist/*.whl

.PHONY: clean
clean: ## Remove all build outputs and environments
	rm -rf target rust/fuzz/target .venv .venv-old-peer .venv-spark-* .tools dist build demo-out docs/_build docs/api
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis python/zwire/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
