"""The account of a run with streams: which message all readers got at each offset.

A reading is what one consumer gets. Its offsets follow each other; after retention has overtaken
it, it goes on later. Each offset has the same body in all readings, also in the last ones, which
are made on all nodes when everything is over: so nothing was delivered that was not committed.
"""

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.jepsen.account import SHOWN, Account

if TYPE_CHECKING:
    from tests.jepsen.group_account import GroupAccount

NAMED = "named"
"""The beginning of the names of publishers with deduplication."""
MESSAGE = re.compile(rb"(?:named|end|[a-e])>[\w-]+#\d+ ")


def parse(body: bytes) -> tuple[str, bytes]:
    """The message in an entry, and the body from there on."""
    found = MESSAGE.search(body)
    if found is None:
        return f"no message: {body[:80]!r}", body
    return found[0][:-1].decode(), body[found.start() :]


class Reading:
    """What one consumer has got of a stream. next_offset: of what it gets next; None: any."""

    def __init__(self, account: "StreamAccount", queue: str, who: str) -> None:
        self.next_offset: int | None = None
        self.messages: dict[int, str] = {}
        self._account = account
        self._queue = queue
        self._who = who

    def take(self, offset: int, body: bytes) -> str:
        """Note a message; returns which one it is."""
        message, body = parse(body)
        account, wanted = self._account, self.next_offset
        if wanted is not None and offset != wanted:
            is_overtaken = offset > wanted and self._queue in account.short
            if not is_overtaken:
                account.wrong.append(
                    f"{self._who} got offset {offset} of {self._queue} for {wanted}"
                )
        self.next_offset = offset + 1
        self.messages[offset] = message
        known = account.bodies.setdefault(self._queue, {}).setdefault(offset, (message, hash(body)))
        if known != (message, hash(body)):
            account.wrong.append(
                f"{self._who} got {message} at {offset} of {self._queue}, where {known[0]} was"
            )
        account.consumed[message] += 1
        return message


class StoredOffset:
    """The offset that a consumer stores under a name, which grows.

    stored: the last one that another node has shown, so it is in the log. doubtful: those that may
    still be on their way from a node that was lost; they may come after later ones. through: the
    last one that was stored through each node, which shows it until it knows that it is in the log.
    """

    def __init__(self, account: "StreamAccount", queue: str) -> None:
        self.stored = 0
        self.doubtful: set[int] = set()
        self.through: dict[str, int] = {}
        self._account = account
        self._queue = queue

    def found(self, offset: int, node: str) -> None:
        """A node has shown this one."""
        is_known = offset in self.doubtful or offset == self.through.get(node)
        if offset < self.stored and not is_known:
            self._account.wrong.append(
                f"{node} has the stored offset {offset} of {self._queue} after {self.stored}"
            )


class StreamAccount(Account):
    """What clients of streams saw. short: the streams whose retention removes messages.

    bodies: by stream and offset, the message and a hash of its body. last: a reading by each node
    of each stream when all is over. groups: of single active consumers, by their streams.
    """

    def __init__(self, short: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.short = short
        self.bodies: dict[str, dict[int, tuple[str, int]]] = {}
        self.wrong: list[str] = []
        self.last: dict[str, list[Reading]] = {}
        self.groups: dict[str, GroupAccount] = {}

    @property
    def missing(self) -> set[str]:
        """The messages that were confirmed, and that are in no last reading."""
        left = {one for found in self.last.values() for one in found[0].messages.values()}
        return {one for one in self.confirmed.keys() - left if _queue_of(one) not in self.short}

    def more_figures(self) -> list[str]:
        """More lines to print."""
        return [
            f"{group.changes} times a member of the group of {queue} became active"
            for queue, group in self.groups.items()
        ]

    def problems(self, is_exact: bool = False) -> list[str]:
        """What must not be, after all streams were read on all nodes."""
        problems = super().problems() + self.wrong[:SHOWN]
        for queue, readings in self.last.items():
            first = readings[0].messages
            for other in readings[1:]:
                # Members remove segments by their own clocks.
                both = first.keys() & other.messages.keys()
                if not both or max(first) > max(both) or max(other.messages) > max(both):
                    problems.append(f"members of {queue} end at different offsets")
            problems += self._order(queue, [first[offset] for offset in sorted(first)])
        return problems

    def _order(self, queue: str, messages: list[str]) -> list[str]:
        """Each publisher's messages are in its order, each once; a named one's without gaps."""
        problems = []
        numbers: dict[str, list[int]] = {}
        for message in messages:
            publisher, _, number = message.partition("#")
            numbers.setdefault(publisher, []).append(int(number))
        for publisher, found in numbers.items():
            for before, number in pairwise(found):
                has_gap = publisher.startswith(NAMED) and number != before + 1
                if number <= before or has_gap:
                    problems.append(f"{publisher}#{number} follows #{before} in {queue}")
        return problems[:SHOWN]


def _queue_of(message: str) -> str:
    return message.partition(">")[2].partition("#")[0]
