# make run    run a broker on port 5672 with its data in ./data; the first start is in pure Python
# make cluster   run three nodes as a cluster on ports 5672 to 5674, with their data in ./cluster-data
# make test   run the test suite, on the compiled message path and on pure Python
# make test-long   run those of its tests that have random seeds or kills with many more of them
# make test-interop   run the tests that start a real RabbitMQ, if rabbitmq-server is installed
# make lint   all other checks of CI
# make compile   compile the message path, if there is a C compiler; run does it in the background
# make pictures  take the pictures of docs/operate/management.md
# make fuzz   feed mutated frames and records to a build with the address sanitizer; SEED, FRAMES
#             and RECORDS say which and how many
# make sim    run the simulated cluster; SEEDS says how many runs, FIRST with which one to begin
# make jepsen  use replicated queues of a real cluster while its nodes fail; MINUTES, SEED, MODE,
#             NODES and QUEUES say for how long and how (needs root)
# make sim-ring   run the simulated ring of guaranteed multicast, in the same way
# make sim-raft   run the simulated group of a quorum queue, in the same way
# make sim-quorum  run the simulated quorum queue with its clients, in the same way
# make sim-retained  run the simulated copies of retained messages, in the same way
# make sim-qos2  run the simulated QoS 2 of MQTT with crashes, in the same way
# make sim-stream  run the simulated stream with its clients, in the same way
# make wheels  build a wheel for each Python that is supported (needs Docker or Podman)
# make deb    build a Debian package, for the Python of this system
# make bench  compare the broker with RabbitMQ (installs rabbitmq-server if permitted)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# All tests by default; use make test TESTS=tests/unit for some of them
TESTS ?= tests
# Left out of the parts that `make test` runs in pure Python, too (tests/pure_parts.toml).
NOT_PURE := $(addprefix tests/unit/cluster/quorum/,conversion groups queue_groups)
# What counts the calls that Python makes in a turn is tested in pure Python only: compiled functions
# make none.
NOT_COMPILED := tests/protocol/test_long_turns*.py tests/protocol/test_long_routes.py \
    tests/protocol/test_mqtt_floods.py
# All tests run as the parts that tests/parts.toml lists, and some of them in so many workers: half of
# the time, tests wait for processes and disks. A worker without tests takes those of another one:
# the slow tests of a directory do not all wait for one.
JOBS ?= 8
PARTS := $(if $(filter tests,$(TESTS)),--parts tests/parts.toml,-n $(JOBS) $(TESTS))
PURE_PARTS := $(if $(filter tests,$(TESTS)),--parts tests/pure_parts.toml,-n $(JOBS) $(TESTS))
# A test that fails is run again alone, and is added to this file if it passes (tests/run.py).
FLAKY := build/flaky.txt
PYTEST := $(BIN)/python -m tests.run --flaky $(FLAKY) --dist worksteal
FRAMES ?= 1000000
RECORDS ?= 1000000
SEED ?= 1
SEEDS ?= 10000
FIRST ?= 1
MINUTES ?= 5
MODE ?= pause_minority
NODES ?= 3
QUEUES ?= mirrored

.PHONY: run cluster compile test test-pure test-compiled test-long test-interop sim sim-ring sim-raft sim-quorum sim-retained sim-qos2 sim-stream jepsen fuzz lint format pictures wheels deb bench clean

# Sources are compiled in place (setup.py), with the packages that pyproject.toml requires.
BUILD_REQUIRES := import tomllib; \
    print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'], sep='\n')
SOURCES := setup.py mypyc.ini pyproject.toml $(shell find broker cluster storage -name '*.py')
# A module is compiled when it is first imported, and most of what is installed never is. Nothing is
# built apart from $(VENV): it has what building needs, which would be installed once more each time.
PIP := $(BIN)/pip install -qq --no-compile
INSTALL := LEVERET_BUILD=pure $(PIP) --no-build-isolation --editable

$(BIN)/.installed: pyproject.toml
	@echo "Installing Leveret and what it needs in $(VENV), which takes about 15 s"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c "$(BUILD_REQUIRES)" | $(PIP) --requirement /dev/stdin
	@$(INSTALL) .
	@touch $@

# What tests and checks need does not replace what compiling needs, so both may go on at a time. The
# installed Leveret names it.
$(BIN)/.test-ready: $(BIN)/.installed
	@echo "Installing what tests and checks need in $(VENV), which takes about 30 s"
	@$(PIP) 'leveret[test,dev]'
	@touch $@

$(BIN)/.compiled: $(BIN)/.installed $(SOURCES)
	@echo "Compiling the message path, which takes one to two minutes"
	@find -L leveret -name '*.so' -delete
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

# `make run` compiles in the background. Another call waits for it, and finds everything compiled.
compile: $(BIN)/.installed
	@mkdir -p build
	@flock build/compile.lock $(MAKE) --no-print-directory $(BIN)/.compiled

# $(call start,COMMAND): it starts in seconds, and is compiled for the next start, also if this one
# ends before.
start = if $(MAKE) --no-print-directory --question $(BIN)/.compiled; then exec $(1); fi; \
	mkdir -p build; \
	echo "This start is in pure Python. The message path is compiled in the background for the" \
	    "next one, in two to three minutes (build/compile.log)."; \
	setsid nice $(MAKE) --no-print-directory compile < /dev/null > build/compile.log 2>&1 & \
	LEVERET_PURE=1 exec $(1)

run: $(BIN)/.installed
	@$(call start,$(BIN)/leveret serve --data-dir data)

cluster: $(BIN)/.installed
	@$(call start,$(BIN)/python -m leveret.mgmt.cli.local_cluster cluster-data)

test: test-pure test-compiled

test-compiled: $(BIN)/.test-ready compile
	$(PYTEST) -m 'not interop' $(if $(filter tests,$(TESTS)),$(addprefix --ignore-glob=,$(NOT_COMPILED))) $(PARTS)

# The first import of a test rewrites its assertions, and compiles it and what it imports. Workers that
# start together would each do so, which takes twice as long as an import.
test-pure: $(BIN)/.test-ready
	$(if $(filter tests,$(TESTS)),@LEVERET_PURE=1 $(BIN)/python -m pytest --collect-only -qq tests > /dev/null || true)
	LEVERET_PURE=1 $(PYTEST) -m 'not interop' $(addprefix --ignore=,$(NOT_PURE)) $(PURE_PARTS)

test-long: $(BIN)/.test-ready compile
	LEVERET_STORE_SEEDS=100 LEVERET_STORE_FAULTS=all LEVERET_CRASH_ROUNDS=30 \
	    LEVERET_MIRROR_SEEDS=1000 LEVERET_FALLING_LINKS_SEEDS=1000 $(BIN)/python -m pytest \
	    -n $(JOBS) --dist worksteal tests/storage tests/crash tests/unit/cluster/mirrors

test-interop: $(BIN)/.test-ready compile
	$(PYTEST) -n $(JOBS) -m interop $(TESTS)

lint: $(BIN)/.test-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(BIN)/.test-ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pictures: $(BIN)/.test-ready
	$(BIN)/python -m tests.browser.pictures

fuzz: $(BIN)/.test-ready compile
	$(BIN)/python -m tests.fuzz.sanitized --frames $(FRAMES) --records $(RECORDS) --seed $(SEED)

sim: $(BIN)/.test-ready
	$(BIN)/python -m tests.sim.scenario --seeds $(SEEDS) --first $(FIRST)

sim-ring: $(BIN)/.test-ready
	$(BIN)/python -m tests.sim.ring_scenario --seeds $(SEEDS) --first $(FIRST)

sim-raft: $(BIN)/.test-ready
	$(BIN)/python -m tests.sim.raft_scenario --seeds $(SEEDS) --first $(FIRST) --least 1

sim-quorum: $(BIN)/.test-ready
	$(BIN)/python -m tests.sim.quorum_scenario --seeds $(SEEDS) --first $(FIRST) --least 1

sim-retained: $(BIN)/.test-ready
	$(BIN)/python -m tests.sim.retained_scenario --seeds $(SEEDS) --first $(FIRST)

sim-qos2: $(BIN)/.test-ready
	$(BIN)/python -m tests.sim.exactly_once_scenario --seeds $(SEEDS) --first $(FIRST)

sim-stream: $(BIN)/.test-ready
	$(BIN)/python -m tests.sim.stream_scenario --seeds $(SEEDS) --first $(FIRST) --least 1

jepsen: $(BIN)/.test-ready compile
	$(BIN)/python -m tests.jepsen.run --minutes $(MINUTES) --seed $(SEED) --mode $(MODE) --nodes $(NODES) \
	    --queues $(QUEUES)

# Built in containers with an old glibc, from a source distribution: neither modules that were compiled
# here nor this environment get there. CIBW_CONTAINER_ENGINE names another program than Docker.
CIBW_CONTAINER_ENGINE ?= $(if $(shell command -v docker),docker,podman)
export CIBW_CONTAINER_ENGINE

wheels:
	@$(firstword $(subst ;, ,$(CIBW_CONTAINER_ENGINE))) info > /dev/null || { echo "make wheels builds in containers:" \
	    "start Docker or Podman, or name it in CIBW_CONTAINER_ENGINE" >&2; exit 1; }
	@$(PYTHON) -m venv build/wheels
	@build/wheels/bin/pip install -qq 'cibuildwheel>=3.3,<4' build
	@rm -rf build/sdist
	build/wheels/bin/python -m build --sdist --outdir build/sdist
	build/wheels/bin/cibuildwheel --platform linux --output-dir dist build/sdist/*.tar.gz

deb: $(BIN)/.installed
	sh debian/build $(BIN)/python

bench: $(BIN)/.test-ready compile
	$(BIN)/python -m tests.bench.run
	$(BIN)/python -m tests.bench.stream_figures
	$(BIN)/python -m tests.bench.mqtt_figures
	$(BIN)/python -m tests.bench.stomp_figures

clean:
	rm -rf $(VENV) build dist *.egg-info
	find -L leveret -name '*.so' -delete
