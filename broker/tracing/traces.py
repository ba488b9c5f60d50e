"""The traces of a node that write files: what `/api/traces` lists, makes and stops.

A trace is made of `Lines` that a sink fills, an output that takes them to the thread, and a
destination. Traces of the formats text and json are RabbitMQ's: they switch on the firehose of
their vhost, the last one to go switches it off, and a restart ends them. A log, of which a vhost
has one, has nothing to do with the firehose, and goes on after a restart: it is kept as a parameter
of the vhost.
"""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from broker.disk_monitor import disk_limit_bytes
from broker.services import Services
from broker.taps import Sink
from broker.tracing.lines import Lines
from broker.tracing.log_directory import Keeping, LogDirectory
from broker.tracing.log_sink import LogOptions, LogSink, gap_line, header_line
from broker.tracing.output import Destination, Output, Writer
from broker.tracing.pattern import Pattern
from broker.tracing.plugin_sink import GAPS, PluginSink
from broker.tracing.text_file import TextFile
from broker.tracing.trace import Trace, TraceError, of_json
from broker.tracing.tracer import Tracing
from broker.vhost import VirtualHost

TRACE_DIRECTORY = "trace"
"""In the data directory, unless another is configured."""
COMPONENT = "trace-log"
"""The parameters that logs are kept as."""
RESERVE_OF_LIMIT = 2
"""The disk keeps so many times the room at which its alarm is set."""

logger = logging.getLogger("leveret.tracing")


class Running(NamedTuple):
    """A trace that runs, and its parts."""

    trace: Trace
    lines: Lines
    sink: Sink

    @property
    def output(self) -> Output:
        """Where it is written to."""
        return self.lines.output


class Traces:
    """All traces of a node. directory: where they write; None if there is none to write to."""

    def __init__(self, services: Services, tracing: Tracing, data_dir: Path | None) -> None:
        self.directory = services.config.tracing_dir
        if self.directory is None and data_dir is not None:
            self.directory = data_dir / TRACE_DIRECTORY
        self._services = services
        self._tracing = tracing
        self._writer = Writer(services.clock.wall_time_s)
        self._running: dict[tuple[str, str], Running] = {}

    def __iter__(self) -> Iterator[Running]:
        return iter(tuple(self._running.values()))

    def get(self, vhost: str, name: str) -> Running | None:
        """The trace, if it runs."""
        return self._running.get((vhost, name))

    def restore(self) -> None:
        """Go on with the logs that there were before a restart."""
        for vhost, name, body in self._services.parameters.of(COMPONENT):
            try:
                self._begin(self._services.vhosts[vhost], of_json(vhost, name, body))
            except (TraceError, KeyError) as error:
                logger.error("the trace %r of vhost %r does not go on: %s", name, vhost, error)

    def begin(self, vhost: VirtualHost, trace: Trace) -> None:
        """Begin a trace. Raises TraceError."""
        self._begin(vhost, trace)
        if trace.is_log:
            shown = trace.to_json()
            body = {key: shown[key] for key in shown if key not in ("vhost", "name")}
            self._services.parameters.set(COMPONENT, vhost.name, trace.name, body)

    def end(self, vhost: VirtualHost, name: str) -> None:
        """End a trace that runs; what it has is written soon."""
        running = self._running.pop((vhost.name, name))
        self._tracing.detach(vhost, running.sink)
        self._services.parameters.clear(COMPONENT, vhost.name, name)
        left = [one.trace for one in self if one.trace.vhost == vhost.name]
        if not running.trace.is_log and all(trace.is_log for trace in left):
            self._tracing.set_firehose(vhost, False)
        logger.info("trace %r of vhost %r ends", name, vhost.name)

    def forget_vhost(self, vhost: str) -> None:
        """The vhost is deleted, and its sinks are detached."""
        for one in self:
            if one.trace.vhost == vhost:
                del self._running[vhost, one.trace.name]

    async def stop(self) -> None:
        """Have everything written, within bounds of time. All sinks are detached."""
        self._running.clear()
        if self._writer.is_running:
            await asyncio.to_thread(self._writer.stop)

    def _begin(self, vhost: VirtualHost, trace: Trace) -> None:
        self._check(trace)
        lines, sink = self._log(trace) if trace.is_log else self._text(vhost, trace)
        self._running[vhost.name, trace.name] = Running(trace, lines, sink)
        self._tracing.attach(vhost, sink)
        if not trace.is_log:
            self._tracing.set_firehose(vhost, True)
        logger.info("trace %r of vhost %r begins: %s", trace.name, vhost.name, trace.format)

    def _check(self, trace: Trace) -> None:
        if self.directory is None:
            raise TraceError("this node has no directory for traces: set tracing.dir")
        for one in self:
            if (one.trace.vhost, one.trace.name) == (trace.vhost, trace.name):
                raise TraceError(f"the trace {trace.name!r} runs already: end it first")
            if trace.is_log and one.trace.is_log and one.trace.vhost == trace.vhost:
                raise TraceError(f"the vhost has a log already, the trace {one.trace.name!r}")
            if not trace.is_log and not one.trace.is_log and one.trace.name == trace.name:
                raise TraceError(f"{trace.name}.log is written for vhost {one.trace.vhost!r}")

    def _log(self, trace: Trace) -> tuple[Lines, Sink]:
        assert self.directory is not None
        config, clock = self._services.config, self._services.clock
        options = LogOptions(
            config.node_name, trace.vhost, trace.sample, trace.has_bodies, trace.payload_bytes_max
        )
        keeping = Keeping(
            config.tracing_file_bytes, config.tracing_bytes_max, config.tracing_days_max,
            disk_limit_bytes(config) * RESERVE_OF_LIMIT,
        )  # fmt: skip
        destination = LogDirectory(
            self.directory, trace.vhost, config.node_name, keeping,
            lambda time_us: header_line(options, time_us),
        )  # fmt: skip
        lines = Lines(self._open(trace, destination), clock, lambda *gap: gap_line(options, *gap))
        return lines, LogSink(lines, clock, Pattern(trace.pattern), options)

    def _text(self, vhost: VirtualHost, trace: Trace) -> tuple[Lines, Sink]:
        assert self.directory is not None
        clock = self._services.clock
        destination = TextFile(self.directory / f"{trace.name}.log")
        lines = Lines(self._open(trace, destination), clock, GAPS[trace.format])
        sink = PluginSink(
            lines, clock, Pattern(trace.pattern), vhost, self._services.config.node_name,
            trace.format, trace.payload_bytes_max,
        )  # fmt: skip
        return lines, sink

    def _open(self, trace: Trace, destination: Destination) -> Output:
        room = self._services.config.tracing_waiting_bytes
        return self._writer.open(f"{trace.name!r} of {trace.vhost!r}", destination, room)


def trace_view(running: Running) -> dict[str, Any]:
    """A trace as the API shows it, with how its writing goes."""
    lines, output = running.lines, running.output
    return running.trace.to_json() | {
        "written": lines.written,
        "lost": lines.lost_in_all,
        "waiting_bytes": output.waiting_bytes,
        "problem": output.problem,
    }
