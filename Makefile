# `make setup` once; `make check test` before a change goes in.
BIN ?= .venv/bin
PYTEST = $(BIN)/python -m pytest -q

.PHONY: setup check test test-slow test-all test-changed mutation pages matrix fuzz coverage docs pictures reference bench clean

setup:
	python3 -m venv .venv
	.venv/bin/pip install -q -e '.[dev]'

check: # format, lint, types, import contracts, dependencies, and the project's own rules
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/deptry .
	$(PYTEST) tests/project -m "rule and not slow"

test: # what README.md's test command runs
	$(PYTEST) -m "not slow and not rule" -n 3 --dist worksteal

test-slow: # tests that fail while others compete for the processors are repeated once, alone
	$(PYTEST) -m slow -n 2 --dist worksteal || $(PYTEST) -m slow --last-failed --last-failed-no-failures none

test-all: test test-slow

test-changed: # make test-changed SINCE=HEAD: the tests of what has changed since a commit, main by default
	$(BIN)/python scripts/changed_tests.py $(SINCE) | xargs -r $(PYTEST)

mutation: # make mutation MUTATION="--functions 100 --seed 7": changes that no test notices
	$(BIN)/python scripts/mutation.py $(MUTATION)

pages: # what README.md and docs/ show, run and compared with what they print
	$(PYTEST) tests/project/test_docs.py

matrix: # the table in docs/models.md of the kinds of request that each receiver accepts, as the tests measure it
	$(BIN)/python tests/llm/compat/test_conformance.py

fuzz: # make fuzz FUZZ="1000000 7": so many generated shell commands, and the seed
	$(BIN)/python tests/safety/shell/test_arithmetic_fuzz.py $(or $(FUZZ),100000)

coverage:
	$(BIN)/coverage erase
	-$(BIN)/coverage run -m pytest -q
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

docs: reference
	$(BIN)/sphinx-build -q -W --keep-going -c docs/site . build/site
	@echo "Open build/site/index.html"

pictures: # the pictures of docs/, from today's code: needs Chromium, tmux and the offline extra
	$(BIN)/python docs/pictures/diagrams.py
	$(BIN)/python docs/pictures/pages.py
	$(BIN)/python docs/pictures/chat.py

reference:
	$(BIN)/python docs/site/reference

bench: # make bench BENCH="--peers --scenarios chat loop"; `python -m benchmarks --help` tells the rest
	$(BIN)/python -m benchmarks $(BENCH)

clean:
	rm -rf build dist .venv .hypothesis .*_cache .coverage .coverage.* *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
