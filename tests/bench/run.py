"""Runs the same load against this broker and RabbitMQ, and prints the results and their ratios.

Both brokers run all the time, and in every round of a scenario they are measured one after the
other, in alternating order, so that other load on the machine affects both. Idle connections and
declarations are measured first, once, while memory is fresh. Run `python -m tests.bench.run`; with
`--attach` it measures running brokers instead of starting them.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from . import brokers, compare, generator, scenarios
from .brokers import Broker
from .measure import Watch, exact_resident_bytes, tree
from .plan import Plan, progress
from .report import MIB, LoadSample, Results, SingleSample, show, write_json
from .stores import run_attached_stores, run_stores

SETTLE_SECONDS = 0.5
LIMIT_SECONDS = 300


def measure_load(plan: Plan, scenario: scenarios.Load, broker: Broker) -> LoadSample:
    """Measure one round: at full speed, and then at the fixed rate."""
    with Watch(broker.pid) as watch:
        full = generator.run(plan.program, [*plan.common(broker), *scenario.arguments]).result
    time.sleep(SETTLE_SECONDS)
    paced_words = [*plan.common(broker), *scenario.paced_arguments]
    paced = generator.run(plan.program, paced_words).result
    latency = paced["latency_us"]
    return LoadSample(
        rate=full["consume_rate"],
        cpu_us=watch.cpu_seconds * 1e6 / max(1, full["consumed"]),
        p50_us=latency["p50"],
        p95_us=latency["p95"],
        p99_us=latency["p99"],
        p999_us=latency["p999"],
        peak_mib=watch.peak_bytes / MIB,
        paced_rate=paced["consume_rate"],
        drained=full["drained"],
    )


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
        if fnmatch.fnmatch(name, options.only):
            progress(title)
            results.singles[title] = {broker.name: measure(broker) for broker in running}


def run_loads(plan: Plan, only: str, running: list[Broker], results: Results) -> None:
    """Run the load scenarios; a failed round is reported and left out."""
    for scenario in scenarios.LOADS:
        if not fnmatch.fnmatch(scenario.name, only):
            continue
        samples: dict[str, list[LoadSample]] = {broker.name: [] for broker in running}
        for number in range(plan.rounds):
            progress(f"{scenario.title}, round {number + 1} of {plan.rounds}")
            for broker in running if number % 2 == 0 else reversed(running):
                try:
                    samples[broker.name].append(measure_load(plan, scenario, broker))
                except generator.GeneratorFailed as error:
                    results.notes.append(f"{broker.name}, {scenario.title}: {error}")
        if all(samples.values()):
            results.loads[scenario.title] = samples
            results.notes.extend(doubts(scenario, samples))


def doubts(scenario: scenarios.Load, samples: dict[str, list[LoadSample]]) -> Iterator[str]:
    """Return remarks on the reliability of a scenario's results."""
    for name, rounds in samples.items():
        slowest = min(sample.paced_rate for sample in rounds)
        if slowest < 0.97 * scenarios.LATENCY_RATE:
            yield f"{name}, {scenario.title}: took {slowest:,.0f}/s while latency was measured"
        if not all(sample.drained for sample in rounds):
            yield f"{name}, {scenario.title}: messages were left in the queue at the end"


@contextlib.contextmanager
def running_brokers(options: argparse.Namespace, results: Results) -> Iterator[list[Broker]]:
    """Run the brokers to measure, this project's first."""
    if options.attach:
        yield options.attach
        return
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(brokers.leveret(options.leveret_command))]
        if not options.without_rabbitmq:
            try:
                found.append(stack.enter_context(brokers.rabbitmq()))
            except brokers.BrokerFailed as error:
                results.notes.append(f"this broker ran alone: {error}")
        yield found


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, fewer queues")
    parser.add_argument("--seconds", type=float, help="length of one measurement (4; quick: 2)")
    parser.add_argument(
        "--rounds", type=int, help="rounds of which the median counts (3; quick: 1)"
    )
    parser.add_argument("--only", default="*", metavar="PATTERN", help="scenarios by name")
    parser.add_argument("--without-rabbitmq", action="store_true", help="this broker alone")
    parser.add_argument(
        "--leveret-command",
        type=shlex.split,
        metavar="COMMAND",
        help="what serves this broker; --bind, --port and so on are put behind it",
    )
    parser.add_argument(
        "--attach",
        action="append",
        type=brokers.attached,
        metavar="HOST:PORT:PID:NAME",
        help="measure a broker that runs already, and start none; repeatable",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument(
        "--compare-generators",
        type=Path,
        metavar="SOURCE",
        help="compare what this load generator costs with another, on the first broker",
    )
    return parser.parse_args(arguments)


def _leave(signal_number: int, frame: object) -> None:
    raise SystemExit(128 + signal_number)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark."""
    options = parse(arguments)
    # The brokers have sessions of their own and would survive if this process were just killed.
    signal.signal(signal.SIGTERM, _leave)
    console = Console(width=None if sys.stdout.isatty() else 120)
    results = Results([])
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        plan = Plan(
            generator.build(generator.SOURCE, Path(directory) / "load"),
            options.seconds or (2 if options.quick else 4),
            0.5 if options.quick else 1,
            options.rounds or (1 if options.quick else 3),
        )
        if options.compare_generators:
            options.without_rabbitmq = True
        with running_brokers(options, results) as running:
            results.brokers = [broker.name for broker in running]
            if options.compare_generators:
                other = generator.build(options.compare_generators, Path(directory) / "other")
                timing = compare.Timing(plan.seconds, plan.warmup, plan.rounds)
                console.print(compare.table(plan.program, other, running[0], timing))
                return 0
            run_singles(plan, options, running, results)
            run_loads(plan, options.only, running, results)
            run_attached_stores(plan, options, running, results)
        if not options.attach and not options.compare_generators:
            run_stores(plan, options, results)
    show(results, console)
    if options.json:
        settings = {"seconds": plan.seconds, "warmup": plan.warmup, "rounds": plan.rounds}
        write_json(results, settings, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
