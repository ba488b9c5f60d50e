"""The declarations of a static shovel when it connects: AMQP methods, named by Erlang terms.

    {'queue.declare', [{queue, <<"q">>}, durable, {arguments, [{<<"x-max-length">>, long, 9}]}]}

A declaration is the name of a method, or a pair of the name and its fields; a field without a value
is true. RabbitMQ sends any method that is named here; Leveret sends those that declare and delete,
and `basic.qos`. Pure.
"""

from collections.abc import Iterator
from typing import Any, Final

from leveret.broker.amqp.methods import signature_of
from leveret.broker.amqp.tables_of_terms import terms_to_table
from leveret.broker.erlang.terms import Atom
from leveret.broker.policies.parameter_validation import ParameterError, short_text, shown_term
from leveret.broker.policies.shovel_parameter import ShovelDeclaration

METHODS: Final = (
    "exchange.declare", "exchange.delete", "exchange.bind", "exchange.unbind", "queue.declare",
    "queue.delete", "queue.purge", "queue.bind", "queue.unbind", "basic.qos",
)  # fmt: skip
_NAMES: Final = {"exchange_type": "type", "global_": "global"}
"""RabbitMQ's names of fields that have other names here."""
_WITHOUT_EFFECT: Final = ("ticket", "nowait")
_INTEGERS_MAX: Final = {"short": 2**16 - 1, "long": 2**32 - 1}


def parse_declarations(place: str, terms: Any) -> tuple[ShovelDeclaration, ...]:
    """The declarations of a source or a destination. Raises ParameterError.

    place: the subject of the error.
    """
    if not isinstance(terms, list):
        raise ParameterError(
            f"{place}: declarations should be a list, actually was {shown_term(terms)}"
        )
    return tuple(_declaration(place, term) for term in terms)


def _declaration(place: str, term: Any) -> ShovelDeclaration:
    name, fields = term if isinstance(term, tuple) and len(term) == 2 else (term, [])
    if not isinstance(name, Atom) or name not in METHODS:
        known = ", ".join(METHODS)
        raise ParameterError(
            f"{place}: {shown_term(name)} is not a declaration; known ones are {known}"
        )
    if not isinstance(fields, list):
        raise ParameterError(
            f"{place}: the fields of '{name}' should be a list, actually was {shown_term(fields)}"
        )
    return ShovelDeclaration(str(name), dict(_fields(f"{place}: '{name}'", name, fields)))


def _fields(place: str, method: str, fields: list[Any]) -> Iterator[tuple[str, Any]]:
    """The arguments of a method. If a field is given twice, the first is used, as in Erlang."""
    kinds = {_NAMES.get(name, name): (name, kind) for name, kind in signature_of(method)}
    given: set[str] = set()
    for field in fields:
        pair = field if isinstance(field, tuple) and len(field) == 2 else (field, Atom("true"))
        key, value = pair
        if not isinstance(key, Atom) or key not in kinds:
            known = ", ".join(one for one in kinds if one not in _WITHOUT_EFFECT)
            raise ParameterError(
                f"{place} has no field {shown_term(key)} (unknown_fields); it has {known}"
            )
        if key in given or key in _WITHOUT_EFFECT:
            continue
        given.add(key)
        name, kind = kinds[key]
        yield name, _value(place, key, kind, value)


def _value(place: str, key: str, kind: str, value: Any) -> Any:
    if kind == "table":
        try:
            return terms_to_table(value)
        except ValueError as error:
            raise ParameterError(f"{place}: {key}: {error}") from None
    if kind == "bit":
        return truth(place, key, value)
    if kind == "shortstr":
        return binary(place, key, value)
    most = _INTEGERS_MAX[kind]
    if not isinstance(value, int) or not 0 <= value <= most:
        wanted = f"a number from 0 to {most}"
        raise ParameterError(f"{place}: {key} should be {wanted}, actually was {shown_term(value)}")
    return value


def truth(place: str, key: str, value: Any) -> bool:
    """The value of a key that is true or false. Raises ParameterError."""
    if value in ("true", "false") and isinstance(value, Atom):
        return value == "true"
    raise ParameterError(
        f"{place}: {key} should be true or false, actually was {shown_term(value)}"
    )


def binary(place: str, key: str, value: Any) -> str:
    """The value of a key that is a binary of at most 255 bytes. Raises ParameterError."""
    if type(value) is not str:
        raise ParameterError(
            f'{place}: {key} should be a binary, such as <<"name">>, '
            f"actually was {shown_term(value)}"
        )
    wrong = short_text(key, value)
    if wrong:
        raise ParameterError(f"{place}: {wrong[0]}")
    return value
