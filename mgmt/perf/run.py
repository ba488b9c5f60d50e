"""Controls a run: starts the workers together, collects their reports, and ends them.

A worker that fails ends the run. The first signal (Ctrl-C) ends it like the end of its duration,
settling all open messages; the second one ends it at once.
"""

import asyncio
import signal
import time
from collections.abc import Iterator
from typing import Any

from leveret.broker.resources.available_processors import available_processors
from leveret.mgmt.perf.connection import PerfError
from leveret.mgmt.perf.counts import PerfCounts
from leveret.mgmt.perf.options import PerfOptions
from leveret.mgmt.perf.report import PerfReport
from leveret.mgmt.perf.samples import Sample, Summary
from leveret.mgmt.perf.topology import declare, delete_polled
from leveret.mgmt.perf.worker_process import WorkerProcess

GRACE_SECONDS = 5.0


class PerfRun:
    """One run of the tool."""

    def __init__(self, options: PerfOptions, report: PerfReport) -> None:
        self._options = options
        self._show = report
        self._workers: list[WorkerProcess] = []
        self._current = PerfCounts()
        self._whole = PerfCounts()
        self._started_at = self._sampled_at = 0.0
        self._stopped_at = 0.0
        self._stop, self._abort = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Execute the run and show it. Raises PerfError with the reason if it was aborted, and
        CancelledError after a Ctrl-C before it has begun.
        """
        task = asyncio.current_task()
        assert task is not None, "asyncio.run has made one"
        # asyncio's own handler cancels in the middle of a turn of the loop: a connect that ends at
        # that moment prints a traceback.
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
        await declare(self._options)
        try:
            await self._start()
            await self._work()
        finally:
            for worker in self._workers:
                await worker.kill()
            if self._started_at:
                self._sample()
                self._show.end(self._summary())
        if self._options.polling:
            await delete_polled(self._options)

    async def _start(self) -> None:
        """Start all workers, and let them begin when the last one is ready."""
        options = self._options
        count = options.process_count(available_processors())
        for producers, consumers in shares(options.producers, options.consumers, count):
            worker = WorkerProcess(self._on_report, self._show.notice)
            self._workers.append(worker)
            await worker.start(options, producers, consumers)
        await self._wait_for_all("ready")
        self._check_all()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        self._show.begin()
        self._started_at = self._sampled_at = time.monotonic()
        self._tell_all("consume")
        await self._wait_for_all("consuming")
        self._check_all()
        self._tell_all("publish")

    def _on_signal(self) -> None:
        if self._stop.is_set():
            self._abort.set()
        self._stop.set()

    def _tell_all(self, word: str) -> None:
        for worker in self._workers:
            worker.tell(word)

    async def _wait_for_all(self, kind: str) -> None:
        for worker in self._workers:
            await worker.wait_for(kind)

    def _check_all(self) -> None:
        for worker in self._workers:
            worker.check()

    # End of the run

    async def _work(self) -> None:
        """Wait until the run is over, or the second signal comes."""
        sampling = asyncio.create_task(self._sample_regularly())
        ending = asyncio.create_task(self._end_in_time())
        aborting = asyncio.create_task(self._abort.wait())
        done, pending = await asyncio.wait(
            [sampling, ending, aborting], return_when=asyncio.FIRST_COMPLETED
        )
        for task in pending:
            task.cancel()
        for task in done:
            task.result()

    async def _end_in_time(self) -> None:
        """Wait for the end of the run; then end the producers and after them the consumers."""
        ends: list[asyncio.Task[Any]] = [asyncio.create_task(self._stop.wait())]
        if self._options.ends_by_itself:
            ends.append(asyncio.create_task(self._wait_for_all("done")))
        gone = [asyncio.create_task(worker.ended()) for worker in self._workers]
        limit_s = self._options.time or None
        await asyncio.wait([*ends, *gone], timeout=limit_s, return_when="FIRST_COMPLETED")
        for task in ends:
            task.cancel()
        self._stopped_at = time.monotonic()
        self._tell_all("settle")
        await self._wait_for_all("settled")
        self._tell_all("finish")
        limit_s = self._options.shutdown_timeout + GRACE_SECONDS
        _, late = await asyncio.wait(gone, timeout=limit_s)
        self._check_all()
        if late:
            raise PerfError(f"{len(late)} workers did not end within {limit_s:g} seconds")

    async def _sample_regularly(self) -> None:
        """Collect and show the workers' counts at the end of each interval."""
        number = 0
        while True:
            number += 1
            due = self._started_at + number * self._options.interval
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            for worker in self._workers:
                worker.forget("report")
                worker.tell("report")
            await self._wait_for_all("report")
            self._sample()

    def _on_report(self, content: dict[str, Any]) -> None:
        self._current.add(PerfCounts.from_json(content))

    def _sample(self) -> None:
        """Close an interval."""
        now = time.monotonic()
        counts, self._current = self._current, PerfCounts()
        seconds, self._sampled_at = now - self._sampled_at, now
        self._whole.add(counts)
        if not (self._stopped_at and counts.is_empty):
            self._show.sample(Sample(now - self._started_at, seconds, counts))

    def _summary(self) -> Summary:
        """Return the summary, with rates over the time in which messages were sent or received."""
        whole, options = self._whole, self._options
        stopped_at = self._stopped_at or time.monotonic()
        sent_at = whole.sent_at if options.pmessages else stopped_at
        is_counted = options.pmessages or options.cmessages or options.exit_when
        received_at = whole.received_at if is_counted else max(stopped_at, whole.received_at)
        return Summary(
            whole, sending_s=max(1e-3, sent_at - self._started_at),
            receiving_s=max(1e-3, received_at - self._started_at),
            seconds=time.monotonic() - self._started_at,
        )  # fmt: skip


def shares(producers: int, consumers: int, processes: int) -> Iterator[tuple[list[int], list[int]]]:
    """Return the numbers of each process's producers and consumers, separated if possible."""
    all_producers, all_consumers = list(range(producers)), list(range(consumers))
    if processes == 1 or not producers or not consumers:
        for number in range(processes):
            yield all_producers[number::processes], all_consumers[number::processes]
        return
    publishing = min(producers, max(1, processes // 2, processes - consumers))
    for number in range(publishing):
        yield all_producers[number::publishing], []
    consuming = processes - publishing
    for number in range(consuming):
        yield [], all_consumers[number::consuming]
