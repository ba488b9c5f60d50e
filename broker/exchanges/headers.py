"""The headers exchange: a message matches a binding whose arguments match its headers.

The arguments of a binding are criteria: headers with their values. The argument `x-match` says
whether a message must meet `all` of them (the default) or `any`. Arguments whose name begins with
`x-` are criteria only if the mode is `all-with-x` or `any-with-x`; `x-match` itself never is. A
binding without criteria matches every message in the mode `all` and none in the mode `any`.

Values are compared like Erlang's `==`, as in RabbitMQ: numbers by value, integers and floats of any
width and timestamps alike; a byte array equals the string of the same bytes; a boolean or a decimal
equals only its own type. Inside a table or an array the types must be the same, too, and the
entries in the same order. A void in the binding requires only that the header exists. `_comparable`
converts a field to a Python value with these rules of equality.

Bindings are indexed, so that a message is not compared with each of them: an `any` binding under
each of its criteria, one of which is enough; an `all` binding under one of them, and the whole
binding is compared if a message has that criterion. The index uses the criterion with the fewest
bindings, so that one shared by many bindings does not cause comparisons with all of them. A
criterion is a header's name with its value or, for a void, with `_PRESENT`.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import Field, Table, encode_table, text_of
from leveret.broker.amqp.field_terms import FIELD_TYPE_NAMES, format_value
from leveret.broker.exchanges.exchange_type import Destination, DestinationCounts, ExchangeType

MATCH_ARGUMENT = "x-match"
MATCH_ALL, MATCH_ANY = "all", "any"
MATCH_ALL_WITH_X, MATCH_ANY_WITH_X = "all-with-x", "any-with-x"
MATCH_MODES = (MATCH_ALL, MATCH_ANY, MATCH_ALL_WITH_X, MATCH_ANY_WITH_X)

COMPARED_BYTES = 32
"""The bytes of a binding's arguments that are compared in one step of a route."""
_PRESENT = ("present",)
"""Differs from every comparable value."""

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
        encoded = encode_table(arguments)
        binding = _Binding(destination, arguments, encoded)
        self._bindings[destination, routing_key, encoded] = binding
        if binding.is_unconditional:
            self._unconditional.add(destination)
        if not binding.is_any and binding.criteria:
            binding.indexed_under = (min(binding.criteria, key=self._count_under),)
        for criterion in binding.indexed_under:
            self._by_criterion.setdefault(criterion, {})[binding] = None

    def _count_under(self, criterion: _Criterion) -> tuple[int, bool]:
        """The number of bindings of a criterion, and whether it is a void, which matches more."""
        return len(self._by_criterion.get(criterion, ())), criterion[1] is _PRESENT

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        binding = self._bindings.pop((destination, routing_key, encode_table(arguments)))
        if binding.is_unconditional:
            self._unconditional.remove(destination)
        for criterion in binding.indexed_under:
            del self._by_criterion[criterion][binding]
            if not self._by_criterion[criterion]:
                del self._by_criterion[criterion]

    def route(self, routing_key: str, header: ContentHeader) -> Iterator[Destination | None]:
        yield from tuple(self._unconditional)
        criteria: set[_Criterion] = set()
        for name, field in header.headers.items():
            for asked in (_PRESENT, _comparable(field)):
                criteria.add((name, asked))
                yield None
        for criterion in criteria:
            yield None
            for binding in tuple(self._by_criterion.get(criterion, ())):
                is_match = binding.is_any or criteria.issuperset(binding.criteria)
                yield binding.destination if is_match else None
                if binding.further_steps:
                    yield from repeat(None, binding.further_steps)


class _Binding:
    """The criteria of one binding. Compared by identity. indexed_under: one of them, or all.

    further_steps: the steps of comparing it beyond the first one.
    """

    __slots__ = ("criteria", "destination", "further_steps", "indexed_under", "is_any")

    def __init__(
        self, destination: Destination, arguments: Table, encoded_arguments: bytes
    ) -> None:
        mode = arguments[MATCH_ARGUMENT][1] if MATCH_ARGUMENT in arguments else MATCH_ALL
        with_x = mode in (MATCH_ALL_WITH_X, MATCH_ANY_WITH_X)
        self.destination = destination
        self.is_any = mode in (MATCH_ANY, MATCH_ANY_WITH_X)
        # With `any` the criterion under which it was found is enough: nothing is compared.
        self.further_steps = 0 if self.is_any else len(encoded_arguments) // COMPARED_BYTES
        self.criteria: tuple[_Criterion, ...] = tuple(
            _criterion_asked(name, field)
            for name, field in arguments.items()
            if name != MATCH_ARGUMENT and (with_x or not name.startswith("x-"))
        )
        self.indexed_under = self.criteria

    @property
    def is_unconditional(self) -> bool:
        """Whether the binding matches every message."""
        return not self.criteria and not self.is_any


def _criterion_asked(name: str, field: Field) -> _Criterion:
    return (name, _PRESENT if field[0] == "V" else _comparable(field))


def _comparable(field: Field) -> Any:
    """A hashable value; two are equal if Erlang's `==` says so of their fields."""
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
