"""Unroutable messages of a virtual host: their counts, and the last messages themselves.

RabbitMQ has one count for all exchanges, and drops unroutable messages silently unless their
publisher asked for their return.

Clients' publications and dead letters are noted in runs, so that a flood of unroutable messages
costs little. There is a count for each exchange and prefix of routing keys. The prefix ends with
the first dot, because the rest is often an id. When there are `COUNTS_MAX` counts, messages with
further prefixes are counted together for each exchange, under the prefix `OTHERS`. A dead-letter
exchange need not exist, so the number of exchanges is limited, too: when there are
`EXCHANGES_MAX` further counts, messages to further exchanges are counted under `OTHERS`.

The last `MESSAGES_MAX` messages are kept in memory, with at most `BODIES_BYTES_MAX` of bodies. If
the bodies of one run are larger than that, only the beginning of each body is kept.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from leveret.broker.runtime.clock import Clock
from leveret.storage.messages.message import Message

MESSAGES_MAX: Final = 1000
COUNTS_MAX: Final = 1000
EXCHANGES_MAX: Final = 10_000
BODIES_BYTES_MAX: Final = 1024 * 1024
BEGINNING_BYTES: Final = 1024
"""The size of the beginning that is kept of a body whose run is too large."""
PREFIX_CHARACTERS_MAX: Final = 64
OTHERS: Final = "*"


class UnroutableCount:
    """The count of messages to an exchange with one prefix of routing keys.

    messages: the number of unroutable messages. returned: the number of these that were returned to
    their publishers. last_ms: the wall clock time of the last one, in milliseconds.
    """

    __slots__ = ("exchange", "last_ms", "messages", "prefix", "returned")

    def __init__(self, exchange: str, prefix: str) -> None:
        self.exchange = exchange
        self.prefix = prefix
        self.messages = self.returned = self.last_ms = 0


class UnroutableRun:
    """Messages to one address that were published together.

    user: the name of their publisher's user; empty for dead letters. messages: the last messages,
    whose bodies may be shortened. sizes: the sizes in bytes of the bodies as published. body_bytes:
    the sum of the kept bodies.
    """

    __slots__ = ("body_bytes", "is_returned", "messages", "sizes", "time_ms", "user")

    def __init__(
        self, messages: Sequence[Message], user: str, is_returned: bool, time_ms: int
    ) -> None:
        self.user = user
        self.is_returned = is_returned
        self.time_ms = time_ms
        kept = messages[-MESSAGES_MAX:]
        self.sizes = [len(message.body) for message in kept]
        self.body_bytes = sum(self.sizes)
        if self.body_bytes > BODIES_BYTES_MAX:
            kept = [_shortened(message) for message in kept]
            self.body_bytes = sum([len(message.body) for message in kept])
        self.messages = kept


def _shortened(message: Message) -> Message:
    body = bytes(message.body[:BEGINNING_BYTES])
    return Message(message.address, message.header, body, None, message.number)


class UnroutableMessages:
    """The unroutable messages of one vhost on this node, since its start or the last `forget`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[tuple[str, str], UnroutableCount] = {}
        self._runs: deque[UnroutableRun] = deque()
        self._messages = 0
        self._body_bytes = 0

    def note(self, messages: Sequence[Message], user: str, is_returned: bool) -> None:
        """Note messages to one address, in the order in which they were published."""
        time_ms = int(self._clock.wall_time_s() * 1000)
        address = messages[0].address
        count = self._count_of(address.exchange, prefix_of(address.routing_key))
        count.messages += len(messages)
        count.last_ms = time_ms
        if is_returned:
            count.returned += len(messages)
        self._keep(UnroutableRun(messages, user, is_returned, time_ms))

    def _count_of(self, exchange: str, prefix: str) -> UnroutableCount:
        found = self._counts.get((exchange, prefix))
        if found is None and len(self._counts) >= COUNTS_MAX:
            prefix = OTHERS
            found = self._counts.get((exchange, prefix))
            if found is None and len(self._counts) >= COUNTS_MAX + EXCHANGES_MAX:
                exchange = OTHERS
        if found is None:
            found = self._counts.setdefault((exchange, prefix), UnroutableCount(exchange, prefix))
        return found

    def _keep(self, run: UnroutableRun) -> None:
        runs = self._runs
        runs.append(run)
        self._messages += len(run.messages)
        self._body_bytes += run.body_bytes
        while len(runs) > 1 and (
            self._messages - len(runs[0].messages) >= MESSAGES_MAX
            or self._body_bytes > BODIES_BYTES_MAX
        ):
            oldest = runs.popleft()
            self._messages -= len(oldest.messages)
            self._body_bytes -= oldest.body_bytes

    def counts(self) -> list[UnroutableCount]:
        """The counts, in no order."""
        return list(self._counts.values())

    def newest(self) -> Iterator[tuple[UnroutableRun, int]]:
        """The last messages, the newest first: for each its run, and its place in the run."""
        left = MESSAGES_MAX
        for run in reversed(tuple(self._runs)):
            for place in range(len(run.messages) - 1, -1, -1):
                if not left:
                    return
                left -= 1
                yield run, place

    def exchange_deleted(self, exchange: str) -> None:
        """Forget the counts of a deleted exchange, so that short-lived exchanges use no memory."""
        for key in [key for key in self._counts if key[0] == exchange]:
            del self._counts[key]

    def forget(self) -> None:
        """Forget all counts and messages, at an operator's request."""
        self._counts.clear()
        self._runs.clear()
        self._messages = self._body_bytes = 0


def prefix_of(routing_key: str) -> str:
    """The prefix under which a routing key is counted: `orders.` for `orders.eu.17`."""
    dot = routing_key.find(".")
    return routing_key[: PREFIX_CHARACTERS_MAX if dot < 0 else min(dot + 1, PREFIX_CHARACTERS_MAX)]
