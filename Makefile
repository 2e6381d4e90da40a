# Every target sets up its own environment in .venv; all it needs is Python 3.11 or newer.

VENV := .venv
BIN  := $(VENV)/bin
KERNEL := $(wildcard src/polycast/matching/native/c/*)
# Where there is a compiler, the matching kernel in C has to be there.
NATIVE := $(if $(shell command -v $${CC:-cc} 2>/dev/null),require,auto)
WORKERS := 2
# How long `make torture` looks for filters that are matched differently, and then fuzzes.
HOURS := 2
EXAMPLES := examples/talks.py examples/chat.py examples/alerts.py examples/orders.py \
	examples/market_data.py examples/traffic.py examples/versions.py examples/hosts.py

# Hundreds of processes are started, and none need compile what another has compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo examples test java check dependencies bench proof torture docs lock clean lint \
	sanitized

help:  ## Show this list.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: java $(VENV)/.ready  ## The main job: a supply chain on Spark, end to end, with a report.
	@PYTHONPATH=examples $(BIN)/python -m supply_chain --out build/demo

examples: $(VENV)/.ready  ## Run the small examples.
	@for example in $(EXAMPLES); do \
		printf '\n-- %s\n' "$$example"; \
		$(BIN)/python "$$example" || exit 1; \
	done

test: java $(VENV)/.ready  ## Everything: format, lint, types, then all tests.
	@$(MAKE) --no-print-directory -j2 lint dependencies
	@POLYCAST_NATIVE=$(NATIVE) $(BIN)/pytest -n $(WORKERS) --no-loadscope-reorder

# Spark needs Java 17 or newer; JAVA_HOME is looked at first, as Spark does.
java:
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1); \
	test "$${version:-0}" -ge 17 || { \
		echo "polycast needs Java 17 or newer for Spark; found: $${version:-none}."; \
		echo "  Debian, Ubuntu:  sudo apt install openjdk-17-jre-headless"; \
		echo "  Fedora:          sudo dnf install java-17-openjdk-headless"; \
		echo "  macOS:           brew install openjdk@17"; \
		echo "  anywhere:        https://adoptium.net"; \
		echo "If it is installed elsewhere: JAVA_HOME=/path/to/java make ..."; \
	} >&2; test "$${version:-0}" -ge 17

check: $(VENV)/.ready  ## The fast part: format, lint, types, dependencies, architecture rules.
	@$(MAKE) --no-print-directory -j2 lint dependencies
	@$(BIN)/pytest -q tests/architecture

# The bill of materials, and whether a database knows of a vulnerability; without one, it says so.
# It mostly waits, so lint goes on beside it: each says few lines, and each line at once.
dependencies: $(VENV)/.ready
	@$(BIN)/python tools/dependencies.py sbom
	@$(BIN)/python tools/dependencies.py audit

bench: java $(VENV)/.ready  ## Measure against the peers, side by side.
	@$(BIN)/python benchmarks/in_process.py
	@$(BIN)/python benchmarks/wire.py
	@$(BIN)/python benchmarks/filters.py
	@$(BIN)/python benchmarks/languages.py
	@$(BIN)/python benchmarks/matching.py
	@$(BIN)/python benchmarks/matching_peers.py
	@$(BIN)/python benchmarks/matching_parallel.py
	@$(BIN)/python benchmarks/durable.py
	@$(BIN)/python benchmarks/pipeline.py
	@$(BIN)/python benchmarks/broker.py
	@$(BIN)/python benchmarks/attacks.py
	@$(BIN)/python benchmarks/contexts.py
	@$(BIN)/python benchmarks/contexts_effort.py
	@$(BIN)/python benchmarks/page.py

proof: java $(VENV)/.ready  ## What is too long for each run: browser, cluster, kills, Python versions.
	@POLYCAST_PROOF=1 $(BIN)/pytest -q tests/proof/test_browser.py tests/pipeline/test_pipeline_cluster.py
	@$(BIN)/pytest -q tests/stores/test_sqlite_versions.py tests/stores/test_sqlite_file.py
	@$(BIN)/python tests/proof/torture.py --only kills brokers pipelines \
		--kills 60 --brokers 40 --pipelines 10
	@$(BIN)/python tools/pythons.py

torture: $(VENV)/.ready  ## Kill, pause, flood, cut the power, fail the disk, flip bits; and stress.
	@$(BIN)/python tests/proof/torture.py
	@$(BIN)/python tests/simulation/simulate.py --first 1001 --seconds $$(( $(HOURS) * 900 ))
	@POLYCAST_STRESS=long $(BIN)/pytest tests/stress tests/contexts tests/routing tests/broker/wire \
		tests/matching tests/languages/etcl tests/languages/xpath
	@POLYCAST_FUZZ=$$(( $(HOURS) * 3600 )) POLYCAST_FUZZ_FOUND=build/found POLYCAST_NATIVE=$(NATIVE) \
		$(BIN)/pytest tests/matching/test_agreement.py
	@$(MAKE) --no-print-directory sanitized
	@$(BIN)/python tests/fuzzing/fuzz.py --hours $(HOURS)

# The kernel in C under the sanitizers. Leaks are not looked for: the interpreter keeps much until
# it ends; the tests count what the kernel holds instead.
sanitized: $(VENV)/.ready
	@rm -rf build/sanitized && mkdir -p build && cp -r src build/sanitized
	@rm -f build/sanitized/polycast/matching/native/*.so
	@POLYCAST_SANITIZE=1 $(BIN)/python setup.py --quiet build_ext \
		--build-lib build/sanitized --build-temp build/sanitized-objects
	@LD_PRELOAD="$$($${CC:-cc} -print-file-name=libasan.so) $$($${CC:-cc} -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		PYTHONMALLOC=malloc PYTHONPATH=build/sanitized POLYCAST_NATIVE=require \
		$(BIN)/pytest -q --capture=no tests/matching

docs: $(VENV)/.ready  ## Run every snippet of the documentation.
	@$(BIN)/pytest tests/test_docs.py

lint: $(VENV)/.ready
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

# Prints the first interpreter that is new enough and can make environments. Each candidate is
# run, because a name on the PATH may be a launcher for a version that is not there.
define find_python
for candidate in "$(PYTHON)" python3 python3.13 python3.12 python3.11; do \
	test -n "$$candidate" || continue; \
	"$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
		>/dev/null 2>&1 && { command -v "$$candidate"; exit 0; }; \
done; \
{ \
	echo "polycast needs Python 3.11 or newer with the venv module, and none was found."; \
	echo "  Debian, Ubuntu:  sudo apt install python3 python3-venv"; \
	echo "  Fedora:          sudo dnf install python3"; \
	echo "  macOS:           brew install python@3.13"; \
	echo "  anywhere:        https://www.python.org/downloads/"; \
	echo "If it is installed under another name: make PYTHON=/path/to/python3 ..."; \
} >&2; exit 1
endef

# The environment is kept when it works, so a changed lock only installs what changed. The build
# tool comes from the lock too: nothing is installed that the lock does not name with its hash.
$(VENV)/.ready: requirements.lock pyproject.toml setup.py $(KERNEL)
	@$(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		python=$$($(find_python)) || exit 1; \
		echo "Setting up $(VENV) with $$($$python -V)"; \
		"$$python" -m venv --clear $(VENV); \
	}
	@echo "Installing what requirements.lock names into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

lock:  ## Resolve requirements.lock again from pyproject.toml.
	@python=$$($(find_python)) || exit 1; \
	scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	echo "Resolving requirements.lock"; \
	"$$python" -m venv "$$scratch" && \
	"$$scratch/bin/pip" install --quiet --disable-pip-version-check uv && \
	"$$scratch/bin/uv" pip compile --quiet --universal --generate-hashes --python-version 3.11 \
		--extra dev --extra bench --extra arrow --extra spark --extra units --extra client \
		--extra server \
		--no-header --no-emit-index-url --no-emit-find-links pyproject.toml -o requirements.lock

clean:  ## Remove the environment and everything generated.
	@rm -rf $(VENV) build dist .hypothesis .mypy_cache .ruff_cache .pytest_cache src/*.egg-info
	@rm -f src/polycast/matching/native/*.so
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
