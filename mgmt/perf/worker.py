"""A worker process: some of the producers and consumers, and a report each interval.

It is given its task as JSON on the standard input, and writes a line of JSON for each report to the
standard output: totals since the last one, and the latencies of that time.
"""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import uvloop
from pamqp import commands

from mgmt.perf.connection import Connection, PerfError, connect
from mgmt.perf.consumer import Consumer
from mgmt.perf.histogram import Histogram
from mgmt.perf.options import Options
from mgmt.perf.producer import Producer
from mgmt.views.values import json_to_table

DRAIN_SECONDS = 2.0


class Worker:
    """What one process does. producers, consumers: the numbers of those that are its own."""

    def __init__(self, options: Options, producers: list[int], consumers: list[int]) -> None:
        self._options = options
        self._producer_numbers = producers
        self._consumer_numbers = consumers
        self._connections: list[Connection] = []
        self._producers: list[Producer] = []
        self._consumers: list[Consumer] = []
        self._reported = dict.fromkeys(COUNTS, 0)
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Connect, wait for the word to begin, work, and stop. Raises PerfError."""
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(signal_number, self._stop.set)
        await self._open()
        _say({"ready": True})
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        for number, producer in enumerate(self._producers):
            producer.start()
            if self._options.slow_start and number < len(self._producers) - 1:
                await asyncio.sleep(1)
        reports = asyncio.create_task(self._report())
        try:
            await self._work()
        finally:
            reports.cancel()
            self._report_once(is_last=True)
            for connection in self._connections:
                await connection.close()

    async def _open(self) -> None:
        queues = self._options.queues()
        bodies = _bodies(self._options)
        for number in self._consumer_numbers:
            connection = await self._connect()
            mine = queues[number % len(queues) :: max(1, self._options.consumers)] or [
                queues[number % len(queues)]
            ]
            for channel in range(1, self._options.consumer_channels + 1):
                consumer = Consumer(connection, channel, mine, self._options)
                await consumer.open()
                self._consumers.append(consumer)
        for number in self._producer_numbers:
            connection = await self._connect()
            for channel in range(1, self._options.producer_channels + 1):
                key = self._options.routing_key or queues[number % len(queues)]
                producer = Producer(connection, channel, key, bodies, self._options)
                await producer.open()
                self._producers.append(producer)

    async def _connect(self) -> Connection:
        connection = await connect(self._options.uri)
        self._connections.append(connection)
        return connection

    async def _work(self) -> None:
        """Until the time is over, all is done, somebody says so, or a connection fails."""
        options = self._options
        ends: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._stop.wait())]
        if options.time:
            ends.append(asyncio.ensure_future(asyncio.sleep(options.time)))
        counted = [one.done for one in self._producers if options.pmessages]
        counted += [one.done for one in self._consumers if options.cmessages]
        if counted:
            ends.append(asyncio.ensure_future(asyncio.wait(counted)))
        closed = [connection.closed for connection in self._connections]
        await asyncio.wait([*ends, *closed], return_when=asyncio.FIRST_COMPLETED)
        for producer in self._producers:
            producer.stop()
        if options.confirm and self._producers:
            settled = [producer.done for producer in self._producers]
            await asyncio.wait([*settled], timeout=options.confirm_timeout)
        if self._consumers and not options.cmessages:
            await self._drain()
        for consumer in self._consumers:
            consumer.stop()
        failures = [one.failure for one in self._connections if one.failure is not None]
        if failures:
            raise failures[0]

    async def _drain(self) -> None:
        """What is on its way comes in, unless it is very much."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DRAIN_SECONDS
        received = -1
        while loop.time() < deadline and received != self._received():
            received = self._received()
            await asyncio.sleep(0.1)

    def _received(self) -> int:
        return sum(consumer.received for consumer in self._consumers)

    # Reports

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self._options.interval)
            self._report_once(is_last=False)

    def _report_once(self, *, is_last: bool) -> None:
        now = {
            "sent": sum(one.sent for one in self._producers),
            "confirmed": sum(one.confirmed for one in self._producers),
            "nacked": sum(one.nacked for one in self._producers),
            "returned": sum(one.returned for one in self._producers),
            "received": self._received(),
        }
        report: dict[str, Any] = {name: now[name] - self._reported[name] for name in COUNTS}
        self._reported = now
        report["latency"] = _taken(self._consumers).to_json()
        report["confirm_latency"] = _taken(self._producers).to_json()
        report["last"] = is_last
        _say(report)


COUNTS = ("sent", "confirmed", "nacked", "returned", "received")


def _taken(ones: list[Producer] | list[Consumer]) -> Histogram:
    """Latencies since the last report."""
    merged = Histogram()
    for one in ones:
        merged.merge(one.latencies)
        one.latencies = Histogram()
    return merged


def _bodies(options: Options) -> list[bytes]:
    if options.body:
        return [Path(name).read_bytes() for name in options.body]
    return [bytes(options.size)]


def _say(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


async def declare(options: Options) -> None:
    """Make the exchange, the queues and their bindings. Raises PerfError."""
    connection = await connect(options.uri)
    call = connection.call
    await call(1, commands.Channel.Open)
    if options.exchange and not options.exchange.startswith("amq."):
        await call(
            1, commands.Exchange.Declare, exchange=options.exchange, exchange_type=options.type,
            durable=options.persistent,
        )  # fmt: skip
    for queue in options.queues():
        await call(
            1, commands.Queue.Declare, queue=queue, durable=options.persistent,
            auto_delete=options.auto_delete and not options.persistent,
            arguments=json_to_table(options.queue_args),
        )  # fmt: skip
        if options.exchange:
            await call(
                1, commands.Queue.Bind, queue=queue, exchange=options.exchange,
                routing_key=options.routing_key or queue, arguments={},
            )  # fmt: skip
    await connection.close()


def main() -> int:
    """Do what the standard input says."""
    task = json.loads(sys.stdin.readline())
    options = Options(**task["options"])
    try:
        uvloop.run(_run(options, task["producers"], task["consumers"]))
    except PerfError as error:
        _say({"error": str(error)})
        return 1
    except OSError as error:
        _say({"error": f"{error.filename}: {error.strerror}"})
        return 1
    return 0


async def _run(options: Options, producers: list[int], consumers: list[int]) -> None:
    await Worker(options, producers, consumers).run()


if __name__ == "__main__":
    sys.exit(main())
