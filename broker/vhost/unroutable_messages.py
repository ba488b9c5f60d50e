"""The messages of a virtual host that reached no queue: how many, and the last ones.

RabbitMQ counts them for all exchanges together, and drops them silently if their publisher did not
ask for their return.

Clients' publications and dead letters are noted in runs, so that a flood of unroutable messages
costs little. Counts are by exchange and by the beginning of the routing key, up to its first
dot; what comes after it is often an id. When there are `COUNTS_MAX` of them, further beginnings are
counted together for each exchange, as `OTHERS`.

The last `MESSAGES_MAX` messages are kept in memory, of bodies `BODIES_BYTES_MAX` in all. Of a
message whose run has more than that, the beginning is kept.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from leveret.broker.runtime.clock import Clock
from leveret.storage.messages.message import Message

MESSAGES_MAX: Final = 1000
COUNTS_MAX: Final = 1000
BODIES_BYTES_MAX: Final = 1024 * 1024
BEGINNING_BYTES: Final = 1024
"""Of the body of a message whose run is too large to be kept."""
PREFIX_CHARACTERS_MAX: Final = 64
OTHERS: Final = "*"


class UnroutableCount:
    """The messages to an exchange whose routing keys begin alike.

    messages: how many reached no queue. returned: how many of these were returned to their
    publishers. last_ms: when the last one was published, in milliseconds of the wall clock.
    """

    __slots__ = ("exchange", "last_ms", "messages", "prefix", "returned")

    def __init__(self, exchange: str, prefix: str) -> None:
        self.exchange = exchange
        self.prefix = prefix
        self.messages = self.returned = self.last_ms = 0


class UnroutableRun:
    """Messages to one address that were published together.

    user: the name of their publisher's user; empty for dead letters. messages: the last ones, of
    which the bodies may have been shortened. sizes: those of the bodies that were published, in
    bytes. body_bytes: of the bodies that are kept.
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
    """The unroutable messages of one vhost on this node, since it started or was told to forget."""

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
        if found is None:
            if len(self._counts) >= COUNTS_MAX:
                prefix = OTHERS
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
        """The last messages, the newest first: their runs, and their places in these."""
        left = MESSAGES_MAX
        for run in reversed(tuple(self._runs)):
            for place in range(len(run.messages) - 1, -1, -1):
                if not left:
                    return
                left -= 1
                yield run, place

    def exchange_deleted(self, exchange: str) -> None:
        """Forget the counts of an exchange: there are none of exchanges that come and go."""
        for key in [key for key in self._counts if key[0] == exchange]:
            del self._counts[key]

    def forget(self) -> None:
        """Forget counts and messages, which an operator has seen."""
        self._counts.clear()
        self._runs.clear()
        self._messages = self._body_bytes = 0


def prefix_of(routing_key: str) -> str:
    """The beginning of a routing key by which it is counted: `orders.` of `orders.eu.17`."""
    dot = routing_key.find(".")
    return routing_key[: PREFIX_CHARACTERS_MAX if dot < 0 else min(dot + 1, PREFIX_CHARACTERS_MAX)]
