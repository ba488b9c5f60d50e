"""Runs the same load against this broker and RabbitMQ, and prints the results and their ratios.

Both brokers run all the time, and in every round of a load they are measured one after the other,
in alternating order, so that other work of the machine affects both. Idle connections and
declarations are measured first, once, while memory is fresh. The relay (relay.c) takes part where
it can: it shows what moving the bytes costs alone. Run `python -m tests.bench.run`; with `--before
TREE` the Leveret of another source tree takes turns with them, too, and with `--attach` running
brokers are measured instead.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from . import brokers, compare, generator, markdown, scenarios
from .brokers import Broker
from .cluster_runs import run_clusters
from .command_line import parse
from .load_runs import run_loads
from .loads import Load
from .neighbours import run_backlogs, run_neighbours
from .plan import Plan, chosen
from .report import show, write_json
from .samples import Results
from .singles import run_singles
from .stores import run_attached_stores, run_stores

WIDTH = 160


@contextlib.contextmanager
def running_brokers(
    options: argparse.Namespace, results: Results, *, is_traced: bool = False
) -> Iterator[list[Broker]]:
    """Run the brokers to measure, this project's first. is_traced: with the firehose on."""
    if options.attach:
        yield options.attach
        return
    with contextlib.ExitStack() as stack:
        found = [
            stack.enter_context(brokers.leveret(source, is_traced=is_traced))
            for source in options.sources
        ]
        if not options.without_rabbitmq:
            try:
                found.append(stack.enter_context(brokers.rabbitmq(is_traced=is_traced)))
            except brokers.BrokerFailed as error:
                results.notes.append(f"this broker ran alone: {error}")
        yield found


def _chosen_loads(options: argparse.Namespace, *, is_traced: bool) -> list[Load]:
    return [
        load
        for load in scenarios.LOADS
        if load.is_traced == is_traced and not load.is_clustered and chosen(load.name, options.only)
    ]


def _build_plan(options: argparse.Namespace, directory: Path) -> Plan:
    return Plan(
        generator.build(generator.SOURCE, directory / "load"),
        directory,
        options.seconds or (2 if options.quick else 4),
        0.5 if options.quick else 1,
        options.rounds or (1 if options.quick else 3),
    )


def _compare_generators(plan: Plan, options: argparse.Namespace, console: Console) -> None:
    other = generator.build(options.compare_generators, plan.directory / "other")
    timing = compare.Timing(plan.seconds, plan.warmup, plan.rounds)
    with brokers.leveret(options.sources[0]) as broker:
        console.print(compare.table(plan.program, other, broker, timing))


def _measure(plan: Plan, options: argparse.Namespace, results: Results) -> None:
    """Run all that is chosen."""
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(running_brokers(options, results))
        results.brokers = [broker.name for broker in running]
        relay = None
        if not options.without_bound:
            program = generator.build(generator.RELAY_SOURCE, plan.directory / "relay")
            relay = stack.enter_context(brokers.relay(program))
        run_singles(plan, options, running, results)
        run_loads(plan, _chosen_loads(options, is_traced=False), running, relay, results)
        everyone = [*running, relay] if relay else running
        run_neighbours(plan, options, everyone, results)
        run_attached_stores(options, running, results)
    traced = _chosen_loads(options, is_traced=True)
    if options.attach:
        results.notes.extend(f"{load.title}: needs nodes of its own" for load in traced)
        return
    if traced:
        with running_brokers(options, results, is_traced=True) as running:
            run_loads(plan, traced, running, None, results)
    run_backlogs(plan, options, results)
    run_stores(plan, options, results)
    run_clusters(plan, options, results)


def _leave(signal_number: int, frame: object) -> None:
    raise SystemExit(128 + signal_number)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark."""
    options = parse(arguments)
    if options.list:
        print("\n".join(f"{name:24} {title}" for name, title in scenarios.rows()))
        return 0
    # The brokers have sessions of their own and would survive if this process were just killed.
    signal.signal(signal.SIGTERM, _leave)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    results = Results([])
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        plan = _build_plan(options, Path(directory))
        if options.compare_generators:
            _compare_generators(plan, options, console)
            return 0
        _measure(plan, options, results)
    show(results, console)
    if options.markdown:
        options.markdown.write_text(markdown.table(results))
    if options.json:
        settings = {"seconds": plan.seconds, "warmup": plan.warmup, "rounds": plan.rounds}
        write_json(results, settings, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
