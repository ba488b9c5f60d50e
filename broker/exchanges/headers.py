"""The headers exchange: a message goes where its headers match the arguments of the binding.

A binding asks for headers with certain values, and its `x-match` argument says how many of them a
message must have: `all` (also if the argument is absent) or `any`. Arguments whose name starts
with `x-` ask for nothing unless the mode is `all-with-x` or `any-with-x`; `x-match` itself never
does. A binding that asks for nothing matches every message if all is wanted and none if any is.

Values are equal as Erlang's `==` sees them, since that is what RabbitMQ compares with: numbers by
value whatever their width, a timestamp among them, integer or float; a byte array as the string of
the same bytes; a boolean and a decimal with nothing but themselves. Inside a table or an array the
types must be the same too, and the entries in the same order. A void in the binding asks only that
the header is there. `_comparable` turns a field into a Python value that is equal in just that way.

So that a message is not compared with every binding, each is indexed by what it asks for: an `any`
binding under each of its criteria, one of which is enough; an `all` binding under one of them, to
be looked at in full when a message has it. A criterion is a header's name with the value or, for a
void, with `_PRESENT`.
"""

from collections.abc import Collection
from typing import Any

from broker.amqp.erlang_terms import FIELD_TYPE_NAMES
from broker.amqp.errors import precondition_failed
from broker.amqp.field_table import Field, Table, encode_table, text_of
from broker.amqp.properties import ContentHeader
from broker.exchanges.erlang_values import format_value
from broker.exchanges.exchange_type import Destination, DestinationCounts, ExchangeType

MATCH_ARGUMENT = "x-match"
MATCH_ALL, MATCH_ANY = "all", "any"
MATCH_ALL_WITH_X, MATCH_ANY_WITH_X = "all-with-x", "any-with-x"
MATCH_MODES = (MATCH_ALL, MATCH_ANY, MATCH_ALL_WITH_X, MATCH_ANY_WITH_X)

_PRESENT = ("present",)
"""Equal to no comparable value: those that are tuples begin with a type's name or hold tuples."""

_Criterion = tuple[str, Any]


class Headers(ExchangeType):
    """Matches the headers of a message."""

    name = "headers"
    routes_by_key = False

    def __init__(self, arguments: Table) -> None:
        super().__init__(arguments)
        self._bindings: dict[tuple[Destination, str, bytes], _Binding] = {}
        self._by_criterion: dict[_Criterion, dict[_Binding, None]] = {}
        self._unconditional = DestinationCounts()

    def validate_binding(self, routing_key: str, arguments: Table) -> None:
        mode = arguments.get(MATCH_ARGUMENT)
        if mode is None:
            return
        letter, value = mode
        if letter != "S":
            raise precondition_failed(
                f"Invalid x-match field type {FIELD_TYPE_NAMES[letter]} "
                f"(value {format_value(mode)}); expected longstr"
            )
        if value not in MATCH_MODES:
            raise precondition_failed(
                f"Invalid x-match field value {format_value(mode)}; "
                "expected all, any, all-with-x, or any-with-x"
            )

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        binding = _Binding(destination, arguments)
        self._bindings[destination, routing_key, encode_table(arguments)] = binding
        if binding.is_unconditional:
            self._unconditional.add(destination)
        for criterion in binding.index_criteria:
            self._by_criterion.setdefault(criterion, {})[binding] = None

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        binding = self._bindings.pop((destination, routing_key, encode_table(arguments)))
        if binding.is_unconditional:
            self._unconditional.remove(destination)
        for criterion in binding.index_criteria:
            del self._by_criterion[criterion][binding]
            if not self._by_criterion[criterion]:
                del self._by_criterion[criterion]

    def route(self, routing_key: str, header: ContentHeader) -> Collection[Destination]:
        matched = list(self._unconditional)
        criteria = _criteria_met(header.headers)
        for criterion in criteria:
            for binding in self._by_criterion.get(criterion, ()):
                if binding.is_any or criteria.issuperset(binding.criteria):
                    matched.append(binding.destination)
        return matched


class _Binding:
    """What one binding asks for. Compared by identity."""

    __slots__ = ("criteria", "destination", "is_any")

    def __init__(self, destination: Destination, arguments: Table) -> None:
        mode = arguments[MATCH_ARGUMENT][1] if MATCH_ARGUMENT in arguments else MATCH_ALL
        with_x = mode in (MATCH_ALL_WITH_X, MATCH_ANY_WITH_X)
        self.destination = destination
        self.is_any = mode in (MATCH_ANY, MATCH_ANY_WITH_X)
        self.criteria: tuple[_Criterion, ...] = tuple(
            _criterion_asked(name, field)
            for name, field in arguments.items()
            if name != MATCH_ARGUMENT and (with_x or not name.startswith("x-"))
        )

    @property
    def is_unconditional(self) -> bool:
        """It matches every message."""
        return not self.criteria and not self.is_any

    @property
    def index_criteria(self) -> tuple[_Criterion, ...]:
        """What a message must have one of to be worth a look at this binding."""
        if self.is_any or not self.criteria:
            return self.criteria
        # A value is rarer than a mere presence: fewer messages will be looked at in vain.
        return (min(self.criteria, key=lambda criterion: criterion[1] is _PRESENT),)


def _criterion_asked(name: str, field: Field) -> _Criterion:
    return (name, _PRESENT if field[0] == "V" else _comparable(field))


def _criteria_met(headers: Table) -> set[_Criterion]:
    criteria: set[_Criterion] = set()
    for name, field in headers.items():
        criteria.add((name, _PRESENT))
        criteria.add((name, _comparable(field)))
    return criteria


def _comparable(field: Field) -> Any:
    """A hashable value that is equal to another one's just when Erlang says so."""
    letter, value = field
    match letter:
        case "x":
            return text_of(value)
        case "t" | "D" | "V":
            return (FIELD_TYPE_NAMES[letter], value)
        case "A":
            return tuple(_comparable_inside(item) for item in value)
        case "F":
            return tuple((name, *_comparable_inside(item)) for name, item in value.items())
    return value


def _comparable_inside(field: Field) -> tuple[str, Any]:
    return (FIELD_TYPE_NAMES[field[0]], _comparable(field))
