"""Brings a mirror the messages that were in its queue before it, while the queue goes on.

A queue without mirrors is filled. Then a policy gives it one mirror, which joins without the
messages, since the policy says that an operator asks for them. A probe (confirm_probe.py) publishes
to the queue all the time, at its leader; it gets a processor before other programs, as those in
neighbours.py do. What counts is how long it takes to bring the mirror everything, and how long
confirms take meanwhile. There are no consumers.

RabbitMQ's node says when synchronising began and ended, so that the start of its command line tool
is not part of that. Leveret is asked by its control socket whether its mirror has everything.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pika
from pika.adapters.blocking_connection import BlockingChannel

from leveret.mgmt.ctl.client import NodeClient

from . import brokers, generator, scenarios
from .brokers import HOST
from .clusters import Cluster, Node
from .loads import varied
from .neighbours import Generator
from .plan import Plan, progress
from .properties import encoded
from .samples import Results, SingleSample
from .verdicts import RABBITMQ

RATE_MIN = 40_000
"""Messages a second, of those that are brought."""
P99_MS_MAX = 50
LIMIT_SECONDS = 600
POLL_SECONDS = 0.02
JOIN_SECONDS = 60
PREFIX = "bench-synchronised"
ONE_MIRROR = {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "manual"}
LOAD = varied("synchronised", "varied, to nobody", consumers=0, window=1000)

Sample = tuple[float, float]
"""When a message was due, and microseconds until it was confirmed."""
Window = tuple[float, float]
"""From when until when, by the system's clock."""


class Control(Protocol):
    """How an operator reaches the node on which a queue is led."""

    def mirror(self, queue: str) -> None:
        """Set the policy that mirrors a queue."""

    def members(self, queue: str) -> tuple[int, int]:
        """Return how many mirrors a queue has, and how many of them have everything."""

    def synchronise(self, queue: str) -> Window:
        """Bring a queue's mirrors everything; return when that began and ended."""


@dataclass(frozen=True)
class LeveretControl:
    """Leveret, by its control socket."""

    node: Node

    @property
    def _client(self) -> NodeClient:
        data = self.node.home / "data"
        return NodeClient(data_dir=data, url="", username="", password="", timeout=LIMIT_SECONDS)

    def mirror(self, queue: str) -> None:
        """Set the policy that mirrors a queue."""
        policy = {"pattern": f"^{queue}$", "definition": ONE_MIRROR, "apply-to": "queues"}
        self._client.put("policies", "/", queue, body=policy)

    def members(self, queue: str) -> tuple[int, int]:
        """Return how many mirrors a queue has, and how many of them have everything."""
        columns = "slave_nodes,synchronised_slave_nodes"
        found = self._client.get("queues", "/", queue, columns=columns)
        return len(found.get("slave_nodes", ())), len(found.get("synchronised_slave_nodes", ()))

    def synchronise(self, queue: str) -> Window:
        """Bring a queue's mirrors everything; return when that began and ended."""
        since = time.time()
        self._client.post("queues", "/", queue, "actions", body={"action": "sync"})
        while self.members(queue) != (1, 1):
            if time.time() > since + LIMIT_SECONDS:
                raise generator.GeneratorFailed(f"{queue} was not synchronised")
            time.sleep(POLL_SECONDS)
        return since, time.time()


@dataclass(frozen=True)
class RabbitmqControl:
    """RabbitMQ, by its command line tool."""

    node: Node

    def _ctl(self, *words: str) -> str:
        program = brokers.find_rabbitmq().with_name("rabbitmqctl")
        command = [str(program), "--silent", f"--timeout={LIMIT_SECONDS}", *words]
        done = subprocess.run(
            command, env=self.node.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise generator.GeneratorFailed(f"rabbitmqctl {words[0]}: {done.stderr}{done.stdout}")
        return done.stdout

    def mirror(self, queue: str) -> None:
        """Set the policy that mirrors a queue."""
        policy = [queue, f"^{queue}$", json.dumps(ONE_MIRROR)]
        self._ctl("set_policy", "--apply-to=queues", *policy)

    def members(self, queue: str) -> tuple[int, int]:
        """Return how many mirrors a queue has, and how many of them have everything."""
        columns = ["name", "slave_pids", "synchronised_slave_pids"]
        listed = json.loads(self._ctl("list_queues", "--formatter=json", *columns))
        found: dict[str, Any] = next(one for one in listed if one["name"] == queue)
        return len(found["slave_pids"]), len(found["synchronised_slave_pids"])

    def synchronise(self, queue: str) -> Window:
        """Bring a queue's mirrors everything, as `rabbitmqctl sync_queue` does."""
        name = f'rabbit_misc:r(<<"/">>, queue, <<"{queue}">>)'
        call = f"ok = rabbit_mirror_queue_misc:sync_queue({name})"
        at = "os:system_time(microsecond)"
        return window_said(self._ctl("eval", f"Since = {at}, {call}, {{Since, {at}}}."))


def window_said(text: str) -> Window:
    """Return the two times that an Erlang node says, in microseconds."""
    since, until = re.findall(r"\d+", text)
    return int(since) / 1e6, int(until) / 1e6


def p99_ms(samples: Sequence[Sample], window: Window) -> float:
    """Return the p99 of the messages that were due in the window. Raises GeneratorFailed."""
    since, until = window
    waits = sorted(wait for due, wait in samples if since <= due < until)
    if not waits:
        raise generator.GeneratorFailed("no message was due in the time that is measured")
    return waits[math.ceil(len(waits) * 0.99) - 1] / 1000


def measure_synchronising(plan: Plan, cluster: Cluster, results: Results, count: int) -> None:
    """Measure the synchronising of a transient and of a durable queue."""
    home = cluster.nodes[-1]
    control = RabbitmqControl(home) if cluster.name == RABBITMQ else LeveretControl(home)
    for how in ("transient", "persistent"):
        progress(f"{scenarios.MIRRORED_SYNC[1]}, {how}, {cluster.name}")
        name = f"{PREFIX}-{how}"
        with _filled(plan, home, name, count, is_durable=how == "persistent") as queue:
            control.mirror(queue)
            _await_mirror(control, queue)
            words = ["--port", str(home.port), "--queue", queue]
            words += ["--durable"] if how == "persistent" else []
            command = [sys.executable, "-m", "tests.bench.confirm_probe", *words]
            probe = Generator(command, is_first=True)
            try:
                time.sleep(2 * plan.warmup + plan.seconds)
                asked_at = time.time()
                window = control.synchronise(queue)
            finally:
                probe.stop()
            _require_mirrors(control, queue, (1, 1))
        samples = probe.result["samples"]
        before = p99_ms(samples, (asked_at - plan.seconds, asked_at))
        record(results, cluster.name, how, count, window, (before, p99_ms(samples, window)))


def record(
    results: Results, broker: str, how: str, count: int, window: Window, waits: tuple[float, float]
) -> None:
    """Record a measurement. waits: the p99 of confirms before and meanwhile, in milliseconds."""
    since, until = window
    seconds = f"synchronising {count:,} messages of 1 KB, {how}"
    before = f"p99 of confirms before synchronising, {how}"
    meanwhile = f"p99 of confirms while synchronising, {how}"
    for title, value, unit in (
        (seconds, until - since, "s"),
        (before, waits[0], "ms"),
        (meanwhile, waits[1], "ms"),
    ):
        results.singles.setdefault(title, {})[broker] = SingleSample(value, unit)
    results.limits |= {seconds: count / RATE_MIN, meanwhile: P99_MS_MAX}


@contextmanager
def _filled(plan: Plan, home: Node, name: str, count: int, *, is_durable: bool) -> Iterator[str]:
    """Declare a queue on a node, fill it, and delete it at the end."""
    path = plan.directory / "synchronised-properties"
    path.write_bytes(encoded(LOAD.properties, is_durable))
    words = [f"--host={HOST}", f"--port={home.port}", f"--limit={LIMIT_SECONDS}"]
    words += [f"--name={name}", "--declared", f"--count={count}", f"--properties={path}"]
    queue = f"{name}-0"
    with _channel(home) as channel:
        channel.queue_declare(queue, durable=is_durable)
    try:
        generator.run(plan.program, [*words, *replace(LOAD, durable=is_durable).arguments])
        yield queue
    finally:
        with _channel(home) as channel:
            channel.queue_delete(queue)


@contextmanager
def _channel(home: Node) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.ConnectionParameters(HOST, home.port)) as connection:
        yield connection.channel()


def _await_mirror(control: Control, queue: str) -> None:
    """Wait until there is a mirror, and see that it lacks messages. Raises GeneratorFailed."""
    until = time.monotonic() + JOIN_SECONDS
    while not control.members(queue)[0] and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    _require_mirrors(control, queue, (1, 0))


def _require_mirrors(control: Control, queue: str, wanted: tuple[int, int]) -> None:
    if (found := control.members(queue)) != wanted:
        raise generator.GeneratorFailed(
            f"{queue} has {found[0]} mirrors, of which {found[1]} are synchronised, not {wanted}"
        )
