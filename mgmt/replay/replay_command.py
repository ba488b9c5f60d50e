"""`leveret replay`: publishes a window of a trace with bodies, and compares the result.

Exit codes: 0 if all was published and confirmed; 1 if something was not, there was nothing to
publish, or the broker or the files failed; 2 for invalid options; 130 after Ctrl-C.
"""

import argparse
import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import uvloop

from leveret.analytics.formatting import listed, shown
from leveret.analytics.traces.trace_files import (
    MomentError,
    TraceFile,
    TraceWindow,
    read_moment,
    trace_files,
)
from leveret.broker.moving.client.address import ServerAddress
from leveret.mgmt.perf.address import read_address
from leveret.mgmt.perf.connection import PerfConnection, PerfError, connect
from leveret.mgmt.perf.options import PerfOptions
from leveret.mgmt.replay.copies import Copies
from leveret.mgmt.replay.inquiry import Inquiry
from leveret.mgmt.replay.outcome import ReplayOutcome, outcome_lines, planned
from leveret.mgmt.replay.player import Player
from leveret.mgmt.replay.source import ReplaySource
from leveret.mgmt.replay.wait_times import WaitTimes

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
SETTLE_SECONDS = 5.0
HEARTBEAT_SECONDS = 30
NAME = "leveret replay"
SCHEMES = ("amqp://", "amqps://")
INTERRUPTED = "interrupted"


@dataclass
class Replay:
    """The options of a replay. uri: empty for a dry run. is_measured: measure waits by copies."""

    files: list[TraceFile]
    window: TraceWindow
    exchanges: frozenset[str]
    uri: str
    speed: float
    settle_s: float
    is_measured: bool = False

    @property
    def options(self) -> PerfOptions:
        """Those of its connections."""
        return PerfOptions([self.uri], NAME, heartbeat=HEARTBEAT_SECONDS)

    @property
    def address(self) -> ServerAddress:
        """The broker's."""
        return read_address(self.uri, self.options)

    def source(self, run: str = "") -> ReplaySource:
        """Return the messages. run: the mark of this replay."""
        user = self.address.user if self.uri else ""
        return ReplaySource(self.files, self.window, self.exchanges, user, run)


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        replay = _replay(parser, options)
        return _plan(replay) if options.dry_run else uvloop.run(_play(replay))
    except (OSError, PerfError) as error:
        sys.stderr.write(f"{NAME}: {error}\n")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME,
        description="Publishes the messages of a trace that contains bodies again, and compares"
        " the result.",
    )
    add = parser.add_argument
    add("directory", type=Path, metavar="TRACE_DIR")
    add("--to", action="append", default=[], metavar="URI",
        help="a broker, amqp://user:password@host:port/vhost; or a time")  # fmt: skip
    add("--speed", type=_speed, default=1.0, metavar="N",
        help="speed relative to the trace; 0: as fast as possible (%(default)g)")  # fmt: skip
    add("--vhost", help="the virtual host of the trace; required if there are several")
    add("--from", dest="from_us", type=read_moment, metavar="TIME",
        help="start time, for example 2026-03-01T14:05 (UTC)")  # fmt: skip
    add("--until", dest="to_us", type=read_moment, metavar="TIME", help="end time (exclusive)")
    add("--exchange", action="append", default=[], metavar="NAME",
        help="only messages published to this exchange; can be repeated")  # fmt: skip
    add("--settle", type=_speed, default=SETTLE_SECONDS, metavar="SECONDS",
        help="how long to wait for consumers at the end (%(default)g)")  # fmt: skip
    add("--measure", action="store_true",
        help="measure how long each message waits; the vhost must be traced")  # fmt: skip
    add("--dry-run", action="store_true", help="show what would be published, and stop")
    return parser


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number >= 0")
    return value


def _replay(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Replay:
    uris = [text for text in options.to if text.startswith(SCHEMES)]
    times = [text for text in options.to if not text.startswith(SCHEMES)]
    to_us = options.to_us
    if times:
        try:
            to_us = read_moment(times[-1])
        except MomentError:
            parser.error(f"--to '{times[-1]}' is neither amqp://... nor a time")
    if len(uris) > 1 or (not uris and not options.dry_run):
        parser.error("name exactly one broker: --to amqp://user:password@host:port/vhost")
    if None not in (options.from_us, to_us) and options.from_us >= to_us:
        parser.error("the window ends before it begins")
    window = TraceWindow(options.from_us, to_us, options.vhost)
    files = trace_files(options.directory, window)
    vhosts = sorted({shown(file.vhost) for file in files if file.vhost is not None})
    if len(vhosts) > 1 and options.vhost is None:
        parser.error(f"the trace has the vhosts {listed(vhosts)}: choose one with --vhost")
    return Replay(files, window, frozenset(options.exchange), "".join(uris), options.speed,
                  options.settle, options.measure)  # fmt: skip


def _plan(replay: Replay) -> int:
    source = replay.source()
    size = first_us = last_us = 0
    for message in source.messages():
        first_us = first_us or message.time_us
        last_us = message.time_us
        size += len(message.body)
    print("\n".join(planned(source, size, last_us - first_us, replay.speed)))
    return EXIT_DONE if source.count else EXIT_FAILED


async def _play(replay: Replay) -> int:
    async with AsyncExitStack() as connections:
        connection = await connections.enter_async_context(_connected(replay, NAME))
        copies = None
        if replay.is_measured:
            others = await connections.enter_async_context(_connected(replay, f"{NAME}: copies"))
            copies = Copies(others, replay.address.vhost)
            await copies.open()
        outcome = _outcome(replay, connection, copies)
        with _ReplayProgress(outcome.player) as progress:
            failure = await _failure_of(_run(replay, outcome, progress))
    print("\n".join(outcome_lines(outcome)))
    if failure:
        sys.stderr.write(f"{NAME}: aborted: {failure}\n")
    if failure == INTERRUPTED:
        return EXIT_INTERRUPTED
    player = outcome.player
    is_done = player.sent and not (failure or player.missing or player.nacked)
    return EXIT_DONE if is_done else EXIT_FAILED


@asynccontextmanager
async def _connected(replay: Replay, name: str) -> AsyncIterator[PerfConnection]:
    connection = await connect(replay.uri, replay.options, name, _say_blocked)
    try:
        yield connection
    finally:
        await connection.close()


def _outcome(replay: Replay, connection: PerfConnection, copies: Copies | None) -> ReplayOutcome:
    """Create the parts of the replay, before anything happened."""
    inquiry = Inquiry(connection)
    player = Player(connection, inquiry, replay.speed)
    source = replay.source("" if copies is None else copies.run)
    if copies is not None:
        player.on_written = copies.written
        source.original.wait_times = WaitTimes()
    return ReplayOutcome(source, player, inquiry, copies)


async def _run(replay: Replay, outcome: ReplayOutcome, progress: Callable[[], object]) -> None:
    await outcome.inquiry.open()
    await outcome.player.open()
    await outcome.player.play(outcome.source.messages(), progress)
    await outcome.inquiry.settle(replay.settle_s)
    if outcome.copies is not None:
        outcome.has_all_copies = await outcome.copies.caught_up()


async def _failure_of(work: Awaitable[None]) -> str:
    """Return why the work was aborted; empty if it was not."""
    try:
        await work
    except PerfError as error:
        return str(error)
    except asyncio.CancelledError:
        return INTERRUPTED
    return ""


def _say_blocked(reason: str | None) -> None:
    words = f"the broker blocks publishers: {reason}" if reason else "publishers are unblocked"
    sys.stderr.write(f"{NAME}: {words}\n")


class _ReplayProgress:
    """Writes a line of progress to standard error each second, if that is a terminal."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._next = 0.0
        self._is_shown = sys.stderr.isatty()

    def __call__(self) -> None:
        if self._is_shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + 1
            player = self._player
            sys.stderr.write(f"\r\x1b[K{player.sent:,} published, {player.confirms.open:,} open")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")


if __name__ == "__main__":
    sys.exit(main())
