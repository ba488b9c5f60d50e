"""The messages of a trace, one after the other in their order in time, as they are to be published.

Only the files of one hour are open at the same time, and of each a block of lines is in memory.
Records that cannot be published (no body, or a body that the trace has cut) are counted by why.
"""

import base64
import binascii
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from analytics.log_blocks import Problem, read_blocks
from analytics.trace_files import TraceFile, Window
from broker.tracing import record
from mgmt.properties import PropertyError, header_of_json
from mgmt.replay.original import Original

PROBLEMS_MAX = 1_000
NO_BODY = "without a body: the trace was not asked for bodies"
CUT_BODY = "with only a part of the body, or one that cannot be read"
BAD_PROPERTIES = "with properties that AMQP cannot say"
OTHER_VHOST = "of other vhosts"


class Event(msgspec.Struct, gc=False):
    """The fields of a record that a replay needs."""

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
    body: str | None = None
    properties: dict[str, Any] = {}
    version: int = 0
    sample: int = 1


class Outgoing(NamedTuple):
    """A message to publish. properties: as they are on the wire. queues: where it went then."""

    time_us: int
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes
    queues: list[str]


@dataclass
class Source:
    """What is to be replayed.

    exchanges: only what was published to these; all if empty. user: who publishes; another's
    user-id is left out of properties, since brokers refuse it.
    skipped: records that were not replayed, by why. adjusted: messages without their user-id.
    """

    files: Sequence[TraceFile]
    window: Window
    exchanges: frozenset[str] = frozenset()
    user: str = ""
    original: Original = field(default_factory=Original)
    problems: list[Problem] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    by_exchange: Counter[str] = field(default_factory=Counter)
    adjusted: int = 0
    lost: int = 0
    samples: set[int] = field(default_factory=set)

    def messages(self) -> Iterator[Outgoing]:
        """Each message, in its order in time."""
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
                    self.by_exchange[event.exchange] += 1
                    self.original.replayed(event.exchange, message.routing_key, event.queues)
                    yield message

    def _is_wanted(self, event: Event) -> bool:
        return not self.exchanges or event.exchange in self.exchanges

    def _events(self) -> Iterator[Event]:
        by_time = attrgetter("time_us")
        for _, group in groupby(self.files, lambda file: file.hour_us):
            files = [self._events_of(file) for file in group]
            yield from files[0] if len(files) == 1 else heapq.merge(*files, key=by_time)

    def _events_of(self, file: TraceFile) -> Iterator[Event]:
        decoder = msgspec.json.Decoder(Event)
        for block in read_blocks(file, self.problems):
            for number, line in enumerate(block.data.splitlines(), block.line):
                try:
                    event = decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    self._note(Problem(file.path, number, f"is no record: {error}"))
                    continue
                if event.event == record.HEADER:
                    if event.version > record.VERSION:
                        problem = f"is of version {event.version}, which is not known"
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

    def _tell_original(self, event: Event) -> None:
        original = self.original
        match event.event:
            case record.PUBLISH:
                original.routed(event.node, event.message, event.queues, event.time_us)
            case record.DEAD_LETTER:
                original.routed(event.node, event.new_message, event.queues, event.time_us)
            case record.DELIVER if not event.redelivered:
                original.left(event.node, event.message, event.queue, event.time_us)
            case record.EXPIRE | record.DROP if event.message:
                original.left(event.node, event.message, event.queue, event.time_us)

    def _outgoing(self, event: Event) -> Outgoing | None:
        if event.body is None and event.body_size:
            self.skipped[NO_BODY] += 1
            return None
        try:
            body = base64.b64decode(event.body or "", validate=True)
        except (binascii.Error, ValueError):
            body = b""
        if len(body) != event.body_size:
            self.skipped[CUT_BODY] += 1
            return None
        try:
            properties = header_of_json(self._properties(event)).raw
        except (PropertyError, ValueError):
            self.skipped[BAD_PROPERTIES] += 1
            return None
        key = event.routing_keys[0] if event.routing_keys else ""
        return Outgoing(event.time_us, event.exchange, key, properties, body, event.queues)

    def _properties(self, event: Event) -> dict[str, Any]:
        properties = dict(event.properties)
        if properties.get("user_id") not in (None, self.user):
            del properties["user_id"]
            self.adjusted += 1
        blind = _blind_keys(event.routing_keys[1:], properties.get("headers"))
        if blind:
            properties["headers"] = {**(properties.get("headers") or {}), "BCC": blind}
        return properties


def _blind_keys(keys: Iterable[str], headers: object) -> list[str]:
    """The keys of BCC, which is taken out of a message when it is published."""
    copies = headers.get("CC") if isinstance(headers, dict) else None
    visible = copies if isinstance(copies, list) else []
    return [key for key in keys if key not in visible]
