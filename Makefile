# Allotment needs make and Python 3.11 or newer; everything else is installed into .venv.
#
#   make up      run the platform here (PORT=8080, ALLOTMENT_HOME=.allotment)
#   make test    all tests; ARGS= is passed to pytest
#   make truth   check the reasons of pending jobs in 5,000 random cells (ARGS=--worlds 300)
#   make lint    style, types, layers, migrations
#   make bench   all benchmarks
#   make lock    pin the packages of the images, with hashes
#   make mutation   find changes of quota and preemption that no test detects (MUTANTS=)

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
ARGS ?=
MUTANTS ?=

# PORT and ALLOTMENT_HOME may be set on the command line or in the environment; both are passed to the commands.
export PORT ALLOTMENT_HOME ALLOTMENT_SHARED REQUIRE_ALL TEST_DATABASE_URL

# The first of these that exists and is new enough. A name on the path may be a shim that only prints an error.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3 python; do \
	"$$python" -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && echo "$$python" && break; done)

.PHONY: help up test truth lint bench lock mutation clean

help:
	@sed -n 's/^#   //p' Makefile

up: $(VENV)/.server
	@exec $(BIN)/allotment up

test: $(VENV)/.test
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

truth: $(VENV)/.test
	@$(BIN)/python -m tests.truth --jobs $(JOBS) $(ARGS)

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd client && ../$(BIN)/mypy
	$(BIN)/lint-imports
	DJANGO_SETTINGS_MODULE=allotment.settings.test $(BIN)/python manage.py makemigrations --check --dry-run
	DJANGO_SETTINGS_MODULE=allotment.settings.test $(BIN)/python manage.py check --fail-level WARNING

bench: $(VENV)/.test
	@$(BIN)/python -m benchmarks $(ARGS)

# Versions and hashes without the address of a registry; for every platform and the Python of the image.
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.13 --generate-hashes --upgrade \
	--no-annotate --custom-compile-command "make lock"
lock: $(VENV)/.pins
	@$(LOCK) --extra server --output-file deploy/requirements.txt pyproject.toml
	@$(LOCK) --extra agent --output-file deploy/requirements-agent.txt pyproject.toml
	@$(LOCK) --group pyproject.toml:image-build --output-file deploy/requirements-build.txt

# Mutation runs every property test for thousands of changes, so it uses few examples.
mutation: export ALLOTMENT_EXAMPLES ?= 30
mutation: $(VENV)/.mutation
	@$(BIN)/mutmut run --max-children $(JOBS) $(MUTANTS)

clean:
	rm -rf $(VENV) mutants .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# A stamp per set of dependencies: the second start installs nothing. Debian ships Python without the module that
# creates virtual environments, so its absence has its own error message.
$(VENV)/bin/python:
	@python="$(PYTHON)"; \
	test -n "$$python" || { \
		echo "make: needs Python 3.11 or newer, and none was found; name one with PYTHON=" >&2; exit 2; }; \
	"$$python" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "make: $$python lacks the venv module; on Debian and Ubuntu: apt install python3-venv" >&2; exit 2; }; \
	echo "Creating the virtual environment with $$python …"; \
	"$$python" -m venv $(VENV)

# Dependency groups need pip 25.1.
$(VENV)/.pip: $(VENV)/bin/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.server: $(VENV)/.pip pyproject.toml
	@echo "Installing the platform …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[server]'
	@touch $@

$(VENV)/.test: $(VENV)/.pip pyproject.toml
	@echo "Installing the platform and what its tests need …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[server,agent]' --group test
	@touch $@ $(VENV)/.server

$(VENV)/.lint: $(VENV)/.test
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group lint
	@touch $@

$(VENV)/.pins: $(VENV)/.pip pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group lock
	@touch $@

$(VENV)/.mutation: $(VENV)/.test
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group mutation
	@touch $@
