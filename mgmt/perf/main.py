"""`leveret perf`: starts the workers, shows what they report, and sums it up at the end.

Exit codes: 0 if all went well, 1 if the broker cannot be reached or closed a connection, 2 for
options that make no sense.
"""

import asyncio
import csv
import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from mgmt.perf.connection import PerfError
from mgmt.perf.histogram import Histogram
from mgmt.perf.options import Options, OptionsError, read_options
from mgmt.perf.worker import COUNTS, declare

EXIT_FAILED, EXIT_USAGE = 1, 2


class Interval:
    """What all workers reported for one stretch of time."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(COUNTS, 0)
        self.latency = Histogram()
        self.confirm_latency = Histogram()

    def add(self, report: dict[str, Any]) -> None:
        """Add a worker's report."""
        for name in COUNTS:
            self.counts[name] += report[name]
        for name in ("latency", "confirm_latency"):
            getattr(self, name).merge(Histogram.from_json(**report[name]))

    def merge(self, other: "Interval") -> None:
        """Add another stretch."""
        for name in COUNTS:
            self.counts[name] += other.counts[name]
        self.latency.merge(other.latency)
        self.confirm_latency.merge(other.confirm_latency)

    def to_json(self, seconds: float) -> dict[str, Any]:
        """Counts, rates and latencies in microseconds."""
        return {
            "seconds": round(seconds, 3),
            **self.counts,
            "rates": {name: self.counts[name] / max(seconds, 1e-9) for name in COUNTS},
            "latency_us": self.latency.summary(),
            "confirm_latency_us": self.confirm_latency.summary(),
        }


class Run:
    """One run of the tool."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._workers: list[asyncio.subprocess.Process] = []
        self._current = Interval()
        self._whole = Interval()
        self._samples: list[dict[str, Any]] = []
        self._error = ""
        self._started_at = 0.0
        self._ended_at = 0.0

    async def run(self) -> int:
        """Do it; the exit code."""
        options = self._options
        try:
            if not options.predeclared:
                await declare(options)
            await self._start_workers()
        except PerfError as error:
            self._error = str(error)
        else:
            await self._watch()
        for worker in self._workers:
            if worker.returncode is None:
                worker.kill()
            await worker.wait()
        if self._error:
            sys.stderr.write(f"leveret perf: {self._error}\n")
        if self._started_at:
            self._summarise()
        return EXIT_FAILED if self._error else 0

    async def _start_workers(self) -> None:
        count = self._options.process_count()
        for producers, consumers in shares(self._options, count):
            worker = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mgmt.perf.worker", stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, limit=16 * 1024 * 1024, start_new_session=True,
            )  # fmt: skip
            self._workers.append(worker)
            task = {
                "options": self._options.to_json(), "producers": producers, "consumers": consumers
            }  # fmt: skip
            assert worker.stdin is not None
            worker.stdin.write(json.dumps(task).encode() + b"\n")
        for worker in self._workers:
            report = await _read(worker)
            if report is None or "error" in report:
                raise PerfError(report["error"] if report else "a worker ended before it began")
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.write(b"go\n")
        self._started_at = self._ended_at = time.monotonic()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        readers = [asyncio.create_task(self._read_reports(worker)) for worker in self._workers]
        with ExitStack() as stack:
            shown = self._display(stack)
            pending: set[asyncio.Task[None]] = set(readers)
            # Intervals end between the workers' reports, not while they come in.
            await asyncio.sleep(self._options.interval / 4)
            while pending:
                _, pending = await asyncio.wait(pending, timeout=self._options.interval)
                self._close_interval(shown)
                if self._error:
                    self._stop()
                elif any(worker.returncode is not None for worker in self._workers):
                    await self._stop_when_half_is_done(pending)

    async def _stop_when_half_is_done(self, pending: set[asyncio.Task[None]]) -> None:
        """Producers that published all they should leave consumers behind that wait for ever."""
        if self._options.time or not pending:
            return
        await asyncio.sleep(0.5)
        if not self._options.cmessages:
            self._stop()

    def _stop(self) -> None:
        for worker in self._workers:
            if worker.returncode is None:
                worker.send_signal(signal.SIGINT)

    async def _read_reports(self, worker: asyncio.subprocess.Process) -> None:
        while (report := await _read(worker)) is not None:
            if "error" in report:
                self._error = self._error or report["error"]
                continue
            self._current.add(report)
            if report["last"]:
                break
            self._ended_at = time.monotonic()
        await worker.wait()

    # Showing

    def _display(self, stack: ExitStack) -> Any:
        options = self._options
        writer = None
        if options.output_file:
            path = Path(options.output_file)
            writer = csv.writer(stack.enter_context(path.open("w", newline="")))
            writer.writerow(["id", "time (s)", *COUNTS, *_LATENCIES])
        if options.json or options.quiet:
            return _Shown(options, writer, None)
        console = Console()
        live = stack.enter_context(Live(console=console)) if console.is_terminal else None
        return _Shown(options, writer, live)

    def _close_interval(self, shown: "_Shown") -> None:
        current, self._current = self._current, Interval()
        if not any(current.counts.values()):
            return
        elapsed = time.monotonic() - self._started_at
        self._samples.append({"time": round(elapsed, 3), **current.to_json(self._options.interval)})
        self._whole.merge(current)
        shown.show(elapsed, current)

    def _summarise(self) -> None:
        seconds = max(self._ended_at - self._started_at, 1e-3)
        if self._options.time:
            seconds = min(seconds, self._options.time)
        summary = self._whole.to_json(seconds)
        if self._options.json:
            content = {"id": self._options.id, "summary": summary, "samples": self._samples}
            sys.stdout.write(json.dumps(content) + "\n")
            return
        options = self._options
        rates = summary["rates"]
        print(f"id: {options.id}, sending rate avg: {rates['sent']:.0f} msg/s")
        print(f"id: {options.id}, receiving rate avg: {rates['received']:.0f} msg/s")
        if options.confirm:
            shown = latency_text(self._whole.confirm_latency, options)
            print(f"id: {options.id}, confirm latency {shown}")
        if self._whole.latency.total:
            shown = latency_text(self._whole.latency, options)
            print(f"id: {options.id}, consumer latency {shown}")


_LATENCIES = ("min", "median", "p75", "p95", "p99", "p999", "max")


def latency_text(histogram: Histogram, options: Options) -> str:
    """`min/median/75th/95th/99th/max: 1/2/3/4/5/6 µs`."""
    summary = histogram.summary()
    divisor, unit = (1000, "ms") if options.use_millis else (1, "µs")
    shown = "/".join(f"{summary[name] / divisor:.0f}" for name in _LATENCIES if name != "p999")
    return f"min/median/75th/95th/99th/max: {shown} {unit}"


class _Shown:
    """Lines as PerfTest prints them, a table in a terminal, and a file of values."""

    def __init__(self, options: Options, writer: Any, live: Live | None) -> None:
        self._options = options
        self._writer = writer
        self._live = live

    def show(self, elapsed: float, interval: Interval) -> None:
        """What happened in an interval."""
        options = self._options
        if self._writer is not None:
            summary = interval.latency.summary()
            self._writer.writerow(
                [options.id, f"{elapsed:.3f}", *interval.counts.values(), *summary.values()]
            )
        if self._live is not None:
            self._live.update(self._table(elapsed, interval), refresh=True)
        elif not (options.json or options.quiet):
            print(self._line(elapsed, interval), flush=True)

    def _line(self, elapsed: float, interval: Interval) -> str:
        options, counts = self._options, interval.counts
        parts = [f"id: {options.id}, time: {elapsed:.3f}s"]
        wanted = ["sent"] if options.producers else []
        wanted += ["confirmed", "nacked"] if options.confirm else []
        wanted += ["returned"] if options.mandatory else []
        wanted += ["received"] if options.consumers else []
        for name in wanted:
            parts.append(f"{name}: {counts[name] / options.interval:.0f} msg/s")
        if interval.latency.total:
            parts.append(f"consumer latency {latency_text(interval.latency, options)}")
        return ", ".join(parts)

    def _table(self, elapsed: float, interval: Interval) -> Table:
        table = Table(title=f"{self._options.id} after {elapsed:.0f} s")
        table.add_column("")
        table.add_column("a second", justify="right")
        for name in COUNTS:
            table.add_row(name, f"{interval.counts[name] / self._options.interval:,.0f}")
        table.add_row("latency", latency_text(interval.latency, self._options))
        return table


async def _read(worker: asyncio.subprocess.Process) -> dict[str, Any] | None:
    assert worker.stdout is not None
    line = await worker.stdout.readline()
    return json.loads(line) if line else None


def shares(options: Options, processes: int) -> Iterator[tuple[list[int], list[int]]]:
    """Which producers and consumers each process has: apart, if there are enough processes."""
    producers, consumers = list(range(options.producers)), list(range(options.consumers))
    if processes == 1 or not producers or not consumers:
        for number in range(processes):
            yield producers[number::processes], consumers[number::processes]
        return
    of_producers = max(1, min(processes - 1, round(processes / 2)))
    of_consumers = processes - of_producers
    for number in range(of_producers):
        yield producers[number::of_producers], []
    for number in range(of_consumers):
        yield [], consumers[number::of_consumers]


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit code."""
    try:
        options = read_options(sys.argv[1:] if arguments is None else arguments)
    except OptionsError as error:
        sys.stderr.write(f"leveret perf: {error}\n")
        return EXIT_USAGE
    return asyncio.run(Run(options).run())


if __name__ == "__main__":
    sys.exit(main())
