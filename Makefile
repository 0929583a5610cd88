# pgq: `make demo` shows it, `make test` tests it, `make help` lists the rest.
#
# Variables that begin with pgq_ are ours; the short names belong to PGXS, which is needed and
# included only to install into a server.

.DEFAULT_GOAL := help
pgq_version := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" extension/pgq.control)

ifneq (,$(filter install uninstall installdirs,$(MAKECMDGOALS)))

EXTENSION = extension/pgq extension/pgq_pgmq
DATA = $(wildcard extension/pgq--*.sql extension/pgq_pgmq--*.sql)
# A directory given by datadir=... is filled with what a server needs, nothing else.
ifeq (undefined,$(origin datadir))
DOCS = $(wildcard extension/pgq.md)
endif
PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq (,$(wildcard $(PGXS)))
$(error no PGXS from "$(PG_CONFIG)": install the server's development package, or name another pg_config by PG_CONFIG=)
endif
include $(PGXS)

.PHONY: pgq_refuse_foreign
pgq_refuse_foreign:
	@control='$(DESTDIR)$(datadir)/extension/pgq.control'; \
	if test -e "$$control" && ! grep -q 'not the pgq of Skytools' "$$control"; then \
	    echo "$$control belongs to another extension named pgq; it is not overwritten" >&2; \
	    exit 1; \
	fi
install installdirs uninstall: pgq_refuse_foreign

else

pgq_venv := .venv
pgq_py := $(pgq_venv)/bin/python
pgq_run := $(pgq_py) test/run.py
pgq_least := 11

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile \
	    | awk -F'|' '{printf "make %-19s %s\n", $$1, $$2}'
	@echo 'make install             install into a server (PG_CONFIG=..., or datadir=... for a directory)'
	@echo 'make uninstall           remove from a server'

.PHONY: demo
demo: $(pgq_venv)/demo.stamp build ## one message's whole life, on a PostgreSQL of its own
	@$(pgq_py) -m pgq.demo

.PHONY: test
test: $(pgq_venv)/spark.stamp ## everything that has to pass
	@$(pgq_run)

.PHONY: test-sql
test-sql: $(pgq_venv)/test.stamp build ## pgTAP (ONLY=50_claim: those with that in their path)
	@$(pgq_run) sql --only '$(ONLY)'

.PHONY: test-isolation
test-isolation: $(pgq_venv)/test.stamp build ## concurrent sessions step by step (ACCEPT=1 records)
	@$(pgq_run) isolation --only '$(ONLY)' $(if $(ACCEPT),--accept)

.PHONY: test-upgrade
test-upgrade: $(pgq_venv)/test.stamp build ## upgrade, dump, restore (ACCEPT=1 records the catalog)
	@$(pgq_run) upgrade --only '$(ONLY)' $(if $(ACCEPT),--accept)

.PHONY: test-python
test-python: $(pgq_venv)/test.stamp build ## the Python package (ACCEPT=1 records the output in the documentation)
	@$(pgq_run) python --only '$(ONLY)' $(if $(ACCEPT),--accept)

.PHONY: test-page
test-page: $(pgq_venv)/test.stamp build ## the web page, in Chromium (fetched if missing)
	@$(pgq_run) page --only '$(ONLY)'

.PHONY: pictures
pictures: $(pgq_venv)/test.stamp build ## photograph the web page for python/DASHBOARD.md
	@$(pgq_py) test/page/pictures.py

.PHONY: test-chaos
test-chaos: $(pgq_venv)/test.stamp build ## long: 200 crashes, a million messages, 50 dumps, failovers
	@$(pgq_run) chaos failover --crashes $(or $(CRASHES),200) --messages $(or $(MESSAGES),1000000) \
	    --dumps $(or $(DUMPS),50) --killers $(or $(KILLERS),20) --rounds $(or $(ROUNDS),5)

.PHONY: test-model
test-model: $(pgq_venv)/test.stamp build ## long: random operations, judged step by step (WALKS=, SEED=)
	@PGQ_WALKS=$(or $(WALKS),150) PGQ_EXAMPLES=$(or $(WALKS),150) PGQ_STEPS=60 \
	    PGQ_SEED=$(or $(SEED),1000) $(pgq_run) python --only test_model

.PHONY: test-standing
test-standing: $(pgq_venv)/test.stamp build ## long: 10,000 filtered subscriptions, 10,000 messages
	@PGQ_STANDING=$(or $(FILTERS),10000) $(pgq_run) python --only test_standing

.PHONY: test-relay
test-relay: $(pgq_venv)/test.stamp build ## long: outages of destinations, relays killed 40 times
	@PGQ_RELAY_MESSAGES=$(or $(MESSAGES),20000) PGQ_RELAY_KILLS=$(or $(KILLS),40) \
	    $(pgq_run) python --only relay_outage

.PHONY: test-matrix
test-matrix: $(pgq_venv)/test.stamp build ## SQL, isolation and Python on PostgreSQL 15 to 19 (MAJORS=)
	@$(pgq_py) test/matrix.py --only '$(ONLY)' $(if $(MAJORS),--majors $(MAJORS))

.PHONY: test-pgbouncer
test-pgbouncer: $(pgq_venv)/test.stamp build ## test-python through pgbouncer in transaction mode
	@$(pgq_run) pgbouncer --only '$(ONLY)'

.PHONY: test-docker
test-docker: $(pgq_venv)/test.stamp build ## test-python on PostgreSQL in Docker (PGQ_TEST_IMAGE=...)
	@PGQ_TEST_BACKEND=docker $(pgq_run) python --only '$(ONLY)'

.PHONY: test-spark
test-spark: $(pgq_venv)/spark.stamp build ## the data source for Spark (Java 17; fetched if missing)
	@$(pgq_run) spark --only '$(ONLY)' $(if $(ACCEPT),--accept)

.PHONY: test-spark-cluster
test-spark-cluster: $(pgq_venv)/spark.stamp build ## clusters, Spark Connect, more kills: minutes
	@$(pgq_run) spark-cluster --only '$(ONLY)'

.PHONY: test-airflow
test-airflow: .venv-airflow/airflow.stamp build ## the trigger in Airflow itself: minutes
	@.venv-airflow/bin/python -m pytest -q -c test/pytest.ini --rootdir test -p no:pgq \
	    test/python/adapter/test_airflow.py test/python/adapter/test_airflow_installed.py

.PHONY: test-django
test-django: .venv-django/django.stamp build ## the tasks of Django 6, which needs Python 3.12
	@.venv-django/bin/python -m pytest -q -c test/pytest.ini --rootdir test \
	    test/python/adapter/test_django.py

.PHONY: installcheck
installcheck: $(pgq_venv)/test.stamp ## pgTAP on the server that the PG* variables name
	@$(pgq_run) sql --running --only '$(ONLY)'

.PHONY: lint
lint: $(pgq_venv)/spark.stamp build ## ruff, mypy, pyright, pgspot, plpgsql_check
	@$(pgq_run) lint

.PHONY: verify
verify: $(pgq_venv)/test.stamp ## is everything generated what its sources say?
	@$(pgq_run) verify

.PHONY: bench
bench: $(pgq_venv)/spark.stamp build ## measure beside others: extension/benchmark.md (BENCH=...)
	@$(pgq_py) test/bench/run.py $(BENCH)

.PHONY: bench-spark
bench-spark: $(pgq_venv)/spark.stamp build ## only Spark against plain JDBC and COPY
	@$(pgq_py) test/bench/run.py --only spark $(BENCH)

.PHONY: build
build: ## build the scripts in extension/ from sql/
	@if test -x $(pgq_py); then $(pgq_py) sql/build.py; else python3 sql/build.py; fi

.PHONY: docs
docs: $(pgq_venv)/demo.stamp build ## the reference extension/pgq.md, and pictures of the tables
	@$(pgq_py) sql/reference.py
	@$(pgq_py) sql/pictures.py

.PHONY: generate
generate: $(pgq_venv)/test.stamp docs ## everything generated: scripts, reference, pictures, twins, catalog
	@$(pgq_py) python/unasync.py
	@$(pgq_run) upgrade --only recorded_catalog --accept

.PHONY: dist
dist: ## the archive for PGXN, from the last commit
	@mkdir -p dist
	@git archive --format=zip --prefix=pgq-$(pgq_version)/ -o dist/pgq-$(pgq_version).zip HEAD
	@echo dist/pgq-$(pgq_version).zip

.PHONY: wheel
wheel: $(pgq_venv)/test.stamp build ## the Python package, with the extension inside
	@mkdir -p dist
	@cd python && ../$(pgq_py) -c 'import hatchling.build as b; print("dist/" + b.build_wheel("../dist"))'

.PHONY: locks
locks: ## lock the Python packages anew (needs uv)
	@for name in python/requirements-demo test/requirements-test test/requirements-spark \
	    test/requirements-airflow test/requirements-django; do \
	    case $$name in *django) least=3.12;; *) least=3.11;; esac; \
	    uv pip compile --quiet --universal --python-version $$least --generate-hashes --no-header \
	        --no-annotate $$name.in -o $$name.txt || exit 1; \
	done

.PHONY: clean
clean: ## remove what make has made, except what is committed
	rm -rf $(pgq_venv) .venv-airflow .venv-django .cache dist
	find . -name __pycache__ -prune -exec rm -rf {} +

# A virtual environment with locked packages, by uv if it is there, else by venv and pip. They are
# all in the lists: a pip that looks for what they need trips over a pinned package with extras as
# soon as there is a newer one.
define pgq_packages
@set -e; \
if command -v uv >/dev/null 2>&1; then \
    test -x $(pgq_py) || uv venv --quiet --python '>=3.$(pgq_least)' $(pgq_venv); \
    uv pip install --quiet --python $(pgq_py) --no-deps --require-hashes -r $<; \
else \
    if ! test -x $(pgq_py); then \
        for python in python3 python3.14 python3.13 python3.12 python3.11 none; do \
            if $$python -c 'import sys; sys.exit(sys.version_info < (3, $(pgq_least)))' 2>/dev/null; \
            then break; fi; \
        done; \
        if test $$python = none; then echo 'needed: Python 3.$(pgq_least) or newer, or uv' >&2; exit 1; fi; \
        $$python -m venv $(pgq_venv) || { rm -rf $(pgq_venv); exit 1; }; \
    fi; \
    $(pgq_py) -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r $<; \
fi; \
site=$$($(pgq_py) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
echo '$(CURDIR)/python/src' > "$$site/pgq.pth"; \
touch $@
endef

$(pgq_venv)/demo.stamp: python/requirements-demo.txt
	$(pgq_packages)
$(pgq_venv)/test.stamp: test/requirements-test.txt
	$(pgq_packages)
$(pgq_venv)/spark.stamp: test/requirements-spark.txt
	$(pgq_packages)
.venv-airflow/airflow.stamp: pgq_venv := .venv-airflow
.venv-airflow/airflow.stamp: pgq_py := .venv-airflow/bin/python
.venv-airflow/airflow.stamp: test/requirements-airflow.txt
	$(pgq_packages)
.venv-django/django.stamp: pgq_venv := .venv-django
.venv-django/django.stamp: pgq_py := .venv-django/bin/python
.venv-django/django.stamp: pgq_least := 12
.venv-django/django.stamp: test/requirements-django.txt
	$(pgq_packages)

endif
