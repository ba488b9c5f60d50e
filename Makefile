# make run    a broker on port 5672, its data in ./data
# make test   the test suite
# make lint   what CI checks beside the tests
# make bench  the broker and RabbitMQ side by side (installs rabbitmq-server if it may)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Set by CI to leave out nothing; a run at home may say make test TESTS=tests/unit
TESTS ?= tests
JOBS ?= 2

.PHONY: run test lint format bench clean

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

bench: $(BIN)/.test-ready
	$(BIN)/python -m tests.bench.run

clean:
	rm -rf $(VENV) build dist *.egg-info
