"""Measurements without a load: an idle connection's memory, and declarations."""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable

from . import generator, scenarios
from .brokers import Broker
from .measure import exact_resident_bytes, tree
from .plan import Plan, chosen, progress
from .samples import Results, SingleSample

SETTLE_SECONDS = 0.5
LIMIT_SECONDS = 300


def measure_idle(plan: Plan, scenario: scenarios.Idle, broker: Broker) -> SingleSample:
    """Measure the growth of memory while connections are open, divided by their number."""
    pids = tree(broker.pid)
    before = exact_resident_bytes(pids)
    words = [*broker.address, f"--idle={scenario.connections}", f"--limit={LIMIT_SECONDS}"]
    pipe = subprocess.PIPE
    with subprocess.Popen([str(plan.program), *words], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise generator.GeneratorFailed(f"{broker.name} did not take the idle connections")
        time.sleep(2 * SETTLE_SECONDS)
        grown = exact_resident_bytes(pids) - before
    time.sleep(SETTLE_SECONDS)
    return SingleSample(grown / 1024 / scenario.connections, "KiB")


def measure_declare(plan: Plan, scenario: scenarios.Declare, broker: Broker) -> SingleSample:
    """Measure the duration of the declarations in seconds."""
    words = [*broker.address, f"--declare={scenario.queues}", f"--limit={LIMIT_SECONDS}"]
    command = [str(plan.program), *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise generator.GeneratorFailed(f"{broker.name} did not declare the queues")
    return SingleSample(float(json.loads(done.stdout)["seconds"]), "s")


def run_singles(
    plan: Plan, options: argparse.Namespace, running: list[Broker], results: Results
) -> None:
    """Run the scenarios of idle connections and declarations."""
    idle = scenarios.IDLE
    declare = scenarios.QUICK_DECLARE if options.quick else scenarios.DECLARE
    steps: list[tuple[str, str, Callable[[Broker], SingleSample]]] = [
        (
            idle.name,
            f"{idle.title} (of {idle.connections:,})",
            lambda at: measure_idle(plan, idle, at),
        ),
        (
            declare.name,
            f"{declare.queues:,} {declare.title}",
            lambda at: measure_declare(plan, declare, at),
        ),
    ]
    for name, title, measure in steps:
        if chosen(name, options.only):
            progress(title)
            results.singles[title] = {broker.name: measure(broker) for broker in running}
