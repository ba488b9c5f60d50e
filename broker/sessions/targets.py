"""The known routes of a connection's messages (resolving.py looks them up).

A publisher uses the same addresses again and again, so the exchange, the permission and the queues
of an address are kept as a `PublishTarget`, under a key of bytes that the protocol chooses: in AMQP
0-9-1 the arguments of basic.publish (publish_arguments.py). A target is valid until the vhost's
generation changes.

Parts that do not depend on the routing key are kept for each exchange (`CheckedExchange`), so that
a new key costs only a route.

The targets of a connection are in two dictionaries. When the recent one has `TARGETS_MAX`, it
becomes the older one, and targets in the older one that were not used in between are dropped. So a
program with more keys keeps its most used ones. A target refers to its queues, even to deleted
ones: outdated_targets.py drops targets that have to be looked up again.
"""

from typing import Final

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.vhost.binding import Exchange
from leveret.storage.messages.message import Address

TARGETS_MAX: Final = 1024
"""Targets in each of the two dictionaries of a connection; a target takes about 700 bytes."""
UNKNOWN_WORK: Final = 1000
"""The work of a message whose queues have not been looked up."""
RUN_WORK: Final = 8
"""The work of a run of messages in addition to that of each, in the units of
broker/runtime/turns.py."""


def address_key(encoded: bytes, is_mandatory: bool) -> bytes:
    """The key by which `Targets.find_by_address` keeps a target. encoded: as in `Address`."""
    return encoded + (b"\1" if is_mandatory else b"\0")


class PublishTarget:
    """The route of messages to one address. Each connection has its own targets, since permissions
    are the user's.

    is_mandatory: messages that reach no queue are returned. is_simple: the queues are known, and
    are the same for every message. deduplicates: a queue or the exchange refuses duplicates,
    so that identifiers are checked. work: that of one message, if it is known. header: the
    properties of the last message.
    """

    __slots__ = (
        "address", "deduplicates", "exchange", "generation", "header", "is_mandatory", "is_simple",
        "queues", "work",
    )  # fmt: skip

    def __init__(self, address: Address, is_mandatory: bool) -> None:
        self.address = address
        self.is_mandatory = is_mandatory
        self.exchange: Exchange | None = None
        self.header: ContentHeader | None = None
        self.generation = -1
        self.is_simple = False
        self.deduplicates = False
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

    recent: the targets that were used last, by their keys. exchanges: by their names.
    """

    __slots__ = ("_older", "exchanges", "recent")

    def __init__(self) -> None:
        self.recent: dict[bytes, PublishTarget] = {}
        self._older: dict[bytes, PublishTarget] = {}
        self.exchanges: dict[str, CheckedExchange] = {}

    def find(self, key: bytes) -> PublishTarget | None:
        """The target that is known by this key."""
        target = self.recent.get(key)
        if target is None:
            target = self._older.get(key)
            if target is not None:
                self.add(key, target)
        return target

    def add(self, key: bytes, target: PublishTarget) -> None:
        """Keep this target under a key by which the protocol will look for it."""
        if len(self.recent) >= TARGETS_MAX:
            # The dictionary stays: amqp091/connection/incoming.py refers to it.
            self._older = dict(self.recent)
            self.recent.clear()
        self.recent[key] = target

    def find_by_address(self, exchange: str, routing_key: str, is_mandatory: bool) -> PublishTarget:
        """The target for messages that are published to this address."""
        encoded = encode_short_string(exchange) + encode_short_string(routing_key)
        key = address_key(encoded, is_mandatory)
        target = self.find(key)
        if target is None:
            target = PublishTarget(Address(exchange, routing_key, encoded), is_mandatory)
            self.add(key, target)
        return target

    def keep(self, checked: CheckedExchange) -> None:
        """Keep an exchange that the user may publish to."""
        if len(self.exchanges) >= TARGETS_MAX:
            self.exchanges.clear()
        self.exchanges[checked.exchange.name] = checked

    def drop_outdated(self, generation: int) -> None:
        """Drop the look-ups of another generation of the vhost than this one."""
        for found in (self.recent, self._older):
            for key, target in list(found.items()):
                if target.generation != generation:
                    del found[key]
        for name, checked in list(self.exchanges.items()):
            if checked.generation != generation:
                del self.exchanges[name]

    @property
    def count(self) -> int:
        """The number of targets."""
        return len(self.recent) + len(self._older) + len(self.exchanges)

    def clear(self) -> None:
        """Forget all targets: the user's permissions may have changed, or the connection ends."""
        self.recent.clear()
        self._older.clear()
        self.exchanges.clear()
