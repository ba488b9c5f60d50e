"""The known routes of a connection's messages (resolving.py looks them up).

A publisher repeats itself, so the exchange, the permission and the queues of a basic.publish are
kept as a `Target`, under the bytes of the method's arguments. A target is valid until the vhost's
generation changes.

Parts that do not depend on the routing key are kept for each exchange (`CheckedExchange`), so that
a new key costs a route and no more.

The targets of a connection are in two dictionaries. When the recent one has `TARGETS_MAX`, it
becomes the older one, and targets in the older one that were not used since are dropped. So a
program with more keys than that keeps its most used ones. A target refers to its queues, even to
deleted ones: outdated_targets.py drops targets that have to be looked up again.
"""

import struct
from typing import Final

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import frame_error
from leveret.broker.amqp.field_table import text_of
from leveret.broker.erlang.terms import format_binary
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.vhost.binding import Exchange
from leveret.storage.messages.message import Address

TARGETS_MAX: Final = 1024
"""Targets in each of the two dictionaries of a connection; a target takes about 700 bytes."""
UNKNOWN_WORK: Final = 1000
"""The work of a message whose queues have not been looked up."""

_MANDATORY: Final = 1
_IMMEDIATE: Final = 2
_TICKET_BYTES: Final = 2


class Target:
    """The route of a basic.publish with certain arguments. Each connection has its own targets,
    since permissions are the user's.

    is_simple: the queues are known, and are the same for every message. work: of one message, as
    far as it is known. header: the properties of the last message.
    """

    __slots__ = (
        "address", "exchange", "generation", "header", "is_immediate", "is_mandatory", "is_simple",
        "queues", "work",
    )  # fmt: skip

    def __init__(self, arguments: bytes) -> None:
        exchange_end = _TICKET_BYTES + 1 + arguments[_TICKET_BYTES]
        key_end = exchange_end + 1 + arguments[exchange_end]
        flags = arguments[key_end]
        if key_end + 1 != len(arguments):
            raise IndexError
        exchange = text_of(arguments[_TICKET_BYTES + 1 : exchange_end])
        routing_key = text_of(arguments[exchange_end + 1 : key_end])
        self.address = Address(exchange, routing_key, arguments[_TICKET_BYTES:key_end])
        self.is_mandatory = bool(flags & _MANDATORY)
        self.is_immediate = bool(flags & _IMMEDIATE)
        self.exchange: Exchange | None = None
        self.header: ContentHeader | None = None
        self.generation = -1
        self.is_simple = False
        self.queues: list[QueueClient] = []
        self.work = UNKNOWN_WORK


class CheckedExchange:
    """An exchange that the user may publish to, as of this generation of the vhost."""

    __slots__ = ("exchange", "generation", "is_topic")

    def __init__(self, exchange: Exchange, generation: int) -> None:
        self.exchange = exchange
        self.generation = generation
        self.is_topic = exchange.type_name == "topic"


class Targets:
    """The targets of one connection.

    recent: the targets that were used last, by their arguments. exchanges: by their names.
    """

    __slots__ = ("_older", "exchanges", "recent")

    def __init__(self) -> None:
        self.recent: dict[bytes, Target] = {}
        self._older: dict[bytes, Target] = {}
        self.exchanges: dict[str, CheckedExchange] = {}

    def find(self, arguments: bytes) -> Target:
        """The target for a basic.publish with these arguments. Raises 501 if they are malformed."""
        target = self.recent.get(arguments)
        if target is not None:
            return target
        target = self._older.get(arguments)
        if target is None:
            try:
                target = Target(arguments)
            except (IndexError, struct.error):
                raise frame_error(f"cannot decode {format_binary(arguments)}") from None
        if len(self.recent) >= TARGETS_MAX:
            # The dictionary stays: net/incoming.py refers to it.
            self._older = dict(self.recent)
            self.recent.clear()
        self.recent[arguments] = target
        return target

    def keep(self, checked: CheckedExchange) -> None:
        """The user may publish to this exchange."""
        if len(self.exchanges) >= TARGETS_MAX:
            self.exchanges.clear()
        self.exchanges[checked.exchange.name] = checked

    def drop_outdated(self, generation: int) -> None:
        """Drop the look-ups of another generation of the vhost than this one."""
        for found in (self.recent, self._older):
            for arguments, target in list(found.items()):
                if target.generation != generation:
                    del found[arguments]
        for name, checked in list(self.exchanges.items()):
            if checked.generation != generation:
                del self.exchanges[name]

    @property
    def count(self) -> int:
        """The number of targets."""
        return len(self.recent) + len(self._older) + len(self.exchanges)

    def clear(self) -> None:
        """Forget all, since the user's permissions may have changed or the connection ends."""
        self.recent.clear()
        self._older.clear()
        self.exchanges.clear()
