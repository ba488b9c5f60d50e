"""Scenarios of durable messages without a steady load: backlogs, restarts, single confirms.

A backlog is measured on nodes of its own, with the same memory limit for both brokers, so that
both must page. The number of messages and the memory are recorded each second, which shows stalls
while paging. Restarts are measured for this broker only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pika

from . import brokers, generator, scenarios
from .brokers import HOST, Broker
from .measure import resident_bytes, tree
from .plan import Plan, chosen, progress
from .samples import MIB, Results, SingleSample

LIMIT = "--limit=600"
SYNCS = 300
CONFIRMS = 3000
BODY = 1024


def run_attached_stores(
    options: argparse.Namespace, running: list[Broker], results: Results
) -> None:
    """Run the scenarios that need no node of their own."""
    if chosen(scenarios.ONE_CONFIRM[0], options.only):
        for broker in running:
            progress(f"one confirm at a time, {broker.name}")
            add(results, "one confirm at a time, median", broker, confirm_us(broker), "us")
            # The speed of a disk varies, so it is measured together with each broker.
            add(results, "fdatasync of 1 KB, median, just then", broker, sync_us(), "us")


def add(results: Results, title: str, broker: Broker, value: float, unit: str) -> None:
    """Record a measurement."""
    results.singles.setdefault(title, {})[broker.name] = SingleSample(value, unit)


def confirm_us(broker: Broker) -> float:
    """Return the median time from a publish to its confirm, one at a time, on a plain socket."""
    parameters = pika.ConnectionParameters(broker.host, broker.port, heartbeat=0)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("one-confirm", durable=True)
    channel.confirm_delivery()
    name = b"one-confirm"
    method = b"\0\x3c\0\x28\0\0\0" + bytes((len(name),)) + name + b"\0"
    header = b"\0\x3c\0\0" + BODY.to_bytes(8, "big") + b"\x10\0\2"
    frames = b"".join(
        bytes((kind, 0, 1)) + len(payload).to_bytes(4, "big") + payload + b"\xce"
        for kind, payload in ((1, method), (2, header), (3, bytes(BODY)))
    )
    plain: socket.socket = connection._impl._transport._sock
    plain.setblocking(True)
    times = []
    for _ in range(CONFIRMS):
        started_at = time.perf_counter()
        plain.sendall(frames)
        left = 21
        while left:
            left -= len(plain.recv(left))
        times.append(time.perf_counter() - started_at)
    plain.setblocking(False)
    channel.queue_delete("one-confirm")
    connection.close()
    return statistics.median(times) * 1e6


def sync_us() -> float:
    """Return the median time to append a kilobyte to a file and sync it."""
    with tempfile.TemporaryFile(prefix="bench-") as file:
        times = []
        for number in range(SYNCS):
            started_at = time.perf_counter()
            os.pwrite(file.fileno(), bytes(BODY), number * BODY)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started_at)
    return statistics.median(times) * 1e6


# Nodes of their own


def run_stores(plan: Plan, options: argparse.Namespace, results: Results) -> None:
    """Run backlogs and restarts."""
    for backlog in scenarios.BACKLOGS:
        if chosen(backlog.name, options.only):
            count = backlog.messages // (scenarios.QUICK_SHARE if options.quick else 1)
            for started in nodes(options):
                with started as broker:
                    measure_backlog(plan, backlog, count, broker, results)
    if chosen(scenarios.RESTART[0], options.only):
        count = scenarios.BACKLOGS[0].messages // (scenarios.QUICK_SHARE if options.quick else 1)
        measure_restarts(plan, options, count, results)


def nodes(options: argparse.Namespace) -> Iterator[AbstractContextManager[Broker]]:
    """Return the brokers, with equal memory limits."""
    settings = f"vm_memory_high_watermark.absolute = {scenarios.BACKLOG_MEMORY}\n"
    for source in options.sources:
        yield brokers.leveret(source, settings)
    if not options.without_rabbitmq:
        yield brokers.rabbitmq(settings)


def measure_backlog(
    plan: Plan, backlog: scenarios.Backlog, count: int, broker: Broker, results: Results
) -> None:
    """Fill a queue, sampling each second, and empty it."""
    title = f"{backlog.title} of {count:,}"
    words = [*broker.address, "--durable", "--name=backlog", LIMIT, f"--count={count}"]
    words += ["--lazy"] if backlog.is_lazy else []
    filling = [str(plan.program), *words, "--window=1000", "--consumers=0", "--keep"]
    started_at = time.monotonic()
    with subprocess.Popen(filling, stdout=subprocess.DEVNULL) as process:
        rates, peak = watch_seconds(process, broker, title)
    seconds = time.monotonic() - started_at
    add(results, f"{title}: filling", broker, count / seconds, "msg/s")
    add(results, f"{title}: highest RSS", broker, peak / MIB, "MiB")
    if len(rates) > 3:
        share = 100 * min(rates[1:-1]) / statistics.median(rates[:3])
        add(results, f"{title}: slowest second, of the first three", broker, share, "%")
    emptying = [*words, "--publishers=0", "--consumers=1", "--ack-every=50"]
    done = generator.run(plan.program, emptying).result
    add(results, f"{title}: emptying", broker, done["consume_rate"], "msg/s")


def watch_seconds(
    process: subprocess.Popen[bytes], broker: Broker, title: str
) -> tuple[list[float], int]:
    """Return the messages of each second, and the maximum of memory."""
    pids = tree(broker.pid)
    rates: list[float] = []
    peak = before = 0
    parameters = pika.ConnectionParameters(broker.host, broker.port, heartbeat=0)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    last = time.monotonic()
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
        peak = max(peak, resident_bytes(pids))
        now = time.monotonic()
        if now - last < 1:
            continue
        count = channel.queue_declare("backlog-0", passive=True).method.message_count
        rates.append((count - before) / (now - last))
        progress(f"{title}, {broker.name}: {rates[-1]:,.0f}/s, {peak / MIB:,.0f} MiB at the most")
        last, before = now, count
    connection.close()
    return rates, peak


def measure_restarts(plan: Plan, options: argparse.Namespace, count: int, results: Results) -> None:
    """Measure the seconds until a killed node serves clients again."""
    for title, words in (
        (f"{count:,} messages", [f"--count={count}", "--window=1000"]),
        (
            f"{scenarios.RESTART_QUEUES:,} durable queues",
            [f"--count={scenarios.RESTART_QUEUES}", f"--queues={scenarios.RESTART_QUEUES}",
             "--window=100"],
        ),
    ):  # fmt: skip
        progress(f"restart with {title}")
        with tempfile.TemporaryDirectory(prefix="bench-leveret-") as directory:
            home = Path(directory) / "data"
            with brokers.leveret(options.sources[0], home=home) as broker:
                common = [*broker.address, "--durable", "--consumers=0", "--keep", LIMIT]
                generator.run(plan.program, [*common, "--name=kept", *words])
                for pid in tree(broker.pid):
                    os.kill(pid, signal.SIGKILL)
            started_at = time.monotonic()
            with brokers.leveret(options.sources[0], home=home) as broker:
                parameters = pika.ConnectionParameters(HOST, broker.port, heartbeat=0)
                connection = pika.BlockingConnection(parameters)
                connection.channel().queue_declare("kept-0", passive=True)
                seconds = time.monotonic() - started_at
                connection.close()
                add(results, f"served after a kill, with {title}", broker, seconds, "s")
