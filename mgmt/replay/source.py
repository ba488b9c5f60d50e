"""The messages of a trace in order of time, ready to be published.

Only the files of one hour are open at the same time, with a block of lines of each in memory.
Records that cannot be published (no body, or a body that the trace has truncated) are counted by
reason.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec

from leveret.analytics.traces.log_blocks import Problem, read_blocks
from leveret.analytics.traces.trace_files import TraceFile, TraceWindow
from leveret.broker.tracing import record
from leveret.mgmt.replay.ahead import read_ahead
from leveret.mgmt.replay.original import Original
from leveret.mgmt.replay.properties import NOTHING, PropertyEncoder, UnsayableError

PROBLEMS_MAX = 1_000
NO_BODY = "without a body: the trace does not contain bodies"
CUT_BODY = "with a truncated or unreadable body"
BAD_PROPERTIES = "with properties that AMQP cannot encode"
OTHER_VHOST = "of other vhosts"

_NOT_NEEDED = tuple(
    b'{"event":"%b"' % event.encode()
    for event in (record.ACK, record.REJECT, record.REQUEUE, record.RETURN, record.OPEN,
                  record.CLOSE, record.GAP)
)  # fmt: skip
"""How lines begin, as the broker writes them, whose events are not needed."""
_read_body = msgspec.json.Decoder(bytes).decode


class ReplayEvent(msgspec.Struct, gc=False):
    """The fields of a record that a replay needs; rarely needed ones stay undecoded."""

    event: str
    time_us: int = 0
    node: str = ""
    vhost: str = ""
    message: int = 0
    new_message: int = 0
    exchange: str = ""
    queue: str = ""
    routing_keys: list[str] = []
    queues: list[str] = []
    redelivered: bool = False
    body_size: int = 0
    body: msgspec.Raw = NOTHING
    properties: msgspec.Raw = msgspec.Raw(b"{}")
    version: int = 0
    sample: int = 1


class Outgoing(NamedTuple):
    """A message to publish.

    place: its number among all that are replayed, from 1. properties: encoded. queues: where it was
    routed originally.
    """

    place: int
    time_us: int
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes
    queues: list[str]


@dataclass
class ReplaySource:
    """The messages to replay.

    exchanges: only messages published to these; all if empty. user: the publishing user; another
    user-id is removed from properties, since brokers refuse it. run: the mark of this replay's
    messages for the firehose's copies; empty for no mark. count: messages so far. skipped: records
    that were not replayed, by reason.
    """

    files: Sequence[TraceFile]
    window: TraceWindow
    exchanges: frozenset[str] = frozenset()
    user: str = ""
    run: str = ""
    original: Original = field(default_factory=Original)
    problems: list[Problem] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    by_exchange: Counter[str] = field(default_factory=Counter)
    count: int = 0
    lost: int = 0
    samples: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._properties = PropertyEncoder(self.user)

    @property
    def adjusted(self) -> int:
        """Messages that are published without their user-id."""
        return self._properties.adjusted

    def messages(self) -> Iterator[Outgoing]:
        """Return each message, in order of time."""
        with ThreadPoolExecutor(1) as self._thread:
            yield from self._messages()

    def _messages(self) -> Iterator[Outgoing]:
        vhost = self.window.vhost
        for event in self._events():
            if not self.window.holds(event.time_us):
                continue
            vhost = event.vhost if vhost is None else vhost
            if event.vhost != vhost:
                self.skipped[OTHER_VHOST] += event.event == record.PUBLISH
                continue
            self._tell_original(event)
            if event.event == record.PUBLISH and self._is_wanted(event):
                message = self._outgoing(event)
                if message is not None:
                    yield message

    def _is_wanted(self, event: ReplayEvent) -> bool:
        return not self.exchanges or event.exchange in self.exchanges

    def _events(self) -> Iterator[ReplayEvent]:
        by_time = attrgetter("time_us")
        for _, group in groupby(self.files, lambda file: file.hour_us):
            files = [self._events_of(file) for file in group]
            yield from files[0] if len(files) == 1 else heapq.merge(*files, key=by_time)

    def _events_of(self, file: TraceFile) -> Iterator[ReplayEvent]:
        decoder = msgspec.json.Decoder(ReplayEvent)
        for block in read_ahead(read_blocks(file, self.problems), self._thread):
            for number, line in enumerate(block.data.splitlines(), block.line):
                if line.startswith(_NOT_NEEDED):
                    continue
                try:
                    event = decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    self._note(Problem(file.path, number, f"is not a record: {error}"))
                    continue
                if event.event == record.HEADER:
                    if event.version > record.VERSION:
                        problem = f"is of version {event.version}, which is not supported"
                        self._note(Problem(file.path, None, problem))
                        return
                    self.samples.add(event.sample)
                else:
                    yield event

    def _note(self, problem: Problem) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)
        else:
            self.lost += 1

    def _tell_original(self, event: ReplayEvent) -> None:
        original = self.original
        match event.event:
            case record.PUBLISH:
                original.routed(event.node, event.message, event.queues, event.time_us)
            case record.DEAD_LETTER:
                original.routed(event.node, event.new_message, event.queues, event.time_us)
            case record.DELIVER if not event.redelivered:
                original.left(event.node, event.message, event.queue, event.time_us, True)
            case record.EXPIRE | record.DROP if event.message:
                original.left(event.node, event.message, event.queue, event.time_us, False)

    def _outgoing(self, event: ReplayEvent) -> Outgoing | None:
        has_body = event.body != NOTHING
        if event.body_size and not has_body:
            self.skipped[NO_BODY] += 1
            return None
        try:
            body = _read_body(event.body) if has_body else b""
        except msgspec.DecodeError:
            body = b""
        if len(body) != event.body_size:
            self.skipped[CUT_BODY] += 1
            return None
        keys = event.routing_keys
        place = self.count + 1
        mark = f"{self.run}-{place}" if self.run else ""
        try:
            properties = self._properties.encode(event.properties, keys[1:], mark)
        except UnsayableError:
            self.skipped[BAD_PROPERTIES] += 1
            return None
        self.count = place
        self.by_exchange[event.exchange] += 1
        key, time_us = keys[0] if keys else "", event.time_us
        self.original.replayed(event.exchange, key, event.queues, event.message, time_us)
        return Outgoing(place, time_us, event.exchange, key, properties, body, event.queues)
