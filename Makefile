# Everything runs in .venv, which is created on first use. Needs make and Python 3.11 or newer.
#   make test ARGS="-k fork -x"     passes arguments on to the command
#   make demo PYTHON=/path/to/python3.12

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
# Without compiled modules every process that a test starts compiles Clew again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
# Agentflow's two distributions, and where pyenv keeps Pythons that are new enough for them.
AGENTFLOW := 10xscale-agentflow 10xgraph
# Frameworks that the benchmarks compare with Clew, each in its own environment.
PEERS := langgraph agentflow llmfy openai
AGENTFLOW_PYTHONS := $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/3.1[2-9]*/bin/python)
ARGS ?=
PYTHON ?=

.PHONY: help
help: ## show this list
	@echo "usage: make <target> [ARGS=\"...\"]"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r name text; do \
	    printf '%-18s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: .venv/.demo ## kill an agent in the middle of a run and resume it with nothing lost
	@$(BIN)/clew demo $(ARGS)

# --- Tests: tests/rings.py says which test belongs to which of the three rings.

.PHONY: quick
quick: .venv/.dev ## run the tests that need no server: while you edit
	@$(BIN)/python -m pytest -q -n auto --dist worksteal --ring quick $(ARGS)

.PHONY: test
test: .venv/.dev ## run the tests that CI runs: before you push
	@$(BIN)/python -m pytest -q -n auto --dist worksteal $(ARGS)

.PHONY: test-all
test-all: test-full test-studio test-agentflow test-openai-sdk test-llmfy-old drill simulate ## run every test there is, with fresh random steps, and the drill

.PHONY: test-full
test-full: .venv/.dev ## run every test of tests/, with more and fresh random steps; CLEW_SEED=<seed> repeats a run
	@CLEW_FRESH=1 $(BIN)/python -m pytest -q -n auto --dist worksteal --ring all --timeout 3600 $(ARGS)

.PHONY: test-docs
test-docs: .venv/.dev ## run the examples in README.md and docs/, and check links and reference pages
	@$(BIN)/python -m pytest -q -n auto --dist worksteal tests/test_readme.py tests/test_docs.py tests/test_docsite.py tests/test_walkthroughs.py $(ARGS)

.PHONY: machines
machines: .venv/.dev ## run the storages' state machines with fresh steps; CLEW_SEED=<seed> repeats a run
	@CLEW_FRESH=1 $(BIN)/python -m pytest -n auto --dist worksteal --ring all --timeout 3600 tests/storage tests/replicated -k Machine $(ARGS)

.PHONY: contracts
contracts: .venv/.dev ## run every commit rule on every path of every storage and wrapper
	@CLEW_FRESH=1 $(BIN)/python -m pytest -q -n auto --dist worksteal --ring all tests/storage tests/replicated -k test_a_rule_refuses $(ARGS)

.PHONY: interrupts
interrupts: .venv/.dev ## interrupt calls 4,000 times at random moments; CLEW_SEED=<seed> repeats a run
	@CLEW_INTERRUPTS=$${CLEW_INTERRUPTS:-4000} $(BIN)/python -m pytest -q -n 0 --ring all tests/checkpointer/test_storm.py $(ARGS)

.PHONY: test-agentflow
test-agentflow: ## run the Agentflow adapter's tests in their own environments (needs Python 3.12 or newer)
	@set -e; found=; \
	for python in $(PYTHON) python3.13 python3.12 python3.14 $(AGENTFLOW_PYTHONS); do \
	    if "$$python" -c 'import ensurepip, sqlite3, sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then \
	        found=$$python; break; \
	    fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "************************************************************************" >&2; \
	    echo "** THE AGENTFLOW ADAPTER WAS NOT TESTED: Agentflow needs Python 3.12 or newer," >&2; \
	    echo "** and there is none on the PATH or among pyenv's. Install one, or name it:" >&2; \
	    echo "** make test-agentflow PYTHON=/path/to/python3.12" >&2; \
	    echo "************************************************************************" >&2; \
	    exit 0; \
	fi; \
	for distribution in $(AGENTFLOW); do \
	    place=.venv-agentflow/$$distribution; \
	    if [ "$$("$$place/bin/python" -c pass 2>/dev/null && cat "$$place/.place" 2>/dev/null)" != "$(CURDIR)" ] \
	        || [ pyproject.toml -nt "$$place/.place" ]; then \
	        echo "Setting up $$place with $$("$$found" --version) (once)..."; \
	        "$$found" -m venv --clear "$$place"; \
	        "$$place/bin/python" -m pip --disable-pip-version-check -qq install -e '.[test]' "$$distribution>=0.10"; \
	        printf '%s\n' '$(CURDIR)' > "$$place/.place"; \
	    fi; \
	    echo "== $$distribution on $$("$$place/bin/python" --version)"; \
	    "$$place/bin/python" -m pytest -q -n auto --dist worksteal tests/adapters/agentflow tests/adapters/injection $(ARGS); \
	done

.PHONY: test-studio
test-studio: .venv/.studio ## click through the studio in a real Chromium
	@set -e; browser=$${CLEW_CHROMIUM:-$$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}; \
	if [ -z "$$browser" ]; then \
	    echo "************************************************************************" >&2; \
	    echo "** THE STUDIO WAS NOT TESTED: there is no Chromium. On Debian: apt install chromium." >&2; \
	    echo "** Or name one: CLEW_CHROMIUM=/path/to/chromium make test-studio" >&2; \
	    echo "************************************************************************" >&2; \
	    exit 0; \
	fi; \
	CLEW_CHROMIUM="$$browser" $(BIN)/python -m pytest -q -n 2 --dist worksteal --ring all tests/studio $(ARGS)

.PHONY: test-openai-sdk
test-openai-sdk: .venv/openai-sdk/.ready ## run the OpenAI Agents SDK's own session tests with ClewSession (downloads them once)
	@cd .venv/openai-sdk/source && PYTHONPATH="$(CURDIR)/tests/adapters/openai/sdk" ../bin/python -m pytest -q -p clew_in_place_of_sqlite \
	    $$(../bin/python -c 'import tomllib; print(*tomllib.load(open("$(CURDIR)/tests/adapters/openai/sdk/tests.toml", "rb"))["files"])') $(ARGS)

.PHONY: test-llmfy-old
test-llmfy-old: .venv/llmfy-old/.ready ## run the llmfy adapter's tests with llmfy 0.9
	@.venv/llmfy-old/bin/python -m pytest -q -p no:cacheprovider tests/adapters/llmfy --ignore tests/adapters/llmfy/test_newer.py $(ARGS)

.PHONY: check
check: lint test ## lint and test: must pass before a commit is merged

.PHONY: lint
lint: .venv/.dev ## check formatting, lint rules, types and the import contract
	@echo "== format"; $(BIN)/ruff format --check .
	@echo "== lint"; $(BIN)/ruff check .
	@echo "== types"; $(BIN)/mypy
	@echo "== imports"; $(BIN)/lint-imports --no-cache --no-logo

.PHONY: format
format: .venv/.dev ## format the code and apply automatic fixes
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format .

.PHONY: dist
dist: .venv/dist/.ready ## build the wheel and the sdist, and check them on every Python found
	@rm -rf dist
	@.venv/dist/bin/python -m build --outdir dist . > .venv/dist/log 2>&1 || { cat .venv/dist/log; exit 1; }
	@.venv/dist/bin/twine check --strict dist/*
	@.venv/dist/bin/python .ci/dist.py dist

.PHONY: docs
docs: .venv/docs/.ready ## build the documentation site into build/site; fails on a warning, a broken link or a missing name
	@rm -rf build/site && .venv/docs/bin/python -m docsite.build $(ARGS)

.PHONY: bench
bench: .venv/.dev ## run the benchmarks: Clew and the raw drivers
	@$(BIN)/python -m bench $(ARGS)

.PHONY: drill
drill: .venv/.dev ## kill, pause and cut off real servers while processes write, and check that nothing is lost
	@$(BIN)/python -m drill $(ARGS)

.PHONY: simulate
simulate: .venv/.dev ## simulate stores, clients and network in virtual time, and check that nothing is lost
	@$(BIN)/python -m clew.testing.simulation $(ARGS)

.PHONY: fuzz
fuzz: .venv/.dev ## call everything with random arguments, damage stores, and check that only ClewErrors are raised
	@$(BIN)/python -m clew.testing.fuzz $(ARGS)

.PHONY: mutants
mutants: .venv/.dev ## break each commit rule, put each fixed fault back, and check that a test notices
	@$(BIN)/python -m mutants $(ARGS)

.PHONY: bench-peers
bench-peers: .venv/.dev $(PEERS:%=bench-with-%) ## run the benchmarks of other frameworks' savers, each in its own environment
	@$(BIN)/python -m bench.peers $(ARGS)

# If a peer can't be installed, the results say why; the others still run.
.PHONY: bench-with-%
bench-with-%:
	@place=.venv-bench-$*; needs=bench/requirements/$*.txt; \
	if [ "$$("$$place/bin/python" -c pass 2>/dev/null && cat "$$place/.ready" 2>/dev/null)" = "$(CURDIR)" ] \
	    && [ "$$place/.ready" -nt "$$needs" ] && [ "$$place/.ready" -nt pyproject.toml ]; then exit 0; fi; \
	least=$$(sed -n 's/^# python: //p' "$$needs"); found=; \
	for python in $(PYTHON) python3.13 python3.12 python3.14 $(AGENTFLOW_PYTHONS) $(BIN)/python; do \
	    if "$$python" -c "import ensurepip, sqlite3, sys, venv; sys.exit(sys.version_info < ($$(echo $${least:-3.11} | tr . ,)))" \
	        2>/dev/null; then found=$$python; break; fi; \
	done; \
	rm -rf "$$place"; mkdir "$$place"; \
	if [ -z "$$found" ]; then \
	    echo "needs Python $$least or newer, and there is none here" > "$$place/.failed"; exit 0; \
	fi; \
	echo "Setting up $$place with $$("$$found" --version) (once)..."; \
	if "$$found" -m venv "$$place" && "$$place/bin/python" -m pip --disable-pip-version-check -qq install \
	    -e '.[test]' -r "$$needs" 2> "$$place/.log"; then \
	    printf '%s\n' '$(CURDIR)' > "$$place/.ready"; \
	else \
	    { echo "could not be installed:"; grep ERROR "$$place/.log" || tail -n 3 "$$place/.log"; } > "$$place/.failed"; \
	fi

.PHONY: clean
clean: ## remove .venv and everything else that make created
	rm -rf .venv .venv-agentflow .venv-bench-* build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find src tests bench docsite drill mutants -name __pycache__ -type d -prune -exec rm -rf {} +

# --- The virtual environment: .place is empty, .demo has what the demo needs, .dev what the tests need.

# A .venv from a copied tree, or one whose Python is gone, is created again.
ifneq ($(shell $(BIN)/python -c pass 2>/dev/null && cat .venv/.place 2>/dev/null),$(CURDIR))
.PHONY: .venv/.place
endif

.venv/.place:
	@set -e; found=; lame=; \
	for python in $(if $(PYTHON),"$(PYTHON)",python3.13 python3.12 python3.11 python3.14 python3 python); do \
	    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    if "$$python" -c 'import ensurepip, sqlite3, venv' 2>/dev/null; then found=$$python; break; fi; \
	    lame=$${lame:-$$python}; \
	done; \
	if [ -z "$$found" ] && [ -n "$$lame" ]; then \
	    echo "$$lame has no $$("$$lame" -c 'import ensurepip, venv' 2>/dev/null && echo sqlite3 || echo ensurepip) module." >&2; \
	    echo "On Debian and Ubuntu: apt install python3-venv. Or name another Python: make PYTHON=python3.12" >&2; exit 1; \
	fi; \
	if [ -z "$$found" ]; then \
	    echo "Clew needs Python 3.11 or newer, and $(if $(PYTHON),$(PYTHON) is not,there is none on the PATH)." >&2; \
	    echo "Install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	echo "Setting up .venv with $$("$$found" --version) (once)..."; \
	"$$found" -m venv --clear .venv
	@printf '%s\n' '$(CURDIR)' > $@

.venv/.demo: .venv/.place pyproject.toml
	@echo "Installing Clew and what its command line needs (once)..."
	@$(PIP) install -e '.[cli]'
	@touch $@

.venv/.dev: .venv/.place pyproject.toml
	@echo "Installing Clew and what its tests need (once)..."
	@$(PIP) install -e '.[dev]'
	@touch $@ .venv/.demo

.venv/.studio: .venv/.dev Makefile
	@$(PIP) install 'playwright>=1.55' 'axe-playwright-python>=0.1.8' 'pillow>=11'
	@touch $@

# --- Separate environments.

.venv/dist/.ready: .venv/.place
	@echo "Setting up build and twine (once)..."
	@rm -rf .venv/dist && $(BIN)/python -m venv .venv/dist
	@.venv/dist/bin/python -m pip --disable-pip-version-check -qq install 'build>=1.2' 'twine>=6.1'
	@touch $@

.venv/docs/.ready: .venv/.place docsite/requirements.txt
	@echo "Setting up Zensical and mkdocstrings (once)..."
	@rm -rf .venv/docs && $(BIN)/python -m venv .venv/docs
	@.venv/docs/bin/python -m pip --disable-pip-version-check -qq install -r docsite/requirements.txt
	@touch $@

.venv/openai-sdk/.ready: .venv/.place pyproject.toml
	@echo "Fetching the source of the OpenAI Agents SDK, and what its tests need (once)..."
	@rm -rf .venv/openai-sdk && $(BIN)/python -m venv .venv/openai-sdk
	@.venv/openai-sdk/bin/python -m pip --disable-pip-version-check -qq install -e '.[openai]' 'openai-agents[sqlalchemy,encrypt]==0.24.*' \
	    pytest pytest-asyncio pytest-mock pytest-timeout inline-snapshot aiosqlite fastapi httpx websockets
	@.venv/openai-sdk/bin/python -m pip --disable-pip-version-check -qq download --no-deps --no-binary :all: -d .venv/openai-sdk/download 'openai-agents==0.24.*'
	@mkdir .venv/openai-sdk/source && tar -xzf .venv/openai-sdk/download/*.tar.gz --strip-components 1 -C .venv/openai-sdk/source
	@touch $@

# llmfy 0.9 requires a package that no index has; it is not used here.
.venv/llmfy-old/.ready: .venv/.place pyproject.toml
	@echo "Setting up llmfy 0.9 (once)..."
	@rm -rf .venv/llmfy-old && $(BIN)/python -m venv .venv/llmfy-old
	@.venv/llmfy-old/bin/python -m pip --disable-pip-version-check -qq install -e '.[test]' pydantic
	@.venv/llmfy-old/bin/python -m pip --disable-pip-version-check -qq install --no-deps 'llmfy==0.9.*'
	@touch $@
