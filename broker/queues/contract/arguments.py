"""The x-arguments of a queue: checked as RabbitMQ checks them, and read into `QueueOptions`.

The texts, with their Erlang terms, are RabbitMQ's (`rabbit_amqqueue:check_declare_arguments`),
since clients' test suites match on them. Unknown arguments are accepted and kept.
"""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import INTEGER_LETTERS, Field, Table
from leveret.broker.amqp.field_terms import FIELD_TYPE_NAMES, typed_term
from leveret.broker.amqp.properties import TTL_MS_MAX
from leveret.broker.erlang.terms import format_term
from leveret.broker.queues.contract.deduplication_arguments import (
    CACHE_SIZE,
    CACHE_TTL,
    DEDUPLICATION,
    invalid_number,
    whole_number,
)
from leveret.broker.queues.contract.offset_specification import OFFSET_ARGUMENT, read_offset
from leveret.broker.queues.contract.queue_kind import TYPE_ARGUMENT
from leveret.broker.queues.contract.retry_arguments import read_multiplier
from leveret.broker.queues.contract.stream_arguments import (
    FILTER_BYTES_MAX,
    FILTER_BYTES_MIN,
    SEGMENT_BYTES_MAX,
    age_ms,
)
from leveret.broker.runtime.names import QUEUE, resource

PRIORITY_MAX = 255

QUEUE_MODES = ("default", "lazy")
DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX = "drop-head", "reject-publish", "reject-publish-dlx"
OVERFLOWS = (DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX)

AT_MOST_ONCE, AT_LEAST_ONCE = "at-most-once", "at-least-once"
STRATEGIES = (AT_MOST_ONCE, AT_LEAST_ONCE)
CONSUMER_TIMEOUT = "x-consumer-timeout"
"""An argument of queues and of consumers."""
EXPIRE_ON_TIME = "x-expire-on-time"
"""Whether a message leaves the queue when its time is over, wherever it is; not in RabbitMQ."""
LEADER_LOCATORS = ("client-local", "balanced", "random", "least-leaders")
NO_LIMIT = 1 << 62
"""A delivery limit that no message reaches: RabbitMQ's reading of a limit that is not a number, and
that of RabbitMQ 4 of one below 0."""


class QueueOptions(NamedTuple):
    """The options of a queue, from its arguments and policies. None or empty: not set.

    max_age_ms, segment_bytes and filter_bytes are those of streams: how long messages are kept, the
    size of a segment, and that of the filter of a chunk. deduplicates: messages with an identifier
    that the queue knows are not added; cache_size, cache_ttl_ms: how many it knows, and how long.
    expires_on_time: whether a message expires wherever it is in the queue; otherwise it expires at
    the head.
    """

    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: str = ""
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    max_priority: int | None = None
    single_active_consumer: bool = False
    queue_mode: str = ""
    consumer_timeout_ms: int | None = None
    delivery_limit: int | None = None
    dead_letter_strategy: str = ""
    delayed_retry_type: str = ""
    delayed_retry_min_ms: int | None = None
    delayed_retry_max_ms: int | None = None
    delayed_retry_multiplier: float | None = None
    max_age_ms: int | None = None
    segment_bytes: int | None = None
    filter_bytes: int | None = None
    deduplicates: bool = False
    cache_size: int | None = None
    cache_ttl_ms: int | None = None
    expires_on_time: bool | None = None

    @property
    def is_lazy(self) -> bool:
        """Messages are kept on disk rather than in memory."""
        return self.queue_mode == "lazy"

    @property
    def rejects_when_full(self) -> bool:
        """A full queue refuses messages, instead of dropping its oldest ones."""
        return self.overflow in (REJECT_PUBLISH, REJECT_PUBLISH_DLX)

    @property
    def keeps_dead_letters(self) -> bool:
        """A dead letter stays in the queue until each of its target queues has it.

        RabbitMQ's preconditions for at-least-once (`rabbit_quorum_queue:dlh`): there is a
        dead-letter exchange, and the queue drops nothing when it is full.
        """
        return (
            self.dead_letter_strategy == AT_LEAST_ONCE
            and self.dead_letter_exchange is not None
            and self.overflow == REJECT_PUBLISH
        )

    def is_exceeded(self, message_count: int, body_bytes: int) -> bool:
        """Whether a queue with this many ready messages and bytes of bodies is too long."""
        if self.max_length is not None and message_count > self.max_length:
            return True
        return self.max_length_bytes is not None and body_bytes > self.max_length_bytes

    def lower_ttl_ms(self, own_ms: int | None) -> int | None:
        """A message's time to live in the queue; None for no limit. own_ms: the message's own."""
        if own_ms is None or self.message_ttl_ms is None:
            return self.message_ttl_ms if own_ms is None else own_ms
        return min(own_ms, self.message_ttl_ms)

    @property
    def has_limit(self) -> bool:
        """There is a maximum length."""
        return self.max_length is not None or self.max_length_bytes is not None


class _Invalid(Exception):
    """An argument's value is wrong; the text is the Erlang term that RabbitMQ would print."""


def read_options(arguments: Table) -> QueueOptions:
    """The options in arguments that were checked."""

    def value(name: str, default: Any = None) -> Any:
        return arguments[name][1] if name in arguments else default

    return QueueOptions(
        message_ttl_ms=value("x-message-ttl"),
        expires_ms=value("x-expires"),
        max_length=value("x-max-length"),
        max_length_bytes=value("x-max-length-bytes"),
        overflow=value("x-overflow", ""),
        dead_letter_exchange=value("x-dead-letter-exchange"),
        dead_letter_routing_key=value("x-dead-letter-routing-key"),
        max_priority=value("x-max-priority"),
        single_active_consumer=value("x-single-active-consumer", False),
        queue_mode=value("x-queue-mode", ""),
        delivery_limit=_delivery_limit(arguments.get("x-delivery-limit")),
        dead_letter_strategy=value("x-dead-letter-strategy", ""),
        consumer_timeout_ms=value(CONSUMER_TIMEOUT),
        delayed_retry_type=_text_or_none(arguments.get("x-delayed-retry-type")) or "",
        delayed_retry_min_ms=_positive_or_none(arguments.get("x-delayed-retry-min")),
        delayed_retry_max_ms=_positive_or_none(arguments.get("x-delayed-retry-max")),
        delayed_retry_multiplier=read_multiplier(arguments.get("x-delayed-retry-multiplier")),
        max_age_ms=age_ms(_text_or_none(arguments.get("x-max-age")) or ""),
        segment_bytes=value("x-stream-max-segment-size-bytes"),
        filter_bytes=value("x-stream-filter-size-bytes"),
        deduplicates=value(DEDUPLICATION, False),
        cache_size=whole_number(arguments.get(CACHE_SIZE)),
        cache_ttl_ms=whole_number(arguments.get(CACHE_TTL)),
        expires_on_time=value(EXPIRE_ON_TIME),
    )


def _delivery_limit(field: Field | None) -> int | None:
    if field is None:
        return None
    return field[1] if field[0] in INTEGER_LETTERS and field[1] >= 0 else NO_LIMIT


def _text_or_none(field: Field | None) -> str | None:
    """A value that RabbitMQ does not check: another type is as good as none."""
    return field[1] if field is not None and field[0] == "S" else None


def _positive_or_none(field: Field | None) -> int | None:
    """Likewise, of a number."""
    is_number = field is not None and field[0] in INTEGER_LETTERS and field[1] > 0
    return field[1] if field is not None and is_number else None


def ignored_arguments(arguments: Table) -> list[str]:
    """The arguments of a quorum queue that have no effect, as their values have no meaning.

    RabbitMQ does not check them, and reads them as none.
    """
    limit = arguments.get("x-delivery-limit")
    target = arguments.get("x-quorum-target-group-size")
    is_meant = {
        "x-delivery-limit": limit is not None and limit[0] in INTEGER_LETTERS,
        "x-quorum-target-group-size": _positive_or_none(target),
    }
    return [name for name, value in is_meant.items() if name in arguments and not value]


def _check_values(
    checks: tuple[tuple[str, Callable[[Field, Table], None]], ...],
    arguments: Table,
    known: Collection[str],
    queue: str,
    vhost: str,
) -> None:
    """Raise 406 if a known argument has a bad type or value."""
    for name, check in checks:
        field = arguments.get(name)
        if field is None or name not in known:
            continue
        try:
            check(field, arguments)
        except _Invalid as invalid:
            raise precondition_failed(
                f"invalid arg '{name}' for {resource(QUEUE, queue, vhost)}: {invalid}"
            ) from None


def check_queue_type(
    arguments: Table, queue_types: Collection[str], queue: str, vhost: str
) -> None:
    """Raise 406 with RabbitMQ's text unless `x-queue-type` is one of these."""
    check = (TYPE_ARGUMENT, _one_of("queue type", queue_types))
    _check_values((check,), arguments, (TYPE_ARGUMENT,), queue, vhost)


def check_declare_arguments(
    arguments: Table, known: Collection[str], queue: str, vhost: str
) -> None:
    """Raise 406 with RabbitMQ's text for a bad value. known: arguments that such queues take."""
    _check_values(_CHECKS, arguments, known, queue, vhost)


def check_consume_arguments(
    arguments: Table, known: Collection[str], queue: str, vhost: str
) -> None:
    """Raise 406 with RabbitMQ's text for a bad value. known: arguments that its consumers take."""
    _check_values(_CONSUME_CHECKS, arguments, known, queue, vhost)


def check_dead_letter_exchange(arguments: Table, queue: str, vhost: str) -> str | None:
    """The dead-letter exchange's name. Raises 406 if it is not a string."""
    field = arguments.get("x-dead-letter-exchange")
    if field is None:
        return None
    if field[0] != "S":
        raise precondition_failed(
            f"invalid type '{FIELD_TYPE_NAMES[field[0]]}' for arg 'x-dead-letter-exchange' in "
            f"{resource(QUEUE, queue, vhost)}"
        )
    name: str = field[1]
    return name


def _quoted(text: str) -> _Invalid:
    return _Invalid(f'"{text}"')


def _check_integer(field: Field, _arguments: Table) -> None:
    if field[0] not in INTEGER_LETTERS:
        raise _quoted(f"expected integer, got {FIELD_TYPE_NAMES[field[0]]}")


def _check_not_negative(field: Field, arguments: Table) -> None:
    _check_integer(field, arguments)
    if field[1] < 0:
        raise _Invalid(f"{{value_negative,{field[1]}}}")


def _check_message_ttl(field: Field, arguments: Table) -> None:
    _check_not_negative(field, arguments)
    if field[1] > TTL_MS_MAX:
        raise _Invalid(f"{{value_too_large,{field[1]}}}")


def _check_expires(field: Field, arguments: Table) -> None:
    _check_integer(field, arguments)
    if field[1] == 0:
        raise _Invalid("{value_zero,0}")
    _check_message_ttl(field, arguments)


def _check_max_priority(field: Field, arguments: Table) -> None:
    _check_not_negative(field, arguments)
    if field[1] > PRIORITY_MAX:
        raise _Invalid(f"{{max_value_exceeded,{field[1]}}}")


def _require_type(field: Field, letter: str) -> None:
    if field[0] != letter:
        raise _Invalid(f"{{unacceptable_type,{FIELD_TYPE_NAMES[field[0]]}}}")


def _check_string(field: Field, _arguments: Table) -> None:
    _require_type(field, "S")


def _check_boolean(field: Field, _arguments: Table) -> None:
    _require_type(field, "t")


def _check_dead_letter_routing_key(field: Field, arguments: Table) -> None:
    _require_type(field, "S")
    if "x-dead-letter-exchange" not in arguments:
        raise _Invalid("routing_key_but_no_dlx_defined")


def _check_offset(field: Field, _arguments: Table) -> None:
    if read_offset(field, 0) is None:
        raise _Invalid(f"{{invalid_stream_offset_arg,{format_term(typed_term(field))}}}")


def _check_group_size(field: Field, arguments: Table) -> None:
    _check_not_negative(field, arguments)
    if field[1] == 0:
        raise _Invalid("{value_zero,0}")


def _check_age(field: Field, _arguments: Table) -> None:
    _require_type(field, "S")
    if not age_ms(field[1]):
        raise _Invalid("invalid_max_age")


def _check_segment_bytes(field: Field, arguments: Table) -> None:
    _check_not_negative(field, arguments)
    if field[1] > SEGMENT_BYTES_MAX:
        raise precondition_failed("Exceeded max value for x-stream-max-segment-size-bytes")


def _check_filter_bytes(field: Field, arguments: Table) -> None:
    _check_not_negative(field, arguments)
    if not FILTER_BYTES_MIN <= field[1] <= FILTER_BYTES_MAX:
        raise precondition_failed("Invalid value for x-stream-filter-size-bytes")


def _check_cache_number(name: str) -> Callable[[Field, Table], None]:
    def check(field: Field, _arguments: Table) -> None:
        problem = invalid_number(name, field)
        if problem:
            raise _quoted(problem)

    return check


def _one_of_words(values: Collection[str], problem: str) -> Callable[[Field, Table], None]:
    """A check whose text is an Erlang atom."""

    def check(field: Field, _arguments: Table) -> None:
        _require_type(field, "S")
        if field[1] not in values:
            raise _Invalid(problem)

    return check


def _one_of(what: str, values: Collection[str]) -> Callable[[Field, Table], None]:
    def check(field: Field, _arguments: Table) -> None:
        _require_type(field, "S")
        if field[1] not in values:
            raise _quoted(f"unsupported {what} '{field[1]}'")

    return check


def _check_queue_version(field: Field, arguments: Table) -> None:
    _check_not_negative(field, arguments)
    if field[1] not in (1, 2):
        raise _quoted(f"unsupported queue version '{field[1]}'")


_CHECKS: tuple[tuple[str, Callable[[Field, Table], None]], ...] = (
    ("x-expires", _check_expires),
    ("x-message-ttl", _check_message_ttl),
    ("x-dead-letter-exchange", _check_string),
    ("x-dead-letter-routing-key", _check_dead_letter_routing_key),
    ("x-dead-letter-strategy", _one_of_words(STRATEGIES, "invalid_dlx_strategy")),
    ("x-max-length", _check_not_negative),
    ("x-max-length-bytes", _check_not_negative),
    ("x-max-in-memory-length", _check_not_negative),
    ("x-max-in-memory-bytes", _check_not_negative),
    ("x-max-priority", _check_max_priority),
    ("x-overflow", _one_of_words(OVERFLOWS, "invalid_overflow")),
    ("x-queue-mode", _one_of("queue mode", QUEUE_MODES)),
    ("x-queue-version", _check_queue_version),
    ("x-single-active-consumer", _check_boolean),
    (CONSUMER_TIMEOUT, _check_not_negative),
    (EXPIRE_ON_TIME, _check_boolean),
    ("x-quorum-initial-group-size", _check_group_size),
    ("x-queue-leader-locator", _one_of_words(LEADER_LOCATORS, "invalid_queue_locator_arg")),
    ("x-initial-cluster-size", _check_group_size),
    ("x-max-age", _check_age),
    ("x-stream-max-segment-size-bytes", _check_segment_bytes),
    ("x-stream-filter-size-bytes", _check_filter_bytes),
    (DEDUPLICATION, _check_boolean),
    (CACHE_SIZE, _check_cache_number(CACHE_SIZE)),
    (CACHE_TTL, _check_cache_number(CACHE_TTL)),
)

_CONSUME_CHECKS: tuple[tuple[str, Callable[[Field, Table], None]], ...] = (
    ("x-priority", _check_integer),
    (CONSUMER_TIMEOUT, _check_not_negative),
    ("x-cancel-on-ha-failover", _check_boolean),
    (OFFSET_ARGUMENT, _check_offset),
)
