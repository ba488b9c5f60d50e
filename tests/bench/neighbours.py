"""One connection beside another: how the traffic of one affects the latency of the other.

A probe is a generator with a queue of its own, a low rate and messages as programs send them, that
runs until it is told to stop. It gets a processor before all other programs, so that what is
measured is the wait for the broker and not for the busy generator (as root; otherwise that is part
of it). `busy-neighbour`: the probe alone, then beside a connection that publishes and consumes at
full speed. `backlog-ids`: on nodes of their own, beside a million messages, each with an id and
headers of its own, that are published to one queue and then consumed; with Leveret's longest
pause, which is the longest turn of its event loop by its metrics.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

from . import brokers, generator, scenarios
from .brokers import Broker
from .loads import varied
from .measure import Watch
from .plan import Plan, chosen, progress
from .properties import encoded
from .samples import MIB, Results, SingleSample

PROBE_RATE = 500
LIMIT = "--limit=600"
BACKLOG_MESSAGES = 1_000_000
RATIO_MAX = 2
PAUSE_MS_MAX = 20
LONGEST_TURN = "rabbitmq_event_loop_longest_turn_seconds"
LOAD = varied("neighbour", "varied, auto-ack")


def add(results: Results, title: str, broker: Broker, value: float, unit: str) -> None:
    """Record a measurement."""
    results.singles.setdefault(title, {})[broker.name] = SingleSample(value, unit)


def _words(plan: Plan, broker: Broker) -> list[str]:
    path = plan.directory / "neighbour-properties"
    path.write_bytes(encoded("varied", False))
    sizes = [f"--size={LOAD.size}", f"--vary={LOAD.vary}", LIMIT]
    return [*broker.address, *sizes, f"--properties={path}"]


class Generator:
    """A generator that runs until it is stopped. result: what it printed.

    is_first: it gets a processor whenever it wants one, if the system permits that.
    """

    def __init__(self, command: list[str], *, is_first: bool) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        if is_first:
            with contextlib.suppress(PermissionError):
                os.sched_setscheduler(self._process.pid, os.SCHED_RR, os.sched_param(1))
        self.result: dict[str, Any] = {}

    def stop(self) -> None:
        """End its measurement."""
        self._process.send_signal(signal.SIGTERM)
        output, _ = self._process.communicate()
        if self._process.returncode:
            raise generator.GeneratorFailed(f"status {self._process.returncode}")
        self.result = json.loads(output)


@contextlib.contextmanager
def _running(
    plan: Plan, broker: Broker, *words: str, is_first: bool = False
) -> Iterator[Generator]:
    timing = ["--seconds=600", f"--warmup={plan.warmup}", "--auto-ack"]
    command = [str(plan.program), *_words(plan, broker), *timing, *words]
    running = Generator(command, is_first=is_first)
    try:
        yield running
    finally:
        running.stop()


def _probe(plan: Plan, broker: Broker) -> contextlib.AbstractContextManager[Generator]:
    words = [f"--rate={PROBE_RATE}", "--spaced", "--burst=1"]
    return _running(plan, broker, *words, is_first=True)


def run_neighbours(
    plan: Plan, options: argparse.Namespace, running: list[Broker], results: Results
) -> None:
    """Measure the p99 of a quiet connection, alone and beside a busy one.

    The relay shows what the generators' share of two processors does to it.
    """
    if not chosen(scenarios.BUSY_NEIGHBOUR[0], options.only):
        return
    for broker in running:
        progress(f"a busy connection beside a quiet one, {broker.name}")
        with _probe(plan, broker) as alone:
            time.sleep(plan.warmup + plan.seconds)
        with _running(plan, broker), _probe(plan, broker) as beside:
            time.sleep(plan.warmup + plan.seconds)
        before, after = (probe.result["latency_us"]["p99"] for probe in (alone, beside))
        add(results, "p99 of a quiet connection, alone", broker, before, "us")
        add(results, "p99 of a quiet connection, beside a busy one", broker, after, "us")
        title = "p99 of a quiet connection, beside a busy one to alone"
        add(results, title, broker, after / max(before, 1), "times")
        results.limits[title] = RATIO_MAX


def run_backlogs(plan: Plan, options: argparse.Namespace, results: Results) -> None:
    """Measure backlogs of messages with ids of their own."""
    if not chosen(scenarios.BACKLOG_IDS[0], options.only):
        return
    count = BACKLOG_MESSAGES // (scenarios.QUICK_SHARE if options.quick else 1)
    nodes: list[contextlib.AbstractContextManager[Broker]] = [
        brokers.leveret(source, has_metrics=True) for source in options.sources
    ]
    if not options.without_rabbitmq:
        nodes.append(brokers.rabbitmq())
    for node in nodes:
        with node as broker:
            _measure_backlog(plan, broker, count, results)


def _measure_backlog(plan: Plan, broker: Broker, count: int, results: Results) -> None:
    title = f"a backlog of {count:,} with ids of their own"
    words = [*_words(plan, broker), f"--count={count}", "--name=backlog-ids"]
    filling = [*words, "--window=1000", "--consumers=0", "--keep"]
    emptying = [*words, "--publishers=0", "--auto-ack"]
    for phase, arguments in (("filling", filling), ("emptying", emptying)):
        progress(f"{title}, {phase}, {broker.name}")
        with _probe(plan, broker) as probe, Watch(broker.pid) as watch:
            time.sleep(plan.warmup + 0.2)  # what the probe's warm-up has is not measured
            done = generator.run(plan.program, arguments).result
        name = f"{title}, {phase}"
        rate = done["publish_rate"] if phase == "filling" else done["consume_rate"]
        add(results, name, broker, rate, "msg/s")
        add(results, f"{name}: highest RSS", broker, watch.peak_bytes / MIB, "MiB")
        waits = probe.result["latency_us"]
        add(results, f"{name}: p99 of other traffic", broker, waits["p99"], "us")
        add(results, f"{name}: longest wait of other traffic", broker, waits["longest"], "us")
        if broker.metrics_port:
            pause = f"{name}: longest pause of more than 20 ms until then"
            add(results, pause, broker, _longest_turn_ms(broker), "ms")
            results.limits[pause] = PAUSE_MS_MAX


def _longest_turn_ms(broker: Broker) -> float:
    """Return the longest turn of the event loop since the start, in milliseconds of CPU time."""
    address = f"http://{broker.host}:{broker.metrics_port}/metrics"
    with urllib.request.urlopen(address, timeout=30) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(LONGEST_TURN):
                return float(line.split()[-1]) * 1000
    raise generator.GeneratorFailed(f"{broker.name} has no {LONGEST_TURN}")
