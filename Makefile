# The commands of the course; `make` alone lists them.
#
# Needed beforehand: make, and Python 3.11, 3.12 or 3.13. Everything else is installed into .venv by pip, at the
# versions in constraints.txt, by install.py. pip's own settings (PIP_INDEX_URL, PIP_FIND_LINKS, ...) are honoured.

# The first of these that works is used. To choose: make lab PYTHON=python3.12 (after `make clean` if .venv exists).
PYTHON ?= python3 python3.13 python3.12 python3.11
# These are passed on, for example: make lab LAB_ARGS=--port=9000, make test PYTEST_ARGS='-k masks'
LAB_ARGS ?=
PYTEST_ARGS ?=
BRANCH ?= main

PY := .venv/bin/python
LAB := .venv/lab.ready
BOOK := .venv/book.ready
TEST := .venv/test.ready

.PHONY: help lab test pytest lint build claims book adopt grade wheel bench lock clean broken
.DEFAULT_GOAL := help

help:  ## list the commands
	@sed -n 's/^\([a-z]*\):[^#]*## *\(.*\)/make \1|\2/p' Makefile | awk -F'|' '{printf "%-11s %s\n", $$1, $$2}'

lab: $(LAB)  ## open your own copy of the notebooks, in work/, in JupyterLab (CPU=1 the first time: PyTorch's smaller build)
	@exec $(PY) -m autograder.working_copy --open $(LAB_ARGS)

test: lint pytest  ## check style and types, then run all tests

pytest: $(TEST)
	$(PY) -m pytest -n auto --dist loadgroup $(PYTEST_ARGS)

lint: $(TEST)  ## check style and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

build: $(LAB)  ## build notebooks/ from solutions/, and the index of mistakes (CHECK=1: only say whether they are up to date)
	@$(PY) -m autograder.authoring.build $(if $(CHECK),--check)
	@$(PY) -m course_lib.checking $(if $(CHECK),--check)

claims: $(LAB)  ## run full trainings to prove what the text says about them, where it has changed (takes minutes)
	@$(PY) -m autograder.authoring.claims

adopt: $(LAB)  ## move the course to your own repository: REPOSITORY=https://github.com/you/your-course BRANCH=main
	@$(PY) -m autograder.authoring.adopt "$(REPOSITORY)" "$(BRANCH)"
	@$(MAKE) build

book: $(BOOK)  ## build the book in site/ (SOLUTIONS=1: the instructor's edition; WHOLE=1: with full trainings)
	@$(PY) -m book $(if $(SOLUTIONS),--solutions) $(if $(WHOLE),--whole)

grade: $(LAB)  ## release the assignments, grade a sample class of 24, write feedback, report and exports
	@$(PY) -m autograder sample

wheel: $(LAB)  ## build dist/: the package that students install, and the one for instructors without this repository
	@rm -rf build/lib  # otherwise leftovers of an earlier build would be packed too
	@$(PY) -m pip wheel -qq --no-deps --no-build-isolation -w dist .
	@$(PY) -m autograder.authoring.wheel dist
	@ls dist/*.whl

bench: $(TEST)  ## run the measurements (`python -m benchmarks --list` names the parts)
	@$(PY) -m benchmarks

clean:  ## remove .venv and the tools' caches; your work stays
	@$(call remove_venv,.venv)
	@$(call remove_venv,.venv-lock)
	rm -rf transformer_course.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment ---------------------------------------------------------------------------------------------
# Three stamps: what a student needs, what the book needs on top, and what the tests need on top of both. install.py
# removes them before it installs anything and writes them afterwards, so a stamp means that the installation was
# complete. After an interruption there is none, and .venv is made again (pip has kept what it had downloaded).

# Does .venv work, and was it made in this folder? Its Python may have been upgraded since, or the folder
# moved; an editable installation survives neither.
VENV_RUNS := $(shell test "$$(cat .venv/folder 2>/dev/null)" = "$$(pwd -P)" && $(PY) -c 'import pip' 2>/dev/null && echo yes)

SUITABLE := import sys, ssl, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))

# install.py and `lock` leave the file `folder` in an environment, before anything else.
remove_venv = \
	if [ -e $(1) ] && [ ! -f $(1)/folder ]; then \
		echo "There is a $(1) that was not made by make. Rename it or remove it yourself, then try again." >&2; exit 1; \
	fi; \
	rm -rf $(1)

# Runs $(1) with the first suitable Python.
with_python = \
	for python in $(PYTHON); do \
		if "$$python" -c '$(SUITABLE)' >/dev/null 2>&1; then "$$python" $(1); exit; fi; \
	done; \
	echo "None of these is a suitable Python: $(PYTHON)." >&2; \
	echo "Install Python 3.11, 3.12 or 3.13 with venv (Debian: apt-get install python3-venv), or name one: PYTHON=/path/to/python3" >&2; \
	exit 1

$(LAB): pyproject.toml constraints.txt $(if $(VENV_RUNS),,broken)
	@if [ -z "$(VENV_RUNS)" ] || [ ! -f $(LAB) ]; then $(call remove_venv,.venv); fi
	@$(call with_python,install.py $(if $(CPU),--cpu))

$(BOOK): $(LAB)
	@$(call with_python,install.py --book $(if $(CPU),--cpu))

$(TEST): $(LAB)
	@$(call with_python,install.py --tests $(if $(CPU),--cpu))

# PyTorch stays at its pin unless TORCH says otherwise; everything else moves to the newest compatible version.
TORCH ?= $(shell sed -n 's/^torch==//p' constraints.txt)

# The lowest supported Python resolves the versions; every other one must be able to install the same.
lock: PYTHON = python3.11 python3
lock:  ## pin the newest versions in constraints.txt and environment.yml (TORCH=2.14.0: another PyTorch)
	@$(call remove_venv,.venv-lock)
	@mkdir .venv-lock && pwd -P > .venv-lock/folder
	@$(call with_python,-m venv .venv-lock)
	@git diff --quiet HEAD -- constraints.txt 2>/dev/null || { \
		n=1; while [ -e constraints.$$n.txt ]; do n=$$((n + 1)); done; cp constraints.txt constraints.$$n.txt; \
		echo "constraints.txt differed from the version in git: it was saved as constraints.$$n.txt"; }
	@.venv-lock/bin/python -m pip install -q --upgrade pip packaging
	@.venv-lock/bin/python .ci/lock.py $(TORCH)
	@rm -rf .venv-lock
