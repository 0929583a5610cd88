# pgq: `make demo` shows it, `make test` tests it, `make help` lists the rest.
# Variables that begin with pgq_ are ours; the short names belong to PGXS.

.DEFAULT_GOAL := help
SHELL := /bin/sh

pgq_version := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" extension/pgq.control)
pgq_root := $(CURDIR)
pgq_venv := .venv
pgq_py := $(pgq_venv)/bin/python
pgq_run := $(pgq_py) test/run.py

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{printf "make %-16s %s\n", $$1, $$2}'

.PHONY: build
build: ## build the scripts in extension/ from sql/
	@$(if $(wildcard $(pgq_py)),$(pgq_py),python3) sql/build.py

# A virtual environment with locked packages, by uv if it is there, else by venv and pip.
define pgq_install
	@set -e; \
	if command -v uv >/dev/null 2>&1; then \
	    test -x $(pgq_py) || uv venv --quiet --python '>=3.11' $(pgq_venv); \
	    uv pip install --quiet --python $(pgq_py) --require-hashes -r $<; \
	else \
	    if ! test -x $(pgq_py); then \
	        found=; \
	        for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	            if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	            then found=$$python; break; fi; \
	        done; \
	        test -n "$$found" || { echo 'pgq needs Python 3.11 or newer, or uv' >&2; exit 1; }; \
	        $$found -m venv $(pgq_venv) || { rm -rf $(pgq_venv); exit 1; }; \
	    fi; \
	    $(pgq_py) -m pip install -qq --disable-pip-version-check --require-hashes -r $<; \
	fi; \
	site=$$($(pgq_py) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	echo '$(pgq_root)/python/src' > "$$site/pgq.pth"; \
	touch $@
endef

$(pgq_venv)/demo.stamp: python/requirements-demo.txt
	$(pgq_install)
$(pgq_venv)/test.stamp: test/requirements-test.txt
	$(pgq_install)

.PHONY: test-sql
test-sql: $(pgq_venv)/test.stamp build ## pgTAP tests (ONLY=50_claim for some of them)
	@$(pgq_run) sql --only '$(ONLY)'

.PHONY: test-isolation
test-isolation: $(pgq_venv)/test.stamp build ## concurrent sessions, step by step (ACCEPT=1 to record)
	@$(pgq_run) isolation --only '$(ONLY)' $(if $(ACCEPT),--accept)

.PHONY: test-upgrade
test-upgrade: $(pgq_venv)/test.stamp build ## upgrade, dump, restore (ACCEPT=1 to record the catalog)
	@$(pgq_run) upgrade --only '$(ONLY)' $(if $(ACCEPT),--accept)

.PHONY: test-python
test-python: $(pgq_venv)/test.stamp build ## the Python package
	@$(pgq_run) python --only '$(ONLY)'

.PHONY: lint
lint: $(pgq_venv)/test.stamp build ## ruff, mypy, pgspot, plpgsql_check
	@$(pgq_run) lint

.PHONY: clean
clean: ## remove what make has made
	rm -rf $(pgq_venv) .cache dist
	find . -name __pycache__ -prune -exec rm -rf {} +
