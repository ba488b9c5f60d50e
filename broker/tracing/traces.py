"""The traces of a node that write files: lists, starts and stops them for `/api/traces`.

A trace consists of a sink, which adds lines (lines.py) or records (log_sink.py), the batches of
these, an output, which passes batches to the writer thread, and a destination. Traces of the
formats text and json work as in RabbitMQ: they switch the firehose of their vhost on, the end of
the last one switches it off, and a restart ends them. A log, of which a vhost has at most one, is
independent of the firehose, and continues after a restart: it is a parameter of the vhost. So in a
cluster every node writes a log of its own events.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from leveret.broker.declarations.values import DeleteParameter, PutParameter
from leveret.broker.events.taps import Sink
from leveret.broker.runtime.pending import Answer, given
from leveret.broker.services.services import Services
from leveret.broker.tracing.batches import Batches
from leveret.broker.tracing.lines import TraceLines
from leveret.broker.tracing.log_blocks import LogBlocks, LogOptions
from leveret.broker.tracing.log_directory import FileLimits, LogDirectory
from leveret.broker.tracing.log_sink import LogSink
from leveret.broker.tracing.output import TraceDestination, TraceOutput, TraceWriter
from leveret.broker.tracing.pattern import TracePattern
from leveret.broker.tracing.plugin_sink import GAPS, PluginSink
from leveret.broker.tracing.sinks import Tracing
from leveret.broker.tracing.text_file import TextFile
from leveret.broker.tracing.trace import Trace, TraceError, of_json
from leveret.broker.vhost.virtual_host import VirtualHost

TRACE_DIRECTORY = "trace"
"""Directory below the data directory, unless tracing.dir is set."""
TRACE_LOG = "trace-log"
"""Component of the parameters that declare logs."""
RESERVE_OF_LIMIT = 2
"""Free disk space that is kept, as a multiple of the disk alarm's limit."""

logger = logging.getLogger("leveret.tracing")


class Running(NamedTuple):
    """A running trace and its parts."""

    trace: Trace
    batches: Batches
    sink: Sink

    @property
    def output(self) -> TraceOutput:
        """The output of its batches."""
        return self.batches.output


class Traces:
    """All traces of a node. directory: for their files; None if there is none."""

    def __init__(
        self,
        services: Services,
        tracing: Tracing,
        data_dir: Path | None,
        disk_limit_bytes: Callable[[], int],
    ) -> None:
        """disk_limit_bytes: returns the limit of free disk space, which can change at any time."""
        self.directory = services.config.tracing.dir
        if self.directory is None and data_dir is not None:
            self.directory = data_dir / TRACE_DIRECTORY
        self._services = services
        self._tracing = tracing
        self._disk_limit_bytes = disk_limit_bytes
        self._writer = TraceWriter(services.clock.wall_time_s)
        self._running: dict[tuple[str, str], Running] = {}
        self._is_restored = False

    def __iter__(self) -> Iterator[Running]:
        return iter(tuple(self._running.values()))

    def get(self, vhost: str, name: str) -> Running | None:
        """Return a running trace."""
        return self._running.get((vhost, name))

    def restore(self) -> None:
        """Start the declared logs, and follow their changes: the node has started."""
        self._is_restored = True
        for vhost, name, body in self._services.parameters.of(TRACE_LOG):
            self._begin_declared(vhost, name, body)

    def log_changed(self, vhost: str, name: str) -> None:
        """Start or stop this node's part of a log that was declared or deleted in the cluster."""
        if not self._is_restored:
            return
        running = self.get(vhost, name)
        if running is not None and running.trace.is_log:
            self._end(running)
        # A log that another node has declared at the same time may follow one that ends.
        for _, declared, body in self._services.parameters.of(TRACE_LOG, vhost):
            if self.get(vhost, declared) is None:
                self._begin_declared(vhost, declared, body)

    def _begin_declared(self, vhost: str, name: str, body: dict[str, Any]) -> None:
        try:
            if vhost not in self._services.vhosts:
                raise TraceError("the vhost does not exist")
            self._begin(self._services.vhosts[vhost], of_json(vhost, name, body))
        except TraceError as error:
            logger.error("the trace log %r of vhost %r cannot be written: %s", name, vhost, error)
        except Exception:
            # An error in it must not keep a node from applying the declaration (registry.py, RG2).
            logger.exception("the trace log %r of vhost %r cannot be written", name, vhost)

    def begin(self, vhost: VirtualHost, trace: Trace, acting_user: str) -> Answer[None]:
        """Start a trace; a log on all nodes. The answer is given when a log survives a restart.

        Raises TraceError.
        """
        self._check(trace)
        if not trace.is_log:
            self._begin(vhost, trace)
            return given(None)
        shown = trace.to_json()
        body = {key: shown[key] for key in shown if key not in ("vhost", "name")}
        return self._services.declarations.submit(
            PutParameter(TRACE_LOG, vhost.name, trace.name, body, acting_user=acting_user)
        )

    def end(self, vhost: VirtualHost, name: str, acting_user: str) -> Answer[None]:
        """Stop a running trace; a log on all nodes. Its remaining lines are written soon."""
        running = self._running[vhost.name, name]
        if running.trace.is_log:
            return self._services.declarations.submit(
                DeleteParameter(TRACE_LOG, vhost.name, name, acting_user=acting_user)
            )
        self._end(running)
        left = [one.trace for one in self if one.trace.vhost == vhost.name]
        if all(trace.is_log for trace in left):
            self._tracing.set_firehose(vhost, False)
        return given(None)

    def _end(self, running: Running) -> None:
        vhost, name = running.trace.vhost, running.trace.name
        del self._running[vhost, name]
        self._tracing.detach(self._services.vhosts[vhost], running.sink)
        logger.info("stopped trace %r of vhost %r", name, vhost)

    def forget_vhost(self, vhost: str) -> None:
        """Stop the traces of a deleted vhost, whose sinks are already detached."""
        for one in self:
            if one.trace.vhost == vhost:
                del self._running[vhost, one.trace.name]

    async def stop(self) -> None:
        """Write everything, with a time limit. All sinks are already detached."""
        self._running.clear()
        if self._writer.is_running:
            await asyncio.to_thread(self._writer.stop)

    def _begin(self, vhost: VirtualHost, trace: Trace) -> None:
        self._check(trace)
        batches, sink = self._log(trace) if trace.is_log else self._text(vhost, trace)
        self._running[vhost.name, trace.name] = Running(trace, batches, sink)
        self._tracing.attach(vhost, sink)
        if not trace.is_log:
            self._tracing.set_firehose(vhost, True)
        logger.info("started trace %r of vhost %r: format %s", trace.name, vhost.name, trace.format)

    def _check(self, trace: Trace) -> None:
        if self.directory is None:
            raise TraceError("this node has no directory for traces: set tracing.dir")
        for one in self:
            if (one.trace.vhost, one.trace.name) == (trace.vhost, trace.name):
                raise TraceError(f"the trace {trace.name!r} is already running: stop it first")
            if trace.is_log and one.trace.is_log and one.trace.vhost == trace.vhost:
                raise TraceError(f"the vhost already has a log, the trace {one.trace.name!r}")
            if not trace.is_log and not one.trace.is_log and one.trace.name == trace.name:
                raise TraceError(f"{trace.name}.log is already used by vhost {one.trace.vhost!r}")

    def _log(self, trace: Trace) -> tuple[Batches, Sink]:
        assert self.directory is not None
        config, clock = self._services.config, self._services.clock
        options = LogOptions(
            config.node_name, trace.vhost, trace.sample, trace.has_bodies, trace.payload_bytes_max
        )
        keeping = FileLimits(
            config.tracing.file_bytes, config.tracing.bytes_max, config.tracing.days_max,
            lambda: self._disk_limit_bytes() * RESERVE_OF_LIMIT,
        )  # fmt: skip
        destination = LogDirectory(self.directory, trace.vhost, config.node_name, keeping)
        blocks = LogBlocks(self._open(trace, destination), clock, options)
        return blocks.batches, LogSink(blocks, clock, TracePattern(trace.pattern), options)

    def _text(self, vhost: VirtualHost, trace: Trace) -> tuple[Batches, Sink]:
        assert self.directory is not None
        clock = self._services.clock
        destination = TextFile(self.directory / f"{trace.name}.log")
        lines = TraceLines(self._open(trace, destination), clock, GAPS[trace.format])
        sink = PluginSink(
            lines, clock, TracePattern(trace.pattern), vhost, self._services.config.node_name,
            trace.format, trace.payload_bytes_max,
        )  # fmt: skip
        return lines.batches, sink

    def _open(self, trace: Trace, destination: TraceDestination) -> TraceOutput:
        room = self._services.config.tracing.waiting_bytes
        return self._writer.open(f"{trace.name!r} of {trace.vhost!r}", destination, room)


def trace_view(running: Running) -> dict[str, Any]:
    """Encode a trace for the API, with the state of its output."""
    batches, output = running.batches, running.output
    return running.trace.to_json() | {
        "written": batches.written,
        "lost": batches.lost_in_all,
        "waiting_bytes": output.waiting_bytes,
        "problem": output.problem,
    }
