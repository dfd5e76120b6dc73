# All commands of the project; CI calls the same. `make` without a target lists them.
#
# Requires a Rust toolchain, CPython 3.11+ and a JDK 17+ (`make check-tools` prints the missing ones); all other
# packages are installed into .venv, .venv-peer-* and .tools beside this file.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# .ci/stages.py runs stages side by side where that is quicker.
.NOTPARALLEL:

PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
TOOLS := $(CURDIR)/.tools
ZRE_PEERS := $(TOOLS)/zre
BROWSER := $(TOOLS)/chromium
BROKER := $(TOOLS)/mosquitto
# Bytecode is written when a module is first imported; most are never imported.
PIP_OPTIONS := --quiet --disable-pip-version-check --no-compile
PIP_INSTALL := -m pip install $(PIP_OPTIONS)
# Refuses files without a hash in constraints.txt, also those of build backends.
PIP_LOCKED := $(PIP_INSTALL) --require-hashes --constraint constraints.txt --build-constraint constraints.txt
# Installs one package of the file into a virtual environment. pip before 26 reads no hashes of constraints.
pinned = sed -n '/^$(1)==/,/[^\\]$$/p' constraints.txt | $(2)/bin/python $(PIP_INSTALL) --requirement /dev/stdin
# The oldest release of the 1.x line that the interop tests talk to.
# Beside the newest eclipse-zenoh: the first of the 1.x line, and the last with the first generation of shared memory.
OLD_PEERS := 1.0.0 1.9.0
OLD_PEERS_INSTALLED := $(OLD_PEERS:%=$(CURDIR)/.venv-peer-%/.installed)
CARGO_DENY_VERSION := 0.20.2
# The release lines of PySpark that the guide lists as supported.
SPARK_VERSIONS ?= 4.0 4.1 4.2 4.3
FUZZ_SECONDS ?= 3
# smoke: quickly compiled; release: more runs per second.
FUZZ_PROFILE ?= smoke
CYCLES ?= 10000
MINUTES ?= 60
# Further arguments for pytest: make test-py PYTEST_ARGS="-k keyexpr"
PYTEST_ARGS ?=
# Tests with neighbours mostly wait, so they run in parallel. A file stays in one process, because its tests share
# fixtures.
SIDE_BY_SIDE := --dist loadfile --numprocesses
# maturin tells pyo3 about its interpreter by variables. Other commands get the same ones, because pyo3 and the
# binding would be compiled again at each change of a value.
PYO3_CONFIG = $(firstword $(wildcard $(CURDIR)/target/maturin/pyo3-config-*-abi3.txt))
SIGNATURE := import sys; print("{}-{}.{}-64bit".format(sys.implementation.name, *sys.version_info))
LIKE_MATURIN = PYO3_PYTHON="$$(command -v $(BIN)/python || command -v "$(PYTHON)")" $(if $(PYO3_CONFIG),\
	PYO3_CONFIG_FILE=$(PYO3_CONFIG) PYO3_BUILD_EXTENSION_MODULE=1 \
	PYO3_ENVIRONMENT_SIGNATURE="$$($(BIN)/python -c '$(SIGNATURE)')" PYTHON_SYS_EXECUTABLE=$(BIN)/python)

# Stops pyright from asking PyPI for a newer version.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# The interpreter of the old peer for tests; PYSPARK_* below are the interpreters of Spark's driver and workers.
export ZWIRE_OLD_PEERS := $(CURDIR)/.venv-peer-
# The folder of czmq and zyre; ZYRE_GIT and CZMQ_GIT set other repositories to build them from.
export ZWIRE_ZRE_PEERS := $(ZRE_PEERS)
# The folder of the browser for tests of web pages.
export ZWIRE_BROWSER := $(BROWSER)
# The folder of the broker for tests of the bridge to MQTT.
export ZWIRE_BROKER := $(BROKER)
export PYSPARK_PYTHON := $(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(BIN)/python
export SPARK_LOCAL_IP := 127.0.0.1
# The archive of Spark's classes, for the JVMs of tests.
export ZWIRE_SPARK_ARCHIVE := $(TOOLS)/spark.jsa
# A Spark installed on the system would not match the one in .venv.
unexport SPARK_HOME
# Tests start thousands of interpreters; without bytecode files each one would compile zwire again.
unexport PYTHONDONTWRITEBYTECODE

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
	$(call pinned,pip,$(VENV))
	$(BIN)/python $(PIP_LOCKED) --group dev
	touch $@

# Without a pip of its own, which takes longer to install than the peer.
$(CURDIR)/.venv-peer-%/.installed: tests/interop/peer-%.txt | $(VENV)/.installed
	[ -x $(@D)/bin/python ] || "$(PYTHON)" -m venv --without-pip $(@D)
	$(BIN)/python -m pip --python $(@D)/bin/python install $(PIP_OPTIONS) --require-hashes --requirement $<
	touch $@

# Keeps pinned versions; UPGRADE=1 takes the newest ones. Not in .venv: its packages may be missing in the file.
LOCK = $(TOOLS)/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)
.PHONY: lock
lock: ## Write constraints.txt anew: versions of Python packages and hashes of their files (UPGRADE=1)
	@.ci/check-tools "$(PYTHON)" python
	[ -x $(TOOLS)/lock/bin/python ] || "$(PYTHON)" -m venv $(TOOLS)/lock
	$(call pinned,uv,$(TOOLS)/lock)
	$(LOCK) pyproject.toml --group dev --group lock --output-file constraints.txt
	$(foreach release,$(OLD_PEERS),echo eclipse-zenoh==$(release) | \
		$(LOCK) - --output-file tests/interop/peer-$(release).txt &&) true

# Without optimization: it runs for seconds, and builds in less than half the time.
$(TOOLS)/.cargo-deny-$(CARGO_DENY_VERSION):
	@echo "== building cargo-deny $(CARGO_DENY_VERSION) into .tools (minutes the first time)"
	cargo install cargo-deny --version $(CARGO_DENY_VERSION) --locked --quiet --force --debug --root $(TOOLS) \
		--target-dir $(TOOLS)/target
	rm -rf $(TOOLS)/target
	touch $@

# Without it, or with another Java, a JVM starts in twice the time.
$(ZWIRE_SPARK_ARCHIVE): tests/spark/conf/archive.py $(VENV)/.installed
	@.ci/check-tools "$(PYTHON)" java
	@echo "== writing an archive of Spark's classes into .tools"
	PYTHONPATH=tests:tests/spark/conf $(BIN)/python $< $@

# What tests use: the profile of `cargo test`, so that dependencies are compiled once for both, with the assertions of a
# debug build. EXT=built: a stage before has built it.
.PHONY: ext
ifeq ($(EXT),built)
ext: ;
else
ext: $(VENV)/.installed
	@.ci/check-tools "$(PYTHON)" rust
	@echo "== building the compiled module into .venv, with debug assertions"
	VIRTUAL_ENV=$(VENV) $(BIN)/maturin develop --locked --features as-in-tests --quiet >/dev/null
endif

.PHONY: ext-debug
ext-debug: ext ## The compiled module with debug assertions into .venv, in seconds after a change

# What users and measurements get. The next `make ext` puts the one for tests in its place.
.PHONY: ext-release
ext-release: $(VENV)/.installed
	@.ci/check-tools "$(PYTHON)" rust
	@echo "== building the compiled module into .venv, optimized (minutes the first time, seconds if nothing has changed)"
	VIRTUAL_ENV=$(VENV) "$(PYTHON)" .ci/progress.py $(BIN)/maturin develop --release --locked

.PHONY: setup
setup: check-tools $(VENV)/.installed $(OLD_PEERS_INSTALLED) $(ZRE_PEERS)/versions $(BROWSER)/log $(BROKER)/log $(ZWIRE_SPARK_ARCHIVE)

.PHONY: dev
dev: check-tools ext-release ## Set up .venv with all packages, zwire installed in place
	@echo "ready: source .venv/bin/activate"

# ---- Demo -------------------------------------------------------------------------------------------

.PHONY: demo
demo: check-tools ext-release ## Simulated fleet -> hub -> Spark job and back, about a minute after the build
	@echo "== running the demo, about a minute: each line has the seconds since its start"
	$(BIN)/zwire demo --out demo-out

# ---- Testing ----------------------------------------------------------------------------------------

# Stages one after another, and a table of their seconds. KEEP_GOING=1: do not stop at the first that fails.
STAGES = @MAKE="$(MAKE)" "$(PYTHON)" .ci/stages.py

.PHONY: test
test: check-tools ## All tests and checks of a change, as in CI; a table of seconds at the end
	$(STAGES) test

.PHONY: quick
quick: check-tools ## The fast part of it: measures, formats, unit tests, Python tests
	$(STAGES) quick

.PHONY: test-long
test-long: check-tools ## Tests that take minutes each and are no part of make test
	$(STAGES) test-long

# All commands use the same packages with the same features: zwire-proto alone would have others, and all that depends on
# one of them would be compiled a second time. `as-in-tests` is described in rust/zwire-recorder/Cargo.toml.
SAME_PACKAGES := --workspace --exclude zwire-py --features zwire-recorder/as-in-tests
CARGO_TEST := cargo test --locked $(SAME_PACKAGES)

# Clippy is the compiler of these targets, so that what tests build is linted without being compiled again.
ext build-lib build-rust test-rust test-rust-quick test-rust-long lint-rust bench-smoke features: \
	export RUSTC_WORKSPACE_WRAPPER := clippy-driver

.PHONY: test-rust
test-rust: ## Rust: unit, vector, property, machine and engine tests
	@.ci/check-tools "$(PYTHON)" rust
	$(CARGO_TEST)

# Most of what `ext` needs, and nothing of Python: it is compiled while packages of Python are downloaded.
.PHONY: build-lib
build-lib:
	cargo build --locked $(SAME_PACKAGES) --lib --quiet

.PHONY: build-rust
build-rust:
	$(CARGO_TEST) --no-run --quiet

.PHONY: test-rust-quick
test-rust-quick:
	$(CARGO_TEST) --lib -- --skip sim:: --skip strict:: --skip mutated --skip hostile --skip flood

.PHONY: test-rust-long
test-rust-long: ## Simulations of 300 and 1,000 nodes, compared with the tables of the documentation; a million keys; large captures
	@.ci/check-tools "$(PYTHON)" rust
	$(CARGO_TEST) --lib -- --ignored a_thousand_nodes three_hundred_nodes a_million_keys for_many_seeds
	$(CARGO_TEST) --test dissect -- --ignored

# The small builds share target/ with the others: some dependencies are compiled once more for them, beside and not in
# place of the ones of `make test`. The last command is the build with all features, as in `make test`.
CARGO_FEATURES := tls quic ws yaml lz4 curve
.PHONY: features
features: ## Rust with none of the Cargo features, with each one, and with all
	@.ci/check-tools "$(PYTHON)" rust
	cargo clippy --locked --no-default-features -p zwire-engine -p zwire-proto --all-targets -- --deny warnings
	cargo test --locked --no-default-features -p zwire-engine -p zwire-proto
	for feature in $(CARGO_FEATURES); do \
		echo "== --features $$feature"; \
		cargo clippy --locked --no-default-features -p zwire-engine --features "$$feature" -- --deny warnings; \
	done
	$(CARGO_TEST) --lib

.PHONY: elsewhere
elsewhere: $(VENV)/.installed ## Check the crates for macOS, Windows, musl and ARM of 32 bits (rustup's rust-src, or Debian's)
	@.ci/check-tools "$(PYTHON)" rust
	$(BIN)/python .ci/elsewhere.py $(BIN) target/elsewhere $(TOOLS)

.PHONY: test-py
test-py: ext ## Python: API, guards, command line, examples of the documentation
	$(BIN)/python -m pytest tests/python -m "not long" $(SIDE_BY_SIDE) 3 $(PYTEST_ARGS)

.PHONY: test-py-long
test-py-long: ext
	$(BIN)/python -m pytest tests/python -m long $(SIDE_BY_SIDE) 2 $(PYTEST_ARGS)

.PHONY: test-py-quick
test-py-quick: ext
	$(BIN)/python -m pytest tests/python -m "not slow and not long" $(SIDE_BY_SIDE) 3 $(PYTEST_ARGS)

.PHONY: test-interop
test-interop: ext $(OLD_PEERS_INSTALLED) $(BROKER)/log ## Against eclipse-zenoh: the newest, 1.9 and 1.0; mosquitto
	$(BIN)/python -m pytest tests/interop -m "not long" --timeout 120 $(SIDE_BY_SIDE) 4 $(PYTEST_ARGS)

.PHONY: test-interop-long
test-interop-long: ext $(OLD_PEERS_INSTALLED) $(BROKER)/log
	$(BIN)/python -m pytest tests/interop -m long --timeout 120 $(SIDE_BY_SIDE) 4 $(PYTEST_ARGS)

.PHONY: test-network
test-network: ext ## Reconnecting on networks that fail, in network namespaces
	$(BIN)/python -m pytest tests/network -m "not long" --timeout 120 $(SIDE_BY_SIDE) 2 $(PYTEST_ARGS)

.PHONY: test-network-long
test-network-long: ext
	$(BIN)/python -m pytest tests/network -m long -s $(PYTEST_ARGS)

# Never fails: the script prints each unavailable peer, and the tests of that peer skip with the reason.
$(ZRE_PEERS)/versions: .ci/zre-peers
	@echo "== getting czmq from Debian and building zyre 2.0.1, 1.0.0 and the one of 20/ZRE into .tools/zre"
	.ci/zre-peers $(ZRE_PEERS)

# Never fails: without a browser the script prints the reason, and its tests skip with it.
$(BROWSER)/log: .ci/chromium
	@echo "== getting a browser from Debian into .tools/chromium"
	.ci/chromium $(BROWSER)
	@touch $@

# Never fails, as above.
$(BROKER)/log: .ci/mosquitto
	@echo "== getting a broker of MQTT from Debian into .tools/mosquitto"
	.ci/mosquitto $(BROKER)
	@touch $@

# ZWIRE_CRASH_SEED=3 kills other processes at other moments; the default is 7.
.PHONY: stress
stress: ext-release ## Minutes of load and failing networks, with a table of figures at the end
	ZWIRE_PAIRS=1000 $(BIN)/python -m pytest tests/python/test_readiness.py -k fresh_pairs --timeout 300 $(PYTEST_ARGS)
	ZWIRE_CRASH_KILLS=30 $(BIN)/python -m pytest tests/spark/test_crash.py -k however -s --timeout 3600 $(PYTEST_ARGS)
	ZWIRE_IDLE_TRIGGERS=1000 $(BIN)/python -m pytest tests/spark/test_spool_limits.py -k idle --timeout 600 $(PYTEST_ARGS)
	$(BIN)/python -m pytest tests/network/stress_reconnect.py tests/network/stress_load.py --timeout 600 $(PYTEST_ARGS)

.PHONY: leaks
leaks: ext-release ## CYCLES (10000) sessions with all kinds of objects: memory, threads and descriptors stay constant
	$(BIN)/python tests/leaks/cycles.py --cycles $(CYCLES)

# Spark needs a JDK: SOAK_ARGS="--without-spark" leaves it out. As root, SOAK_ARGS="--nice -10" lets the router and the
# pair with the bounds of latency run first on a busy machine.
SOAK_ARGS ?=
.PHONY: soak
soak: check-tools ext-release ## MINUTES (60) of all kinds of neighbours: nothing lost, no slope of memory or latency
	$(BIN)/python tests/soak/run.py --minutes $(MINUTES) $(SOAK_ARGS)

.PHONY: sanitize
sanitize: ext ## Tests under AddressSanitizer and LeakSanitizer; needs a nightly Rust
	.ci/sanitize $(BIN)/python $(CURDIR)/target/sanitize

.PHONY: test-zre
test-zre: ext $(ZRE_PEERS)/versions ## ZRE with pyre, zyre, czmq and a scripted 20/ZRE node, in network namespaces
	$(BIN)/python -m pytest tests/zre -m "not long" --timeout 120 $(SIDE_BY_SIDE) 2 $(PYTEST_ARGS)

.PHONY: test-zre-long
test-zre-long: ext $(ZRE_PEERS)/versions
	$(BIN)/python -m pytest tests/zre -m long --timeout 120 $(PYTEST_ARGS)

.PHONY: test-spark
test-spark: ext $(ZWIRE_SPARK_ARCHIVE) ## Local Spark jobs
	@.ci/check-tools "$(PYTHON)" java
	$(BIN)/python -m pytest tests/spark -m "not long" --timeout 180 $(SIDE_BY_SIDE) 2 $(PYTEST_ARGS)

# The sizes of `make stress`, for correctness: nothing is lost or doubled, no idle trigger makes a batch.
.PHONY: test-spark-long
test-spark-long: ext $(ZWIRE_SPARK_ARCHIVE)
	@.ci/check-tools "$(PYTHON)" java
	$(BIN)/python -m pytest tests/spark -m long --timeout 180 $(PYTEST_ARGS)
	ZWIRE_CRASH_KILLS=30 ZWIRE_IDLE_TRIGGERS=1000 $(BIN)/python -m pytest tests/spark/test_crash.py \
		tests/spark/test_spool_limits.py -k "however or idle" -s --timeout 3600 $(PYTEST_ARGS)

# robots.py is a module of the others.
.PHONY: examples-cluster
examples-cluster: ext ## The programs of examples/spark on a standalone cluster of two workers
	@.ci/check-tools "$(PYTHON)" java
	$(BIN)/python tests/cluster.py $(filter-out %/robots.py,$(wildcard examples/spark/*.py))

.PHONY: smoke-spark
smoke-spark: ext ## Sources and sinks of Spark on each release line (SPARK_VERSIONS), each in its .venv-spark-*
	@.ci/check-tools "$(PYTHON)" java
	.ci/smoke-spark "$(PYTHON)" $(CURDIR) constraints.txt $(SPARK_VERSIONS)

.PHONY: fuzz-smoke
fuzz-smoke: ## Each fuzz target for FUZZ_SECONDS (3)
	@.ci/check-tools "$(PYTHON)" rust
	.ci/fuzz-smoke $(FUZZ_SECONDS) $(FUZZ_PROFILE)

# Processor hours over all targets together; half a minute for each without HOURS.
FUZZ_TARGETS := $(words $(wildcard rust/fuzz/fuzz_targets/*.rs))
.PHONY: fuzz-long
fuzz-long: ## Each fuzz target with coverage, HOURS of processor time in all (30 s for each)
	$(MAKE) --no-print-directory fuzz-smoke FUZZ_PROFILE=release \
		FUZZ_SECONDS=$(if $(HOURS),$(shell expr $(HOURS) '*' 3600 / $(FUZZ_TARGETS)),30)

# ---- Checking ---------------------------------------------------------------------------------------

.PHONY: fmt
fmt: $(VENV)/.installed ## Format Rust and Python
	cargo fmt --all
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: stub
stub: $(VENV)/.installed ## Write _zwire.pyi, calls of aio and typed entities from rust/zwire-py/stub
	$(BIN)/python .ci/stub.py

.PHONY: lint
lint: house lint-rust lint-py ## Formats, lints, types, stubs; warnings are errors

.PHONY: house
house: ## Measures of the source tree with their bounds: names, circles, sizes, wording
	@"$(PYTHON)" .ci/house.py

# Cargo repeats the warnings of what is built already. `maturin build` leaves the module in place, which tests use.
.PHONY: lint-rust
lint-rust: $(VENV)/.installed
	@.ci/check-tools "$(PYTHON)" rust
	cargo fmt --all --check
	VIRTUAL_ENV=$(VENV) .ci/no-warnings $(BIN)/maturin build --locked --features as-in-tests --out target/lint
	.ci/no-warnings $(CARGO_TEST) --all-targets --no-run --quiet

.PHONY: lint-quick
lint-quick: $(VENV)/.installed
	cargo fmt --all --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# PYTHONPATH: --verifytypes does not follow the link of an in-place installation.
.PHONY: lint-py
lint-py: ext
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/typing
	$(BIN)/mypy examples
	$(BIN)/mypy .ci/*.py
	$(BIN)/pyright --pythonpath $(BIN)/python
	PYTHONPATH=$(CURDIR)/python $(BIN)/pyright --pythonpath $(BIN)/python --verifytypes zwire --ignoreexternal \
		| grep -E "error:|completeness"
	$(BIN)/python -m mypy.stubtest zwire._zwire
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms \
		$(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))

.PHONY: deny
deny: $(TOOLS)/.cargo-deny-$(CARGO_DENY_VERSION) ## Licences, advisories and bans of what the wheel links to
	.ci/deny $(TOOLS)/bin/cargo-deny

# ---- Measuring --------------------------------------------------------------------------------------

.PHONY: bench
bench: check-tools ext-release ## One table: each row a ratio to a peer, measured in one run (RECORD=1: also in docs)
	$(BIN)/python benches/run.py $(if $(RECORD),--record docs/guide/performance.md)

.PHONY: bench-long
bench-long: check-tools ext-release ## Benchmarks that take minutes: latency through Spark, memory over 150 million rows
	$(BIN)/python benches/run.py --long

# The other checkout needs its own `make dev`. A row fails if it is worse by more than 5 % beyond its noise.
.PHONY: bench-against
bench-against: check-tools ext-release ## Rows of make bench here and in another checkout (BASE=../old), in turns
	$(BIN)/python benches/run.py --against $(BASE)

.PHONY: bench-smoke
bench-smoke: ext
	CARGO_SELECTION="$(SAME_PACKAGES)" $(BIN)/python benches/run.py --smoke

.PHONY: attack
attack: check-tools ext-release ## Attacks on a router, the same on one of eclipse-zenoh (ONLY="regular expression")
	$(BIN)/python tests/attack.py --only "$(ONLY)"

.PHONY: conformance
conformance: check-tools ext-release $(ZRE_PEERS)/versions ## Judge zwire and its peers by the conformance suite, write docs/conformance
	$(BIN)/python tests/conformance_pages.py $(if $(ONLY),--only $(ONLY))

# ---- Packaging --------------------------------------------------------------------------------------

.PHONY: docs
docs: docs-html ## HTML documentation in docs/_build/html and target/doc, warnings are errors
	$(LIKE_MATURIN) RUSTDOCFLAGS="--deny warnings" cargo doc --locked --workspace --no-deps --quiet
	@echo "docs/_build/html/index.html"

# Pictures of the terminal and of the live page, by the test that types the commands.
.PHONY: screenshots
screenshots: ext $(BROWSER)/log ## Pictures of commands and of the live page in docs/_static, made anew (needs tmux)
	ZWIRE_PICTURES=$(CURDIR)/docs/_static $(BIN)/python -m pytest tests/python/test_first_path.py

# Reads all pages and resolves their references, without writing HTML.
.PHONY: docs-check
docs-check: ext
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b dummy docs docs/_build/check

.PHONY: docs-html
docs-html: ext
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build/html

.PHONY: wheel
wheel: $(VENV)/.installed ## One abi3 manylinux wheel with its SBOM and the source distribution in dist/, tested
	@.ci/check-tools "$(PYTHON)" rust
	rm -rf dist
	.ci/wheel $(BIN) dist
	.ci/try-wheel "$(PYTHON)" dist/*.whl
	.ci/try-sdist $(BIN) dist
	$(MAKE) --no-print-directory check-dist try-path

# A user's first commands with the wheel in dist/; the test itself uses the module of `ext`.
.PHONY: try-path
try-path: ext $(BROWSER)/log
	ZWIRE_WHEEL="$$(realpath dist/*.whl)" $(BIN)/python -m pytest tests/python/test_first_path.py

# Metadata as an index reads them, symbols beyond the stable ABI, and the oldest glibc, each by the tool of its kind.
.PHONY: check-dist
check-dist:
	$(BIN)/twine check --strict dist/*
	for wheel in dist/*.whl; do $(BIN)/abi3audit --strict "$$wheel"; done
	for wheel in dist/*manylinux*.whl; do \
		$(BIN)/auditwheel show "$$wheel" | tr '\n' ' ' | grep -o 'is consistent with.*"manylinux_2_17_[a-z0-9_]*"'; \
	done

# ONLY='manylinux_*' builds those alone.
.PHONY: wheels
wheels: $(VENV)/.installed ## Each wheel that this machine can build, in dist/, and a table of all targets
	@.ci/check-tools "$(PYTHON)" rust
	rm -rf dist
	PYTHON="$(PYTHON)" $(BIN)/python .ci/wheels.py $(BIN) dist $(TOOLS) $(if $(ONLY),--only '$(ONLY)')
	$(MAKE) --no-print-directory check-dist

.PHONY: reproducible
reproducible: $(VENV)/.installed ## Build the wheel twice, in two folders: both have the same bytes
	@.ci/check-tools "$(PYTHON)" rust
	"$(PYTHON)" .ci/reproducible.py $(BIN)

.PHONY: clean
clean: ## Remove all build outputs and environments
	rm -rf target rust/fuzz/target .venv .venv-peer-* .venv-spark-* .tools dist build docs/_build docs/api
	rm -rf demo-out soak-out .pytest_cache .mypy_cache .ruff_cache .hypothesis python/zwire/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
