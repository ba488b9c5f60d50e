"""The operators of SQL filter expressions, as functions of the fields of a message.

The logic has three values: None is unknown, which a comparison with an absent field is (Jakarta
Messaging 3.1, section 3.8.1.2). As in RabbitMQ (rabbit_amqp_filter_sql.erl), values of different
types are not equal, and neither less nor greater; `/` divides to a float, `%` has the sign of the
dividend, and what arithmetic cannot compute is unknown.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from leveret.broker.amqp10.filters.like_patterns import LikeMatch
from leveret.broker.amqp10.filters.message_fields import MessageFields, Scalar, are_equal

Expression = Callable[[MessageFields], Scalar]


def literal(value: Scalar) -> Expression:
    """A constant."""
    return lambda _fields: value


def application_property(name: bytes) -> Expression:
    """An application property."""
    return lambda fields: fields.application_property(name)[1]


def property_of(name: str) -> Expression:
    """A field of the section `properties`."""
    return lambda fields: fields.property(name)


def priority() -> Expression:
    """The priority of the message."""
    return lambda fields: fields.priority()


def both(left: Expression, right: Expression) -> Expression:
    """AND."""
    return _joined(left, right, decisive=False)


def either(left: Expression, right: Expression) -> Expression:
    """OR."""
    return _joined(left, right, decisive=True)


def _joined(left: Expression, right: Expression, *, decisive: bool) -> Expression:
    """Two conditions. decisive: what both are if one of them is this."""
    other = not decisive

    def evaluate(fields: MessageFields) -> Scalar:
        first = left(fields)
        if first is decisive:
            return decisive
        second = right(fields)
        if second is decisive:
            return decisive
        return other if first is other and second is other else None

    return evaluate


def negated(operand: Expression) -> Expression:
    """NOT."""

    def evaluate(fields: MessageFields) -> Scalar:
        value = operand(fields)
        return not value if isinstance(value, bool) else None

    return evaluate


def compared(sign: str, left: Expression, right: Expression) -> Expression:
    """A comparison. sign: one of `COMPARISONS`."""
    compare = COMPARISONS[sign]

    def evaluate(fields: MessageFields) -> Scalar:
        first, second = left(fields), right(fields)
        return None if first is None or second is None else compare(first, second)

    return evaluate


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Scalar, Scalar], bool]:
    def are_ordered(left: Scalar, right: Scalar) -> bool:
        if _is_number(left) and _is_number(right):
            return compare(left, right)
        return isinstance(left, bytes) and isinstance(right, bytes) and compare(left, right)

    return are_ordered


def _is_number(value: Scalar) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


COMPARISONS: Final[dict[str, Callable[[Scalar, Scalar], bool]]] = {
    "=": are_equal,
    "<>": lambda left, right: not are_equal(left, right),
    ">": _ordered(operator.gt),
    "<": _ordered(operator.lt),
    ">=": _ordered(operator.ge),
    "<=": _ordered(operator.le),
}


def computed(sign: str, left: Expression, right: Expression) -> Expression:
    """Arithmetic. sign: one of `ARITHMETIC`."""
    compute = ARITHMETIC[sign]

    def evaluate(fields: MessageFields) -> Scalar:
        first, second = left(fields), right(fields)
        if not (_is_number(first) and _is_number(second)):
            return None
        try:
            return compute(first, second)
        except (ZeroDivisionError, OverflowError):
            return None

    return evaluate


def _remainder(left: Any, right: Any) -> Scalar:
    if isinstance(left, float) or isinstance(right, float):
        return None
    found: int = abs(left) % abs(right)
    return -found if left < 0 else found


ARITHMETIC: Final[dict[str, Callable[[Any, Any], Scalar]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": _remainder,
}


def signed(sign: str, operand: Expression) -> Expression:
    """A number with a sign."""

    def evaluate(fields: MessageFields) -> Scalar:
        value = operand(fields)
        if value is None or isinstance(value, (bool, bytes)):
            return None
        return -value if sign == "-" else value

    return evaluate


def contained(operand: Expression, members: Sequence[Expression]) -> Expression:
    """IN. A member that is unknown is not equal to anything."""

    def evaluate(fields: MessageFields) -> Scalar:
        value = operand(fields)
        if value is None:
            return None
        return any(are_equal(member(fields), value) for member in members)

    return evaluate


def absent(operand: Expression) -> Expression:
    """IS NULL."""
    return lambda fields: operand(fields) is None


def like(operand: Expression, matches: LikeMatch) -> Expression:
    """LIKE; unknown for what is no text."""

    def evaluate(fields: MessageFields) -> Scalar:
        value = operand(fields)
        return matches(value) if isinstance(value, bytes) else None

    return evaluate


def time_now(now_ms: Callable[[], int]) -> Expression:
    """UTC(): the time in milliseconds since 1970."""
    return lambda _fields: now_ms()
