# `make setup` once; then `make check test` says whether a change may go in.
BIN ?= .venv/bin

# What runs programs, and takes minutes, is `make test`'s; the checks themselves are not run a second time as a test.
RUNS = --ignore-glob='*/test_examples.py' --ignore-glob='*/test_benchmarks.py' --ignore-glob='*/test_site.py' \
	--deselect tests/project/test_docs.py::test_blocks_are_typed --deselect tests/project/test_docs.py::test_block_runs \
	--deselect tests/project/test_docs.py::test_block_replays \
	--deselect tests/project/test_architecture.py::test_check_passes

.PHONY: setup check pages test fuzz coverage docs reference bench clean

setup:
	python3 -m venv .venv
	.venv/bin/pip install -q -e '.[dev]'

check:
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/deptry .
	$(BIN)/pytest -q tests/project $(RUNS)

pages:
	$(BIN)/pytest -q tests/project/test_docs.py

test:
	$(BIN)/pytest -q

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

reference:
	$(BIN)/python docs/site/reference

bench: # make bench BENCH="--peers --scenarios chat loop"; `python -m benchmarks --help` tells the rest
	$(BIN)/python -m benchmarks $(BENCH)

clean:
	rm -rf build dist .venv .hypothesis .*_cache .coverage .coverage.* *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
