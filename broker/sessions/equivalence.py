"""Whether a declaration is equivalent to the object that exists; the 406 that names the difference.

The comparison and its texts are RabbitMQ's (`rabbit_misc:assert_args_equivalence`): integers are
compared by value whatever their width, floats likewise, other fields by type and value.
"""

from collections.abc import Iterable

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp.field_terms import FIELD_TYPE_NAMES

_TYPE_CLASSES = dict.fromkeys("bsIlLBui", "integer") | {"f": "float", "d": "float"}


def require_same(argument: str, received: object, current: object, what: str) -> None:
    """Raise 406 if an attribute of a declaration differs. what: `queue 'q' in vhost '/'`."""
    if received != current:
        raise _inequivalent(argument, _quoted(received), _quoted(current), what)


def require_same_arguments(
    names: Iterable[str], received: Table, current: Table, what: str
) -> None:
    """Raise 406 for the first of these arguments that differs."""
    for name in names:
        _require_same_argument(name, received.get(name), current.get(name), what)


def _require_same_argument(
    name: str, received: Field | None, current: Field | None, what: str
) -> None:
    if received == current:
        return
    if received is None or current is None:
        raise _inequivalent(name, _described(received), _described(current), what)
    same_class = _type_class(received) == _type_class(current)
    if not same_class or received[1] != current[1]:
        raise _inequivalent(name, _quoted(received[1]), _quoted(current[1]), what)


def _type_class(field: Field) -> str:
    return _TYPE_CLASSES.get(field[0], field[0])


def _quoted(value: object) -> str:
    return f"'{str(value).lower() if isinstance(value, bool) else value}'"


def _described(field: Field | None) -> str:
    if field is None:
        return "none"
    return f"the value {_quoted(field[1])} of type '{FIELD_TYPE_NAMES[field[0]]}'"


def _inequivalent(argument: str, received: str, current: str, what: str) -> Exception:
    return precondition_failed(
        f"inequivalent arg '{argument}' for {what}: received {received} but current is {current}"
    )
