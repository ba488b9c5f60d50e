"""A worker process: some of the producers and consumers, one connection each.

Standard input carries its task as a line of JSON, and then one command per line:

- consume: start the consumers; answered with `consuming`.
- publish: start the producers.
- report: answered with a `report`, the counts since the last one.
- settle: stop publishing, and wait for open messages; answered with `settled`.
- finish: wait until no more messages arrive, send a last report and exit.

Standard output carries lines of JSON, each with its kind. Besides the answers these are `ready`
when all connections are open, `done` when its clients have reached their number of messages,
`notice` for the user, and `failed` with the reason why it ended.
"""

import asyncio
import json
import sys
import time
from collections.abc import Coroutine
from typing import Any

import uvloop

from leveret.mgmt.perf.bodies import bodies_of
from leveret.mgmt.perf.connection import PerfConnection, PerfError, connect
from leveret.mgmt.perf.consumer import PerfConsumer
from leveret.mgmt.perf.counts import NUMBERS, PerfCounts
from leveret.mgmt.perf.histogram import LatencyHistogram
from leveret.mgmt.perf.options import PerfOptions
from leveret.mgmt.perf.producer import Producer
from leveret.mgmt.perf.topology import key_of_producer, queues_of_consumer

LINE_BYTES_MAX = 64 * 1024 * 1024
WATCH_SECONDS = 0.2
QUIET_SECONDS = 0.5


class PerfWorker:
    """The work of one process. producers, consumers: the numbers of its clients."""

    def __init__(self, options: PerfOptions, producers: list[int], consumers: list[int]) -> None:
        self._options = options
        self._producer_numbers = producers
        self._consumer_numbers = consumers
        self._connections: list[PerfConnection] = []
        self._producers: list[Producer] = []
        self._consumers: list[PerfConsumer] = []
        self._consumer_delays: list[float] = []
        self._reported = dict.fromkeys(NUMBERS, 0)
        self._reported_cpu_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, words: asyncio.StreamReader) -> None:
        """Execute the commands until the end. Raises PerfError."""
        await self._open()
        say("ready")
        self._spawn(self._obey(words))
        self._spawn(self._watch())
        try:
            await self._outcome
        finally:
            for task in self._tasks:
                task.cancel()
            self._report()
        for connection in self._connections:
            await connection.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task whose failure is the worker's failure."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not self._outcome.done():
            self._outcome.set_exception(error)

    async def _obey(self, words: asyncio.StreamReader) -> None:
        while True:
            match (await words.readline()).decode().strip():
                case "consume":
                    self._spawn(self._consume())
                case "publish":
                    self._publish()
                case "report":
                    self._report()
                case "settle":
                    self._spawn(self._settle())
                case "finish":
                    self._spawn(self._finish())
                case "":
                    # The process that started this worker is gone.
                    self._end()
                    return

    def _end(self) -> None:
        if not self._outcome.done():
            self._outcome.set_result(None)

    # Opening

    async def _open(self) -> None:
        options = self._options
        bodies = bodies_of(options) if self._producer_numbers else []
        for number in self._consumer_numbers:
            await self._open_consumers(number, await self._connect("consumer", number))
        for number in self._producer_numbers:
            connection = await self._connect("producer", number)
            for channel in range(options.producer_channels):
                key = key_of_producer(options, number * options.producer_channels + channel)
                producer = Producer(connection, key, bodies, options)
                await producer.open()
                self._producers.append(producer)

    async def _open_consumers(self, number: int, connection: PerfConnection) -> None:
        options = self._options
        for channel in range(options.consumer_channels):
            place = number * options.consumer_channels + channel
            consumer = PerfConsumer(connection, queues_of_consumer(options, place), options)
            await consumer.open()
            self._consumers.append(consumer)
            delay_s = options.consumer_start_delay + place * float(options.slow_start)
            self._consumer_delays.append(delay_s)

    async def _connect(self, kind: str, number: int) -> PerfConnection:
        options = self._options
        uri = options.uris[number % len(options.uris)]
        connection = await connect(uri, options, f"{options.id}-{kind}-{number}", self._on_blocked)
        self._connections.append(connection)
        connection.closed.add_done_callback(lambda _: self._on_closed(connection))
        return connection

    def _on_closed(self, connection: PerfConnection) -> None:
        if not self._outcome.done() and connection.failure is not None:
            self._outcome.set_exception(connection.failure)

    def _on_blocked(self, reason: str | None) -> None:
        say("notice", text=f"the broker blocks publishers: {reason}" if reason is not None
            else "the broker accepts messages again")  # fmt: skip

    # Working

    async def _consume(self) -> None:
        self._reported_cpu_s = time.process_time()
        loop = asyncio.get_running_loop()
        for consumer, delay_s in zip(self._consumers, self._consumer_delays, strict=True):
            if delay_s:
                loop.call_later(delay_s, self._start_late, consumer)
            else:
                await consumer.start()
        say("consuming")
        self._spawn(self._say_when_done())

    def _start_late(self, consumer: PerfConsumer) -> None:
        self._spawn(consumer.start())

    def _publish(self) -> None:
        for producer in self._producers:
            producer.start()

    async def _say_when_done(self) -> None:
        """Report when all clients with a limited number of messages have reached it."""
        options = self._options
        waited = [one.done for one in self._producers] if options.pmessages else []
        if options.cmessages or options.exit_when:
            waited += [one.done for one in self._consumers]
        if waited:
            await asyncio.wait(waited)
        if options.ends_by_itself:
            say("done")

    async def _watch(self) -> None:
        """Check regularly for overdue confirms and idle consumers."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for producer in self._producers:
                producer.check_confirms()
            if self._options.exit_when:
                for consumer in self._consumers:
                    await consumer.end_when_idle()

    # Ending

    async def _settle(self) -> None:
        for producer in self._producers:
            producer.stop()
        for producer in self._producers:
            await producer.settle()
        say("settled")

    async def _finish(self) -> None:
        """Receive the messages that are on their way, within a limit of time."""
        deadline = time.monotonic() + self._options.shutdown_timeout
        while time.monotonic() < deadline and not self._is_quiet():
            await asyncio.sleep(WATCH_SECONDS / 4)
        for consumer in self._consumers:
            await consumer.stop()
        self._end()

    def _is_quiet(self) -> bool:
        """Tell whether all consumers are done, or have received nothing for some time."""
        quiet_since = time.monotonic() - QUIET_SECONDS
        return all(one.done.done() or one.received_at < quiet_since for one in self._consumers)

    # Reports

    def _report(self) -> None:
        producers, consumers = self._producers, self._consumers
        now = {
            "sent": sum(one.sent for one in producers),
            "confirmed": sum(one.confirmed for one in producers),
            "nacked": sum(one.nacked for one in producers),
            "returned": sum(one.returned for one in producers),
            "received": sum(one.received for one in consumers),
        }
        cpu_s = time.process_time()
        counts = PerfCounts(
            **{name: now[name] - self._reported[name] for name in NUMBERS},
            latency=_merged([one.take_latencies() for one in consumers]),
            confirm_latency=_merged([one.take_latencies() for one in producers]),
            sent_at=max((one.sent_at for one in producers), default=0.0),
            received_at=max((one.received_at for one in consumers if one.received), default=0.0),
            cpu_s=cpu_s - self._reported_cpu_s,
        )
        self._reported, self._reported_cpu_s = now, cpu_s
        say("report", counts=counts.to_json())


def _merged(histograms: list[LatencyHistogram]) -> LatencyHistogram:
    merged = LatencyHistogram()
    for one in histograms:
        merged.merge(one)
    return merged


def say(kind: str, **content: Any) -> None:
    """Write a line for the process that started this one."""
    sys.stdout.write(json.dumps({"kind": kind, **content}) + "\n")
    sys.stdout.flush()


async def work() -> int:
    """Execute the commands of standard input, and return the exit code."""
    words = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(words), sys.stdin)
    task = json.loads(await words.readline())
    try:
        await PerfWorker(PerfOptions(**task["options"]), task["producers"], task["consumers"]).run(
            words
        )
    except PerfError as error:
        say("failed", text=str(error))
        return 1
    except OSError as error:
        say("failed", text=f"{error.filename}: {error.strerror}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(uvloop.run(work()))
