"""The link of each queue: a shovel between the queues of one name at the source and the target.

    forward    from the source to the target: the default, and for streams, which are copied
    backward   from the target to the source: while only the source has consumers, or when the
               migration is rolled back

So producers and consumers move in either order: what is published at one broker reaches consumers
at the other. A link consumes with the lowest priority, and therefore takes only what the consumers
beside it do not. Its priority also tells its consumer from those of programs.

A link has a connection to the other broker. If there are more queues than connections allowed,
queues with messages to move are linked first, and a queue keeps its link while it has some.

Exclusive queues belong to a connection, and an auto-delete queue is deleted with its messages when
its last consumer, which might be the link, leaves: neither is linked. Pure.
"""

import hashlib
from collections.abc import Iterable, Mapping, Set
from typing import Any, Final, NamedTuple

from leveret.broker.runtime.names import RESERVED_PREFIX

STREAM: Final = "stream"
LINKED_KINDS: Final = ("classic", "quorum", STREAM)
FORWARD, BACKWARD = "forward", "backward"
LINK_PRIORITY: Final = -1_000_000
FROM_FIRST: Final = {"x-stream-offset": "first"}
QUEUE_PREFETCH: Final = 1000
STREAM_PREFETCH: Final = 997
"""Streams have no priorities: this prefetch count tells the link's consumer from others."""
NAME_PREFIX: Final = "migration "
NAME_BYTES_MAX: Final = 255

Place = tuple[str, str]
"""The vhost and the name of a queue."""


class QueueAtOne(NamedTuple):
    """A queue at one broker. messages: ready and unacknowledged; None while unknown.

    consumers: those of programs, without the link's. is_owned: it belongs to one connection.
    """

    kind: str
    messages: int | None
    consumers: int
    is_owned: bool = False
    is_auto_delete: bool = False


class QueueAtBoth(NamedTuple):
    """A queue of the source. target: None if it is missing there."""

    place: Place
    source: QueueAtOne
    target: QueueAtOne | None

    @property
    def is_stream(self) -> bool:
        """Whether its messages are copied."""
        return self.source.kind == STREAM

    @property
    def obstacle(self) -> str:
        """Why it has no link; empty if it may have one."""
        if self.source.is_owned:
            return "it belongs to a connection, whose program declares it again"
        if self.source.is_auto_delete:
            return "it is deleted with its last consumer, whose program declares it again"
        if self.place[1].startswith(RESERVED_PREFIX):
            return "its name was generated for a program, which declares it again"
        if self.target is None:
            return "it is not at the target"
        if self.source.kind not in LINKED_KINDS or self.target.kind not in LINKED_KINDS:
            return f"its type is {self.source.kind}"
        if self.is_stream and self.target.kind != STREAM:
            return f"it is a stream, and a {self.target.kind} queue at the target"
        return ""

    def left(self, *, is_returning: bool) -> int | None:
        """Messages that have to leave a broker before the migration, or its roll-back, may end.

        None while the number is unknown.
        """
        if self.obstacle and (is_returning or self.source.is_owned):
            return 0
        source = self.source.messages
        target = None if self.target is None else self.target.messages
        if self.is_stream:
            if is_returning:
                return 0
            return None if source is None or target is None else max(0, source - target)
        return target if is_returning else source


def direction_of(queue: QueueAtBoth, *, is_returning: bool) -> str:
    """Where a queue's messages are to go; empty if nowhere."""
    if queue.obstacle or (queue.is_stream and is_returning):
        return ""
    if queue.is_stream:
        return FORWARD
    assert queue.target is not None, "it is missing there"
    only_source_consumes = queue.source.consumers and not queue.target.consumers
    return BACKWARD if is_returning or only_source_consumes else FORWARD


def wanted_links(
    queues: Iterable[QueueAtBoth], now: Mapping[Place, str], failing: Set[Place], links_max: int,
    *, is_returning: bool,
) -> dict[Place, str]:  # fmt: skip
    """The directions of the queues that are to be linked. now: those that are linked. failing:
    those whose links do not move messages, which others must not wait for.
    """
    ranked = []
    for queue in queues:
        direction = direction_of(queue, is_returning=is_returning)
        if direction:
            is_linked = queue.place in now
            rank = not _has_some(queue, direction), queue.place in failing, not is_linked
            ranked.append((rank, queue.place, direction))
    return {place: direction for _, place, direction in sorted(ranked)[:links_max]}


def _has_some(queue: QueueAtBoth, direction: str) -> bool:
    """Whether a link in a direction would find messages, or it is not known."""
    if queue.is_stream:
        return queue.left(is_returning=False) != 0
    assert queue.target is not None, "it is linked"
    messages = queue.source.messages if direction == FORWARD else queue.target.messages
    return messages != 0


def is_links(consumer: Mapping[str, Any]) -> bool:
    """Whether a consumer, as the HTTP API lists it, is that of a link."""
    arguments = consumer.get("arguments") or {}
    if arguments == FROM_FIRST:
        return consumer.get("prefetch_count") == STREAM_PREFETCH
    return bool(arguments.get("x-priority") == LINK_PRIORITY)


def link_name(queue: str) -> str:
    """The name of a queue's shovel."""
    name = NAME_PREFIX + queue
    if len(name.encode()) <= NAME_BYTES_MAX:
        return name
    return NAME_PREFIX + hashlib.sha256(queue.encode()).hexdigest()


def link_value(queue: str, direction: str, source: str, target: str, *, is_stream: bool) -> Any:
    """The parameter of a queue's shovel. source, target: URIs of the queue's vhost."""
    taken_from, sent_to = (source, target) if direction == FORWARD else (target, source)
    arguments = FROM_FIRST if is_stream else {"x-priority": LINK_PRIORITY}
    return {
        "src-uri": taken_from, "src-queue": queue, "src-predeclared": True,
        "src-consumer-args": arguments,
        "src-prefetch-count": STREAM_PREFETCH if is_stream else QUEUE_PREFETCH,
        "dest-uri": sent_to, "dest-queue": queue, "dest-predeclared": True,
        "dest-add-source-headers": True,
        "ack-mode": "on-confirm",
    }  # fmt: skip
