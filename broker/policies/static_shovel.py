"""Static shovels: those of RabbitMQ's advanced.config, as Erlang terms.

    [{my_shovel, [{source, [{uris, ["amqp://one"]}, {queue, <<"q">>}]},
                  {destination, [{uris, ["amqp://two"]},
                                 {publish_fields, [{exchange, <<>>}, {routing_key, <<"q">>}]}]},
                  {ack_mode, on_confirm}, {reconnect_delay, 5}]}]

The keys, the defaults and the checks are those of RabbitMQ (`rabbit_shovel_config` and
`rabbit_amqp091_shovel`), and so is the older format with `sources`, `destinations` and `broker`.
Differences: URIs, properties and delays are checked here, where RabbitMQ's shovels fail or stay
down later; and a shovel of the newer format without `ack_mode` confirms, as RabbitMQ's pages say,
where RabbitMQ uses no acknowledgements and may lose messages. Unknown keys are reported, and have
no effect. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.tables_of_terms import terms_to_table
from leveret.broker.amqp.uri import UriError, parse_uri
from leveret.broker.erlang.terms import Atom, String
from leveret.broker.policies.ack_modes import NO_ACK, ON_CONFIRM, ON_PUBLISH
from leveret.broker.policies.parameter_validation import (
    ParameterError,
    bounded,
    seconds,
    shown_term,
)
from leveret.broker.policies.shovel_parameter import (
    AMQP091,
    NEVER,
    PREFETCH_COUNT,
    PREFETCH_COUNT_MAX,
    PROPERTIES,
    QUEUE_LENGTH,
    RECONNECT_DELAY_S,
    ShovelDefinition,
    ShovelDestination,
    ShovelSource,
)
from leveret.broker.policies.static_declarations import binary, parse_declarations, truth

ACK_MODES: Final = {"no_ack": NO_ACK, "on_publish": ON_PUBLISH, "on_confirm": ON_CONFIRM}
PUBLISH_FIELDS: Final = ("exchange", "routing_key", "mandatory", "immediate", "ticket")
"""Those of basic.publish. Only the first two have an effect: returned messages are discarded."""
_HEADERS: Final = "headers"
_PROPERTIES: Final = {key.name: key.check for key in PROPERTIES}
_OF_SOURCE: Final = ("queue", "prefetch_count", "delete_after", "consumer_args")
_OF_DESTINATION: Final = (
    "publish_fields", "publish_properties", "add_forward_headers", "add_timestamp_header"
)  # fmt: skip
_NO_DEFAULT: Final = object()


class StaticShovels(NamedTuple):
    """The shovels by their names, and sentences on settings without effect."""

    definitions: Mapping[str, ShovelDefinition]
    without_effect: Sequence[str]


class _Pairs:
    """The pairs of a list, by their keys. place: its name in errors. Raises ParameterError."""

    def __init__(self, place: str, term: Any) -> None:
        if not isinstance(term, list):
            raise ParameterError(f"{place} should be a list, actually was {shown_term(term)}")
        self.place = place
        self._values: dict[str, Any] = {}
        for pair in term:
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Atom)):
                raise ParameterError(
                    f"{place}: {shown_term(pair)} is not a pair of a key and a value "
                    "(invalid_parameters)"
                )
            if pair[0] in self._values:
                raise ParameterError(
                    f"{place}: {pair[0]} is given more than once (duplicate_parameters)"
                )
            self._values[pair[0]] = pair[1]

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def take(self, key: str, default: Any = _NO_DEFAULT) -> Any:
        """Remove a key and return its value."""
        value = self._values.pop(key, default)
        if value is _NO_DEFAULT:
            raise ParameterError(f"{self.place}: {key} is missing (missing_parameter)")
        return value

    def move(self, keys: Sequence[str], to: "_Pairs") -> None:
        """Give these keys to another list."""
        for key in keys:
            if key in self._values:
                to.put(key, self._values.pop(key))

    def put(self, key: str, value: Any) -> None:
        """Give a key that is not there a value."""
        self._values[key] = value

    def left(self) -> list[str]:
        """Sentences on the keys that remain unused."""
        return [f"{self.place}: {key} has no effect" for key in self._values]

    def wrong(self, key: str, wanted: str, value: Any) -> ParameterError:
        """The error for a value."""
        return ParameterError(
            f"{self.place}: {key} should be {wanted}, actually was {shown_term(value)}"
        )


def parse_static_shovels(term: Any) -> StaticShovels:
    """The shovels of a file. Raises ParameterError."""
    if not isinstance(term, list):
        raise ParameterError(
            "shovels should be a list of pairs of a name and a list "
            f"(require_list_of_shovel_configurations), actually was {shown_term(term)}"
        )
    found: dict[str, ShovelDefinition] = {}
    without_effect: list[str] = []
    for pair in term:
        match pair:
            case tuple((Atom() as name, list() as settings)):
                if name in found:
                    raise ParameterError(
                        f"shovel '{name}' is defined twice (duplicate_shovel_definition)"
                    )
                found[str(name)] = _shovel(str(name), settings, without_effect)
            case _:
                raise ParameterError(
                    "a shovel should be a pair of a name, which is an atom, and a list "
                    f"(require_list_of_shovel_configurations), actually was {_named(pair)}"
                )
    return StaticShovels(found, without_effect)


def _named(pair: Any) -> str:
    """The problem of a pair, without the URIs in it."""
    return (
        shown_term(pair[0]) if isinstance(pair, tuple) and pair else shown_term(type(pair).__name__)
    )


def _shovel(name: str, settings: list[Any], without_effect: list[str]) -> ShovelDefinition:
    place = f"shovel '{name}'"
    top = _Pairs(place, settings)
    is_older = "source" not in top and ("sources" in top or "destinations" in top)
    source_key, destination_key = (
        ("sources", "destinations") if is_older else ("source", "destination")
    )
    source = _Pairs(f"the {source_key} of {place}", top.take(source_key))
    destination = _Pairs(f"the {destination_key} of {place}", top.take(destination_key))
    if is_older:
        top.move(_OF_SOURCE, source)
        top.move(_OF_DESTINATION, destination)
        for end in (source, destination):
            _rename_brokers(end)
    ack_mode = top.take("ack_mode", Atom("on_confirm"))
    if ack_mode not in ACK_MODES:
        raise top.wrong("ack_mode", f"one of {', '.join(ACK_MODES)}", ack_mode)
    definition = ShovelDefinition(
        _source(source), _destination(destination), ACK_MODES[ack_mode],
        _delay(top),
    )  # fmt: skip
    if ack_mode == "no_ack" and isinstance(definition.source.delete_after, int):
        raise ParameterError(f"{place}: no_ack and a number as delete_after exclude each other")
    without_effect += [*top.left(), *source.left(), *destination.left()]
    return definition


def _rename_brokers(end: _Pairs) -> None:
    """The older format names URIs `brokers`, or `broker` for one."""
    if "brokers" in end:
        end.put("uris", end.take("brokers"))
    else:
        end.put("uris", [end.take("broker")])


def _delay(top: _Pairs) -> float:
    delay = top.take("reconnect_delay", RECONNECT_DELAY_S)
    if isinstance(delay, bool) or not isinstance(delay, int | float) or delay < 0:
        raise top.wrong("reconnect_delay", "a number of seconds", delay)
    return seconds(delay)


def _source(source: _Pairs) -> ShovelSource:
    uris = _uris(source)
    queue = binary(source.place, "queue", source.take("queue"))
    prefetch_count = source.take("prefetch_count", PREFETCH_COUNT)
    if not isinstance(prefetch_count, int) or prefetch_count < 0:
        raise source.wrong("prefetch_count", "a number from 0", prefetch_count)
    delete_after = source.take("delete_after", Atom(NEVER))
    is_number = isinstance(delete_after, int) and delete_after >= 0
    if delete_after not in (NEVER, QUEUE_LENGTH) and not is_number:
        raise source.wrong("delete_after", "never, 'queue-length' or a number", delete_after)
    return ShovelSource(
        uris=uris,
        queue=queue,
        consumer_arguments=_table(source, "consumer_args", source.take("consumer_args", [])),
        prefetch_count=bounded(prefetch_count, PREFETCH_COUNT_MAX),
        delete_after=None if delete_after == NEVER else delete_after,
        declarations=parse_declarations(source.place, source.take("declarations", [])),
    )


def _destination(destination: _Pairs) -> ShovelDestination:
    uris = _uris(destination)
    place = f"{destination.place}: publish_fields"
    fields = _Pairs(place, destination.take("publish_fields", []))
    address = {
        key: binary(place, key, fields.take(key))
        for key in ("exchange", "routing_key")
        if key in fields
    }
    for key in PUBLISH_FIELDS:
        fields.take(key, None)
    _require_nothing_left(fields, PUBLISH_FIELDS)
    return ShovelDestination(
        uris=uris,
        exchange=address.get("exchange"),
        exchange_key=address.get("routing_key"),
        properties=_properties(destination),
        adds_forward_headers=_truth(destination, "add_forward_headers"),
        adds_timestamp_header=_truth(destination, "add_timestamp_header"),
        declarations=parse_declarations(destination.place, destination.take("declarations", [])),
    )


def _truth(pairs: _Pairs, key: str) -> bool:
    return truth(pairs.place, key, pairs.take(key, Atom("false")))


def _properties(destination: _Pairs) -> dict[str, Any]:
    given = destination.take("publish_properties", [])
    pairs = _Pairs(f"{destination.place}: publish_properties", given)
    found: dict[str, Any] = {}
    for name, check in _PROPERTIES.items():
        if name not in pairs:
            continue
        value = pairs.take(name)
        wrong = check(name, None if isinstance(value, Atom | String) else value)
        if wrong:
            wanted = wrong[0].partition(", actually was")[0]
            raise ParameterError(f"{pairs.place}: {wanted}, actually was {shown_term(value)}")
        found[name] = value if isinstance(value, str) else int(value)
    if _HEADERS in pairs:
        found[_HEADERS] = _table(pairs, _HEADERS, pairs.take(_HEADERS))
    _require_nothing_left(pairs, (*_PROPERTIES, _HEADERS))
    return found


def _require_nothing_left(pairs: _Pairs, known: Sequence[str]) -> None:
    left = pairs.left()
    if left:
        what = left[0].removesuffix(" has no effect")
        raise ParameterError(
            f"{what} is not known (unexpected_fields); known are {', '.join(known)}"
        )


def _table(pairs: _Pairs, key: str, term: Any) -> Table:
    try:
        return terms_to_table(term)
    except ValueError as error:
        raise ParameterError(f"{pairs.place}: {key}: {error}") from None


def _uris(end: _Pairs) -> tuple[str, ...]:
    protocol = end.take("protocol", Atom(AMQP091))
    if protocol != AMQP091:
        raise end.wrong("protocol", f"{AMQP091}, the only one that is supported", protocol)
    uris = end.take("uris")
    if not isinstance(uris, list) or not uris:
        raise ParameterError(f'{end.place}: uris should be a list of URIs, such as ["amqp://host"]')
    return tuple(_uri(end, uri) for uri in uris)


def _uri(end: _Pairs, uri: Any) -> str:
    if not isinstance(uri, str) or isinstance(uri, Atom):
        raise ParameterError(f'{end.place}: a URI should be a text, such as "amqp://host"')
    try:
        parse_uri(str(uri))
    except UriError as error:
        raise ParameterError(f"{end.place}: {error}") from None
    return str(uri)
