"""An exchange, and a binding from one to a queue or to another exchange."""

from typing import Any, ClassVar, Protocol

from leveret.broker.amqp.field_table import Table, encode_table
from leveret.broker.exchanges.exchange_type import ExchangeType
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.names import EXCHANGE, QUEUE
from leveret.broker.vhost.delayed_messages import DelayedMessages
from leveret.broker.vhost.replicated_delays import ReplicatedDelays
from leveret.broker.vhost.seen_identifiers import SeenIdentifiers

BindingKey = tuple[str, str, str, str, bytes]


class BindingWatcher(Protocol):
    """Told of an exchange's bindings as they are added and removed, in order."""

    def binding_added(self, binding: "Binding") -> None:
        """A new binding."""

    def binding_removed(self, binding: "Binding") -> None:
        """A binding was removed."""


class Exchange:
    """One exchange. `type` has its bindings in the form for routing; others have them by key.

    delayed: the messages that wait here; None unless the type is x-delayed-message. seen: the
    identifiers of messages that have passed; None unless it is x-message-deduplication.

    alternate_name: the exchange for messages that match nothing here; it need not exist.
    is_deleted: routing skips it, though bindings may still lead to it.
    published_count: messages that were published. routed_count: the copies that queues got.
    policy: the policy that applies. watchers: of its bindings; a new tuple when they change.
    """

    __slots__ = (
        "_exchanges", "alternate_name", "arguments", "auto_delete", "bindings", "delayed",
        "durable", "incoming", "internal", "is_deleted", "name", "policy", "published_count",
        "routed_count", "seen", "type", "type_name", "watchers",
    )  # fmt: skip

    is_exchange: ClassVar[bool] = True

    def __init__(
        self,
        exchanges: "dict[str, Exchange]",
        name: str,
        exchange_type: ExchangeType,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
    ) -> None:
        self._exchanges = exchanges
        self.name = name
        self.type = exchange_type
        self.type_name = exchange_type.name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        alternate = arguments.get("alternate-exchange")
        self.alternate_name: str | None = alternate[1] if alternate is not None else None
        self.bindings: dict[BindingKey, Binding] = {}
        self.incoming: dict[BindingKey, Binding] = {}
        self.is_deleted = False
        self.policy: Any = None
        self.delayed: DelayedMessages | ReplicatedDelays | None = None
        self.seen: SeenIdentifiers | None = None
        self.published_count = self.routed_count = 0
        self.watchers: tuple[BindingWatcher, ...] = ()

    def __repr__(self) -> str:
        return f"<Exchange {self.name!r}>"

    def change_type(self, exchange_type: ExchangeType) -> None:
        """Route by another table, which gets the bindings."""
        for binding in self.bindings.values():
            exchange_type.bind(binding.destination, binding.routing_key, binding.arguments)
        self.type = exchange_type

    @property
    def alternate(self) -> "Exchange | None":
        """The alternate exchange; None if there is none at this moment."""
        if self.alternate_name is None:
            return None
        return self._exchanges.get(self.alternate_name)


class Binding:
    """A binding from an exchange to a queue or an exchange, with a routing key and arguments."""

    __slots__ = ("arguments", "destination", "key", "routing_key", "source")

    def __init__(
        self,
        source: Exchange,
        destination: QueueClient | Exchange,
        routing_key: str,
        arguments: Table,
    ) -> None:
        self.source = source
        self.destination = destination
        self.routing_key = routing_key
        self.arguments = arguments
        self.key: BindingKey = (
            source.name, self.destination_kind, destination.name, routing_key,
            encode_table(arguments),
        )  # fmt: skip

    @property
    def destination_kind(self) -> str:
        """`queue` or `exchange`."""
        return EXCHANGE if self.destination.is_exchange else QUEUE

    @property
    def is_durable(self) -> bool:
        """Whether it survives a restart, as it does if both of its ends do."""
        return self.source.durable and self.destination.durable

    def attach(self) -> None:
        """Add the binding at both ends."""
        self.source.bindings[self.key] = self
        self._incoming()[self.key] = self
        self.source.type.bind(self.destination, self.routing_key, self.arguments)

    def detach(self) -> None:
        """Remove the binding at both ends."""
        del self.source.bindings[self.key]
        del self._incoming()[self.key]
        self.source.type.unbind(self.destination, self.routing_key, self.arguments)

    def lead_to(self, destination: QueueClient) -> None:
        """Lead to another object that stands for the same queue."""
        self.detach()
        self.destination = destination
        self.attach()

    def _incoming(self) -> "dict[BindingKey, Binding]":
        destination = self.destination
        return destination.incoming if isinstance(destination, Exchange) else destination.bindings
