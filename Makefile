# make run    run a broker on port 5672 with its data in ./data
# make test   run the test suite
# make lint   all other checks of CI
# make pictures  take the pictures of docs/management.md
# make bench  compare the broker with RabbitMQ (installs rabbitmq-server if permitted)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# All tests by default; use make test TESTS=tests/unit for some of them
TESTS ?= tests
JOBS ?= 2

.PHONY: run test lint format pictures bench clean

$(BIN)/leveret: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(BIN)/.test-ready: $(BIN)/leveret
	$(BIN)/pip install --quiet --editable '.[test]'
	touch $@

$(BIN)/.dev-ready: $(BIN)/.test-ready
	$(BIN)/pip install --quiet --editable '.[test,dev]'
	touch $@

run: $(BIN)/leveret
	$(BIN)/leveret serve --data-dir data

test: $(BIN)/.test-ready
	$(BIN)/python -m pytest -n $(JOBS) $(TESTS)

lint: $(BIN)/.dev-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(BIN)/.dev-ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pictures: $(BIN)/.test-ready
	$(BIN)/python -m tests.browser.pictures

bench: $(BIN)/.test-ready
	$(BIN)/python -m tests.bench.run

clean:
	rm -rf $(VENV) build dist *.egg-info
