"""Runs the loads, broker by broker in turns, and collects samples.

In every round of a load the brokers are measured one after the other, in alternating order, so
that other work of the machine affects all. A load that a broker cannot do, or that fails, becomes
a note.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pika

from . import generator
from .brokers import Broker
from .loads import LATENCY_RATE, Load
from .measure import Watch
from .plan import Plan, progress
from .properties import encoded
from .samples import MIB, LoadSample, Results
from .topologies import Addresses, declared

SETTLE_SECONDS = 0.5
RELAY = "relay"


def _written(plan: Plan, name: str, content: bytes) -> Path:
    path = plan.directory / name
    path.write_bytes(content)
    return path


def _form_words(plan: Plan, load: Load, addresses: Addresses | None) -> list[str]:
    """Write the files of addresses and properties; return them as options."""
    words = []
    if load.properties:
        path = _written(plan, "properties", encoded(load.properties, load.durable))
        words.append(f"--properties={path}")
    if addresses is not None:
        lines = "".join(f"{exchange}\t{key}\n" for exchange, key in addresses)
        words.append(f"--addresses={_written(plan, 'addresses', lines.encode())}")
    return words


def _sample(full: dict[str, Any], paced: dict[str, Any], load: Load, watch: Watch) -> LoadSample:
    counted = "consumed" if load.copies else "published"
    at_rate, at_full = paced["latency_us"], full["latency_us"]
    return LoadSample(
        publish_rate=full["publish_rate"],
        rate=full["consume_rate"] if load.copies else full["publish_rate"],
        delivered=full["delivered"],
        cpu_us=watch.cpu_seconds * 1e6 / max(1, full[counted]),
        p50_us=at_rate["p50"],
        p95_us=at_rate["p95"],
        p99_us=at_rate["p99"],
        p999_us=at_rate["p999"],
        full_p99_us=at_full["p99"],
        peak_mib=watch.peak_bytes / MIB,
        paced_rate=paced["consume_rate"],
        drained=full["drained"] or not load.copies,
        generator_cpu_us=full["generator_cpu_seconds"] * 1e6 / max(1, full[counted]),
    )


@contextlib.contextmanager
def _prepared(plan: Plan, load: Load, broker: Broker) -> Iterator[tuple[list[str], Any]]:
    """Declare the topology; give the generator's options, and what purges the queues."""
    common = plan.common(broker.home if load.is_at_queue else broker, tls=load.tls)
    if not load.topology:
        yield [*common, *_form_words(plan, load, None)], lambda: None
        return
    name = f"bench-{load.name}"
    with declared(load, broker.home, name) as (objects, addresses):
        words = _form_words(plan, load, addresses)
        yield [*common, *words, "--declared", f"--name={name}"], objects.purge


def measure_load(plan: Plan, load: Load, broker: Broker) -> LoadSample:
    """Measure one round: at full speed, and then at the fixed rate."""
    if load.tls and not broker.tls_port:
        raise generator.GeneratorFailed("no TLS listener")
    with _prepared(plan, load, broker) as (common, purge):
        with Watch(*broker.pids) as watch:
            full = generator.run(plan.program, [*common, *load.arguments]).result
        paced = full
        if load.is_paced_apart:
            time.sleep(SETTLE_SECONDS)
            purge()
            paced = generator.run(plan.program, [*common, *load.paced_arguments]).result
    return _sample(full, paced, load, watch)


def run_loads(
    plan: Plan, loads: Iterable[Load], running: list[Broker], relay: Broker | None, results: Results
) -> None:
    """Run the loads; the relay takes part in those that it can do."""
    for load in loads:
        brokers = [*running, relay] if relay and load.has_bound else running
        samples: dict[str, list[LoadSample]] = {broker.name: [] for broker in brokers}
        for number in range(plan.rounds):
            progress(f"{load.title}, round {number + 1} of {plan.rounds}")
            for broker in brokers if number % 2 == 0 else reversed(brokers):
                chosen = replace(load, durable=False) if broker is relay else load
                try:
                    samples[broker.name].append(measure_load(plan, chosen, broker))
                except (generator.GeneratorFailed, pika.exceptions.AMQPError) as error:
                    results.notes.append(f"{broker.name}, {load.title}: {error!r}")
        done = {name: rounds for name, rounds in samples.items() if rounds}
        if done:
            results.loads[load.title] = done
            results.targets[load.title] = load.target
            results.notes.extend(_doubts(load, done))


def _doubts(load: Load, samples: dict[str, list[LoadSample]]) -> Iterator[str]:
    """Return remarks on the reliability of a load's results."""
    wanted = load.rate or LATENCY_RATE
    for name, rounds in samples.items():
        slowest = min(sample.paced_rate for sample in rounds)
        if load.copies and slowest < 0.97 * wanted:
            yield f"{name}, {load.title}: took {slowest:,.0f}/s while latency was measured"
        if not all(sample.drained for sample in rounds):
            yield f"{name}, {load.title}: messages were left in the queue at the end"
