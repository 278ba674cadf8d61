# make demo · make cluster · make test · make storm · make bench · make screenshots · make wheel      (make help says more)
#
#   PYTHON=python3.13        the Python that a new virtual environment is made with (3.11 or newer)
#   VENV=.venv-313           where that environment is
#   DJANGO='Django~=6.1.0'   a Django of one's own choice for the tests
#   ON_POSTGRES=tests       all that can runs on PostgreSQL, too, not only what locks and races there
#   PORT=8000                where the demo listens; the next free port if it is taken

PYTHON ?= python3
VENV ?= .venv
DJANGO ?=
PORT ?= 8000
ARGS ?=
# what runs on PostgreSQL, too: what locks and races there, and lists; .ci/run takes all that is marked both_databases
ON_POSTGRES ?= $(addprefix tests/integration/test_,races.py leases.py sessions_running.py stream.py admin_rows.py quorum.py deadlines.py grants.py purge.py)
comma := ,

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
# the demo brings OpenAI's library; the others come when their key is there
EXTRAS := demo$(if $(ANTHROPIC_API_KEY),$(comma)anthropic)$(if $(GOOGLE_API_KEY),$(comma)google)
DEMO := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))
DEV := $(VENV)/.installed-dev$(if $(DJANGO),-$(subst >,,$(subst <,,$(subst ~=,-,$(DJANGO)))))

.PHONY: help demo cluster test lint types tests storm bench screenshots wheel clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# //p;/^$$/q' Makefile

demo: $(DEMO)
	@$(PY) manage.py demo --port $(PORT)

# PostgreSQL, Redis, two web processes behind nginx, two workers: all on this machine
cluster: $(VENV)/.installed-cluster
	@$(PY) -m project.cluster --port $(PORT)

test: lint types tests

lint: $(DEV)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports

types: $(DEV)
	$(VENV)/bin/mypy

tests: $(DEV)
	$(PY) manage.py makemigrations --check --dry-run --settings tests.settings
	$(PY) -m pytest $(ARGS)
	$(PY) -m tests.services postgres -- $(PY) -m pytest -m both_databases $(ON_POSTGRES) $(ARGS)

storm: $(DEV)
	$(PY) -m pytest -m storm $(ARGS)
	ALLM_ROUNDS=200 $(PY) -m tests.services postgres -- $(PY) -m pytest tests/integration/test_races.py $(ARGS)

bench: $(DEV)
	@for file in tests/benchmarks/bench_*.py; do \
		module=$${file%.py}; $(PY) -m $$(echo $$module | tr / .) $(ARGS) || exit 1; \
	done

screenshots: $(DEV)
	$(PY) -m tests.screenshots $(ARGS)

wheel: $(DEV)
	$(PY) -m build --outdir dist

clean:
	rm -rf build dist staticfiles var/demo.sqlite3* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.13 …")'
	$(PYTHON) -m venv $(VENV)

$(DEMO): pyproject.toml | $(PY)
	@echo "Installing the demo into $(VENV); a minute or two, once."
	$(PIP) install --editable '.[$(EXTRAS)]'
	@touch '$@'

$(VENV)/.installed-cluster: $(DEMO)
	$(PIP) install --editable '.[$(EXTRAS)$(comma)postgres$(comma)redis$(comma)procrastinate]'
	@touch '$@'

$(DEV): pyproject.toml | $(PY)
	$(PIP) install --editable '.[dev]' $(if $(DJANGO),'$(DJANGO)')
	$(PIP) check
	@touch '$@'
