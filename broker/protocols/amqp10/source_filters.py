"""The filters of a link from the broker: which messages of a stream its client wants.

A filter is a described value, whose descriptor is the type of the filter; the client chooses the
names of filters. The exceptions are RabbitMQ's (rabbit_amqp_session.erl): an SQL filter has the
name `sql-filter`, and filters named `rabbitmq:stream-...` may have no descriptor. SQL filters and
property filters exclude each other, and each section can have one filter: the last one counts.

As in RabbitMQ, an invalid or unknown filter is not an error. It is missing from the answer to the
attach, which lists the filters in force, and a warning is logged. Only streams have filters; for
other queues, the first message of a link cannot be chosen either.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp10.filters.message_fields import MessageFields, Scalar
from leveret.broker.amqp10.filters.message_filter import MessageFilter
from leveret.broker.amqp10.filters.property_filters import (
    APPLICATION_PROPERTIES,
    PROPERTIES,
    FilterError,
    read_property_filter,
)
from leveret.broker.amqp10.filters.sql_parser import parse_sql
from leveret.broker.amqp10.filters.sql_tokens import SqlError
from leveret.broker.amqp10.values import Value

SQL: Final = "sql"
SQL_NAME: Final = "sql-filter"
_OFFSET: Final = "rabbitmq:stream-offset-spec"
_FILTER: Final = "rabbitmq:stream-filter"
_MATCH_UNFILTERED: Final = "rabbitmq:stream-match-unfiltered"
_ARGUMENTS: Final = {
    _OFFSET: "x-stream-offset", _FILTER: "x-stream-filter",
    _MATCH_UNFILTERED: "x-stream-match-unfiltered",
}  # fmt: skip
_CONDITIONS: Final[dict[str | int, str]] = {
    "amqp:properties-filter": PROPERTIES, 0x173: PROPERTIES,
    "amqp:application-properties-filter": APPLICATION_PROPERTIES, 0x174: APPLICATION_PROPERTIES,
    "amqp:sql-filter": SQL, 0x120: SQL,
}  # fmt: skip
_DESCRIPTOR_KINDS: Final = frozenset(("symbol", "ulong"))
_INTEGERS: Final = frozenset((
    "ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long",
))  # fmt: skip

logger = logging.getLogger("leveret.connection")

_Condition = Callable[[MessageFields], Scalar]


class SourceFilters(NamedTuple):
    """The filters of one link that are in force.

    taken: the filters for the answer to the client; None if it has asked for none. arguments: the
    arguments of the consumer. message_filter: None without conditions.
    """

    taken: Value | None
    arguments: Table
    message_filter: MessageFilter | None


def read_filters(
    filters: Value | None, *, is_stream: bool, now_ms: Callable[[], int]
) -> SourceFilters:
    """The filters of a link. is_stream: it reads a stream. now_ms: milliseconds since 1970."""
    if filters is None or filters.kind != "map":
        return SourceFilters(None, {}, None)
    taken: list[tuple[Value, Value]] = []
    arguments: Table = {}
    conditions: dict[str, _Condition] = {}
    for name, value in reversed(filters.value):
        kind, content = _kind_and_content(name, value)
        if kind in _ARGUMENTS:
            field = _field_of(str(kind), content)
            if field is None:
                continue
            if is_stream:
                arguments[_ARGUMENTS[str(kind)]] = field
        elif not is_stream or not _add_condition(name, kind, content, conditions, now_ms):
            continue
        taken.append((name, value))
    message_filter = MessageFilter(list(conditions.values())) if conditions else None
    return SourceFilters(Value("map", taken[::-1]), arguments, message_filter)


def _kind_and_content(name: Value, value: Value) -> tuple[object, Value]:
    """The descriptor of a filter, and what it describes."""
    if value.kind == "described":
        descriptor, content = value.value
        return (descriptor.value if descriptor.kind in _DESCRIPTOR_KINDS else None), content
    return (name.value if name.value in _ARGUMENTS else None), value


def _field_of(kind: str, value: Value) -> Field | None:
    """The argument of a filter; None if its value has another type."""
    if kind == _OFFSET:
        if value.kind == "timestamp":
            return ("T", max(0, value.value) // 1000)
        if value.kind in ("string", "symbol"):
            return ("S", value.value)
        return ("l", value.value) if value.kind in _INTEGERS and value.value >= 0 else None
    if kind == _FILTER:
        if value.kind == "string":
            return ("S", value.value)
        if value.kind in ("list", "array"):
            return ("A", [("S", one.value) for one in value.value if one.kind == "string"])
    if kind == _MATCH_UNFILTERED and value.kind == "boolean":
        return ("t", value.value)
    return None


def _add_condition(
    name: Value, kind: object, content: Value, conditions: dict[str, _Condition],
    now_ms: Callable[[], int],
) -> bool:  # fmt: skip
    """Add the condition of a filter to those that are in force; returns whether it is one."""
    condition = _CONDITIONS.get(kind) if isinstance(kind, (str, int)) else None
    if condition is None or condition in conditions or (SQL in conditions) or (
        condition == SQL and (conditions or name.value != SQL_NAME)
    ):  # fmt: skip
        return False
    try:
        if condition == SQL:
            conditions[SQL] = _sql_condition(content, now_ms)
        else:
            conditions[condition] = read_property_filter(condition, content).matches
    except (FilterError, SqlError) as error:
        logger.warning("the filter %r of a link is not valid: %s", name.value, error)
        return False
    return True


def _sql_condition(content: Value, now_ms: Callable[[], int]) -> _Condition:
    if content.kind != "string":
        raise FilterError(f"a filter in SQL is a string, and not a {content.kind}")
    return parse_sql(content.value, now_ms)
