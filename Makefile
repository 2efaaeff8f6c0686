# make up       install what is missing, start Leadline with real senders; ARGS=--once shows it works and ends
# make test     everything: lints, types, all tests, quick evals (what CI runs)
# make check    formats, lints, types, and the tests that are fast and need no other program; under two minutes
# make fuzz     tests that draw their examples, with new ones (the others draw the same each time); ARGS for pytest
# make bench    speed, side by side with peers, at real size
# make evals    scores on data from outside; make evals-quick in minutes
# make docs     write the generated pages of docs/, and build the site that is served at /docs
# make clean    remove the environment and caches; a store (leadline-data/) is left alone

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
# Images for containers often set it; every one of the hundreds of programs that tests start would compile all sources anew.
unexport PYTHONDONTWRITEBYTECODE

# Stamps carry the hash of what they depend on, so a second run installs nothing and a change is noticed.
KEY := $(shell cat pyproject.toml constraints.txt | sha256sum | cut -c1-12)
RUN_STAMP := .venv/.installed-run-$(KEY)
TEST_STAMP := .venv/.installed-test-$(KEY)
FUZZ_STAMP := .venv/.installed-fuzz-$(KEY)
KERNEL_STAMP := .venv/.kernels-$(shell find src/leadline/analysis src/leadline/wire src/leadline/model/sources.py -name "*.py" | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-12)
# The page as it stands, without what is made of it.
PAGE_STAMP := .venv/.page-$(shell find web \( -name node_modules -o -name schema.d.ts \) -prune -o -type f -print | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-12)
# The docs as they stand, with what the site is built by.
DOCS_STAMP := .venv/.docs-$(shell { find docs -type f -not -name "*.pyc" -print; echo mkdocs.yml CHANGELOG.md CONTRIBUTING.md SECURITY.md web/src/app.css | tr " " "\n"; } | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-12)
# The prober as it stands, for the compiler that is named.
PROBER_STAMP := .venv/.prober-$(shell { echo $(CC); cat native/prober/* scripts/build-prober; } | sha256sum | cut -c1-12)
# Constraints: the versions this was tested with, so that a clone of today works like one of next year.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile -c constraints.txt
# First and alone: what depends on torch would else choose a build of its own.
TORCH := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile torch==2.13.0
# program:package where Debian's names differ
LAB_PROGRAMS := ip:iproute2 tc:iproute2 nft:nftables nsenter:util-linux lldpd faketime
TEST_PROGRAMS := prometheus prometheus-alertmanager prometheus-node-exporter curl sfcapd:nfdump-sflow nfdump pmacctd:pmacct \
  sfacctd:pmacct ovs-vswitchd:openvswitch-switch chromium gcc:build-essential zsh fish \
  groff:groff-base victoria-metrics

.NOTPARALLEL:
.PHONY: help up test checks-idly tests-idly check fuzz format lint types bench evals evals-quick docs clean

help:
	@grep '^# make' Makefile | cut -c3-

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' \
	  || { echo "Leadline needs Python 3.11 to 3.14; name one: make PYTHON=python3.12 ..." >&2; exit 2; }
	@if ! $(PYTHON) -m venv .venv 2>/dev/null; then \
	  rm -rf .venv; \
	  echo "this Python cannot make environments yet (Debian: python3-venv)" >&2; \
	  apt-get install -y -qq --no-install-recommends python3-venv >/dev/null \
	    || { apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv >/dev/null; }; \
	  $(PYTHON) -m venv .venv; \
	fi

$(RUN_STAMP): | $(BIN)/python
	@echo "installing Leadline into .venv (some minutes the first time)"
	@$(TORCH) && $(PIP) -e '.[server,demo,lab,top]'
	@touch $@

$(TEST_STAMP): | $(BIN)/python
	@echo "installing Leadline and what its tests need into .venv (some minutes the first time)"
	@$(TORCH) && $(PIP) -e '.[server,demo,lab,top,ray,test]'
	@touch $@ $(RUN_STAMP)

# Apart: 35 MB that nothing else needs. Where there is none of it bench.fuzz fails, and says so.
$(FUZZ_STAMP): | $(TEST_STAMP)
	@$(PIP) -e '.[fuzz]'
	@touch $@

# Compiled once here, not in the first request; what was compiled of the same sources before is not compiled again.
$(KERNEL_STAMP): | $(RUN_STAMP)
	@echo "compiling scanners and analyses (a minute on two cores)"
	@$(BIN)/python -m leadline.server.background.kernels
	@rm -f .venv/.kernels-*
	@touch $@

$(PAGE_STAMP): | $(RUN_STAMP)
	@echo "building the page"
	@scripts/build-page && rm -f .venv/.page-* && touch $@ || echo "without it the addresses that make up prints answer with plain text" >&2

$(DOCS_STAMP): | $(RUN_STAMP)
	@echo "building the docs"
	@scripts/build-docs && rm -f .venv/.docs-* && touch $@ || echo "without them /docs has no pages" >&2

$(PROBER_STAMP): | $(RUN_STAMP)
	@scripts/build-prober && rm -f .venv/.prober-* && touch $@ || true

up: $(RUN_STAMP) $(KERNEL_STAMP) $(PAGE_STAMP) $(DOCS_STAMP) $(PROBER_STAMP)
	@scripts/install-programs $(LAB_PROGRAMS) || echo "without them there is no lab: a recorded incident is replayed" >&2
	@exec $(BIN)/python -m leadline.cli.main up --demo $(ARGS)

# Three parts. Tests that do not mind others beside them, two at a time (with three, tests failed that expect room on the
# machine: docs/log.md), the longest files first (tests/conftest.py). Then those with namespaces, one after the other.
# Both wait for a third to half of their time: types, the page's own tests and the quick evals, then tests that need no
# clock, run on what they leave of the machine. Where ARGS names files or folders only these are read.
# Exit code 5 of pytest: none of these was chosen by ARGS.
ALONE := lab
NAMED := $(findstring tests/,$(ARGS))
ALONE_IN := $(if $(NAMED),,tests/lab)
IDLY_IN := $(if $(NAMED),,tests/common tests/fuzz tests/golden tests/property tests/sim $(addprefix tests/unit/,analysis evals \
  simulator store test_layers.py views wire))
FAST := not slow and not senders and not lab
# What `make check` runs: no other program, no server, no engine, no built page; what takes long is left to `make test`.
QUICK := $(addprefix tests/unit/,alerts analysis deploy explain host ingest lab model simulator torch wire test_docs.py test_entity_ids.py \
  test_fabrics.py test_layers.py)

# Programs and the page come while pip installs: each waits for its network most of the time.
test: | $(BIN)/python
	@mkdir -p build && scripts/build-page --node
	@{ scripts/install-programs $(TEST_PROGRAMS) $(LAB_PROGRAMS) && scripts/build-page && scripts/install-helm; } >build/beside.txt 2>&1 & beside=$$!; \
	  trap wait EXIT; \
	  $(MAKE) --no-print-directory $(TEST_STAMP); \
	  $(MAKE) --no-print-directory lint; \
	  $(MAKE) --no-print-directory $(KERNEL_STAMP); \
	  $(MAKE) --no-print-directory $(DOCS_STAMP); \
	  wait $$beside || { cat build/beside.txt >&2; exit 1; }; cat build/beside.txt; \
	  $(MAKE) --no-print-directory $(PROBER_STAMP)
	@begun=; trap 'for one in $$begun; do kill -- -$${one#*:}; done 2>/dev/null || true' EXIT; \
	  idly() { setsid scripts/idly $(MAKE) --no-print-directory $$1-idly >build/$$1.txt 2>&1 & begun+=" $$1:$$!"; }; \
	  idly checks; \
	  $(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not $(ALONE)" $(IDLY_IN:%=--ignore=%) $(ARGS) || [ $$? -eq 5 ]; \
	  idly tests; \
	  $(BIN)/pytest -q -m "$(ALONE)" $(ALONE_IN) $(ARGS) || [ $$? -eq 5 ]; \
	  for one in $$begun; do wait $${one#*:} || { cat build/$${one%:*}.txt >&2; exit 1; }; cat build/$${one%:*}.txt; done

checks-idly:
	@$(MAKE) --no-print-directory types
	@scripts/build-page --check
	@$(MAKE) --no-print-directory evals-quick

tests-idly:
	@$(if $(IDLY_IN),$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not $(ALONE)" $(IDLY_IN) $(ARGS) || [ $$? -eq 5 ])

check: $(TEST_STAMP) $(KERNEL_STAMP) $(PROBER_STAMP) format lint types
	$(BIN)/pytest -q -n 2 --dist loadfile -m "$(FAST)" $(if $(NAMED),,$(QUICK)) $(ARGS)

fuzz: $(TEST_STAMP) $(KERNEL_STAMP)
	$(BIN)/pytest -q -n 2 --hypothesis-profile new $(if $(NAMED),,tests/common tests/fuzz tests/property) $(ARGS)

format: $(TEST_STAMP)
	$(BIN)/ruff check --quiet --select I --fix .
	$(BIN)/ruff format --quiet .

lint: $(TEST_STAMP)
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .

types: $(TEST_STAMP)
	$(BIN)/mypy

# Programs only: the files that something else imports have no __main__.
BENCHES := $(subst /,.,$(basename $(shell grep -ls __main__ bench/*.py)))

bench: $(TEST_STAMP) $(FUZZ_STAMP) $(KERNEL_STAMP) $(PROBER_STAMP)
	@scripts/install-programs prometheus victoria-metrics || echo "peers that are missing are left out" >&2
	@failed=; for program in $(BENCHES); do echo "== $$program"; $(BIN)/python -m $$program $(ARGS) || failed+=" $$program"; done; \
	  [ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

# Resumable; ARGS="--data DIR --incidents DIR" for data from outside and recorded runs.
evals: $(TEST_STAMP) $(KERNEL_STAMP)
	@$(BIN)/python -m evals.all $(ARGS)

evals-quick: $(TEST_STAMP) $(KERNEL_STAMP)
	@$(BIN)/python -m evals.all --quick

docs: $(TEST_STAMP)
	$(BIN)/python docs/generate.py
	@scripts/build-docs

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .schemathesis
	find src tests bench evals -name '*.nb[ic]' -delete
	find src tests bench evals -name __pycache__ -prune -exec rm -rf {} +
