"""The parameters of the component `shovel`: each defines a shovel.

The keys, their defaults and the texts of errors are those of RabbitMQ 3.10
(`rabbit_shovel_parameters`), `src-predeclared` and `dest-predeclared` those of 4.0, with these
differences: AMQP 1.0 is refused, and so are values that RabbitMQ accepts although the shovel then
fails: a missing URI, and names, properties and arguments that do not fit into their fields. As in
RabbitMQ, the values of queue and consumer arguments are checked by the server that gets them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.policies.ack_modes import NO_ACK, ON_CONFIRM, ON_PUBLISH
from leveret.broker.policies.parameter_validation import (
    Check,
    ParameterKey,
    anything,
    boolean,
    bounded,
    keys_of,
    number,
    number_up_to,
    object_with,
    one_of,
    raise_any,
    seconds,
    short_text,
    shown_term,
    uri_list,
    uris_with,
)

AMQP091, AMQP10 = "amqp091", "amqp10"
NEVER, QUEUE_LENGTH = "never", "queue-length"
PREFETCH_COUNT: Final = 1000
PREFETCH_COUNT_MAX: Final = 65535
RECONNECT_DELAY_S: Final = 5.0

QUEUE_ARGUMENTS = (
    "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key",
    "x-dead-letter-strategy", "x-max-length", "x-max-length-bytes", "x-max-in-memory-length",
    "x-max-in-memory-bytes", "x-max-priority", "x-overflow", "x-queue-mode", "x-queue-version",
    "x-single-active-consumer", "x-queue-type", "x-quorum-initial-group-size", "x-max-age",
    "x-stream-max-segment-size-bytes", "x-initial-cluster-size", "x-queue-leader-locator",
)  # fmt: skip
CONSUMER_ARGUMENTS = ("x-priority", "x-cancel-on-ha-failover", "x-stream-offset")


class ShovelDeclaration(NamedTuple):
    """A declaration that a static shovel makes: a method's name, and its arguments."""

    method: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class ShovelSource:
    """Where messages come from: either a queue or an exchange is given.

    uris: they contain passwords. queue_arguments: those of a queue that does not exist yet.
    delete_after: the number of messages after which the shovel deletes itself, or `queue-length`
    for those that are in the queue when it starts; None for never. declarations: those of a static
    shovel, which declares nothing else; its queue may be empty, for the one that was declared last.
    is_predeclared: a missing queue is not declared; the shovel waits for it.
    """

    uris: tuple[str, ...] = field(repr=False)
    queue: str | None = None
    exchange: str | None = None
    exchange_key: str = ""
    queue_arguments: Table = field(default_factory=dict)
    consumer_arguments: Table = field(default_factory=dict)
    prefetch_count: int = PREFETCH_COUNT
    delete_after: str | int | None = None
    declarations: tuple[ShovelDeclaration, ...] | None = None
    is_predeclared: bool = False


@dataclass(frozen=True)
class ShovelDestination:
    """Where messages go: at most one of queue and exchange is given.

    exchange, exchange_key: None for the message's own. properties: those that are set, by the names
    of AMQP (`content_type`). adds_source_headers: messages that may be copies of others get headers
    that say so; RabbitMQ has none. is_predeclared: as of the source.
    """

    uris: tuple[str, ...] = field(repr=False)
    queue: str | None = None
    exchange: str | None = None
    exchange_key: str | None = None
    queue_arguments: Table = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    adds_forward_headers: bool = False
    adds_timestamp_header: bool = False
    adds_source_headers: bool = False
    declarations: tuple[ShovelDeclaration, ...] = ()
    is_predeclared: bool = False


@dataclass(frozen=True)
class QueueBounds:
    """Bounds of a queue's messages, both ready and unacknowledged, and of their bytes."""

    messages_above: int | None = None
    messages_below: int | None = None
    bytes_above: int | None = None
    bytes_below: int | None = None

    def are_passed(self, messages: int, size: int) -> bool:
        """Whether one of the given bounds is passed. size: in bytes."""
        return (
            (self.messages_above is not None and messages > self.messages_above)
            or (self.messages_below is not None and messages < self.messages_below)
            or (self.bytes_above is not None and size > self.bytes_above)
            or (self.bytes_below is not None and size < self.bytes_below)
        )


@dataclass(frozen=True)
class Threshold:
    """When a shovel moves messages: it begins when the queue, in the shovel's vhost, passes a bound
    of `start`, and ends when the queue passes a bound of `stop`.
    """

    queue: str
    start: QueueBounds
    stop: QueueBounds


@dataclass(frozen=True)
class ShovelDefinition:
    """A shovel. reconnect_delay_s: 0 for a shovel that is not started again when it fails.

    threshold: None for a shovel that always runs. RabbitMQ has none.
    """

    source: ShovelSource
    destination: ShovelDestination
    ack_mode: str = ON_CONFIRM
    reconnect_delay_s: float = RECONNECT_DELAY_S
    threshold: Threshold | None = None


NodeVhost = Callable[[str], list[str]]
"""The problem with connecting to a vhost of the node itself; by default there is none."""


def _arguments(known: tuple[str, ...]) -> Check:
    check_keys = object_with([ParameterKey(name, anything) for name in known])

    def check(name: str, value: Any) -> list[str]:
        wrong = check_keys(name, value)
        if not wrong:
            try:
                json_to_table(_object(value))
            except ValueError as error:
                return [f"{name} should be a field table: {error}"]
        return wrong

    return check


def _delete_after(name: str, value: Any) -> list[str]:
    if value in (NEVER, QUEUE_LENGTH):
        return []
    if _is_integer(value) and value >= 0:
        return []
    allowed = f'a number greater than or equal to 0, "{NEVER}" or "{QUEUE_LENGTH}"'
    return [f"{name} should be {allowed}, actually was {shown_term(value)}"]


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


PROPERTIES = (
    ParameterKey("content_type", short_text),
    ParameterKey("content_encoding", short_text),
    ParameterKey("delivery_mode", number_up_to(255)),
    ParameterKey("priority", number_up_to(255)),
    ParameterKey("correlation_id", short_text),
    ParameterKey("reply_to", short_text),
    ParameterKey("expiration", short_text),
    ParameterKey("message_id", short_text),
    ParameterKey("timestamp", number_up_to(2**64 - 1)),
    ParameterKey("type", short_text),
    ParameterKey("user_id", short_text),
    ParameterKey("app_id", short_text),
    ParameterKey("cluster_id", short_text),
)
"""The properties that a shovel may set."""


BOUNDS = ("messages-above", "messages-below", "bytes-above", "bytes-below")


def _bounds(name: str, value: Any) -> list[str]:
    if value in ({}, []):
        return [f"{name} should have one of {', '.join(BOUNDS)}"]
    return object_with([ParameterKey(one, number_up_to(2**63)) for one in BOUNDS])(name, value)


THRESHOLD = object_with(
    [
        ParameterKey("queue", short_text, is_mandatory=True),
        ParameterKey("start", _bounds, is_mandatory=True),
        ParameterKey("stop", _bounds, is_mandatory=True),
    ]
)


def _keys(check_uris: Check) -> tuple[ParameterKey, ...]:
    """The keys in the order in which RabbitMQ checks them."""
    return (
        ParameterKey("reconnect-delay", number),
        ParameterKey("ack-mode", one_of(NO_ACK, ON_PUBLISH, ON_CONFIRM)),
        ParameterKey("src-protocol", one_of(AMQP10, AMQP091)),
        ParameterKey("dest-protocol", one_of(AMQP10, AMQP091)),
        ParameterKey("src-uri", check_uris, is_mandatory=True),
        ParameterKey("src-exchange", short_text),
        ParameterKey("src-exchange-key", short_text),
        ParameterKey("src-queue", short_text),
        ParameterKey("src-queue-args", _arguments(QUEUE_ARGUMENTS)),
        ParameterKey("src-consumer-args", _arguments(CONSUMER_ARGUMENTS)),
        ParameterKey("src-predeclared", boolean),
        ParameterKey("prefetch-count", number),
        ParameterKey("src-prefetch-count", number),
        ParameterKey("delete-after", _delete_after),
        ParameterKey("src-delete-after", _delete_after),
        ParameterKey("dest-uri", check_uris, is_mandatory=True),
        ParameterKey("dest-exchange", short_text),
        ParameterKey("dest-exchange-key", short_text),
        ParameterKey("dest-queue", short_text),
        ParameterKey("dest-queue-args", _arguments(QUEUE_ARGUMENTS)),
        ParameterKey("dest-predeclared", boolean),
        ParameterKey("add-forward-headers", boolean),
        ParameterKey("add-timestamp-header", boolean),
        ParameterKey("dest-add-forward-headers", boolean),
        ParameterKey("dest-add-timestamp-header", boolean),
        ParameterKey("dest-add-source-headers", boolean),
        ParameterKey("publish-properties", object_with(PROPERTIES)),
        ParameterKey("dest-publish-properties", object_with(PROPERTIES)),
        ParameterKey("threshold", THRESHOLD),
    )


def check_shovel(name: str, value: Any, node_vhost: NodeVhost = lambda _vhost: []) -> None:
    """Check a value of JSON. Raises ParameterError.

    node_vhost: says whether the user may connect to a vhost of the node itself.
    """
    given: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    amqp10 = [key for key in ("src-protocol", "dest-protocol") if given.get(key) == AMQP10]
    raise_any([
        f"{key} should be {AMQP091}, since AMQP 1.0 is not supported, "
        f"actually was {shown_term(given[key])}"
        for key in amqp10
    ])  # fmt: skip
    errors: list[str] = []
    if isinstance(value, Mapping | list):
        errors += _together(given)
    raise_any([*errors, *keys_of(name, _keys(uris_with(node_vhost)), value)])


def _together(given: Mapping[str, Any]) -> Iterator[str]:
    """The problems of keys that depend on each other."""
    if "src-exchange" not in given and "src-queue" not in given:
        yield "Must specify 'src-exchange' or 'src-queue'"
    if "src-exchange" in given and "src-queue" in given:
        yield "Cannot specify 'src-exchange' and 'src-queue'"
    if _is_integer(_first(given, NEVER, "src-delete-after", "delete-after")) and (
        given.get("ack-mode") == NO_ACK
    ):
        yield "Cannot specify 'no-ack' and numerical 'delete-after'"
    if "dest-exchange" in given and "dest-queue" in given:
        yield "Cannot specify 'dest-exchange' and 'dest-queue'"


def parse_shovel(name: str, value: Any) -> ShovelDefinition:
    """The shovel that a value of JSON defines. Raises ParameterError."""
    check_shovel(name, value)
    return ShovelDefinition(
        _source(value), _destination(value), value.get("ack-mode", ON_CONFIRM),
        seconds(value.get("reconnect-delay", RECONNECT_DELAY_S)), _threshold(value),
    )  # fmt: skip


def _threshold(given: Mapping[str, Any]) -> Threshold | None:
    found = given.get("threshold")
    if found is None:
        return None

    def bounds(name: str) -> QueueBounds:
        return QueueBounds(*(found[name].get(one) for one in BOUNDS))

    return Threshold(found["queue"], bounds("start"), bounds("stop"))


def _first(given: Mapping[str, Any], default: Any, *keys: str) -> Any:
    """The value of the first key that is there. Older names of keys are tried last."""
    return next((given[key] for key in keys if key in given), default)


def _source(given: Mapping[str, Any]) -> ShovelSource:
    prefetch_count = _first(given, PREFETCH_COUNT, "src-prefetch-count", "prefetch-count")
    delete_after = _first(given, NEVER, "src-delete-after", "delete-after")
    return ShovelSource(
        uris=uri_list(given["src-uri"]),
        queue=given.get("src-queue"),
        exchange=given.get("src-exchange"),
        exchange_key=given.get("src-exchange-key", ""),
        queue_arguments=json_to_table(_object(given.get("src-queue-args"))),
        consumer_arguments=json_to_table(_object(given.get("src-consumer-args"))),
        prefetch_count=bounded(prefetch_count, PREFETCH_COUNT_MAX),
        delete_after=None if delete_after == NEVER else delete_after,
        is_predeclared=given.get("src-predeclared", False),
    )


def _destination(given: Mapping[str, Any]) -> ShovelDestination:
    properties = _first(given, None, "dest-publish-properties", "publish-properties")
    return ShovelDestination(
        uris=uri_list(given["dest-uri"]),
        queue=given.get("dest-queue"),
        exchange=given.get("dest-exchange"),
        exchange_key=given.get("dest-exchange-key"),
        queue_arguments=json_to_table(_object(given.get("dest-queue-args"))),
        properties={
            key: value if isinstance(value, str) else int(value)
            for key, value in _object(properties).items()
        },
        adds_forward_headers=_first(
            given, False, "dest-add-forward-headers", "add-forward-headers"
        ),
        adds_timestamp_header=_first(
            given, False, "dest-add-timestamp-header", "add-timestamp-header"
        ),
        adds_source_headers=given.get("dest-add-source-headers", False),
        is_predeclared=given.get("dest-predeclared", False),
    )


def _object(value: Any) -> dict[str, Any]:
    """An object of JSON. An empty list is one without keys, as Erlang has it."""
    return dict(value or {})
