"""The deaths of a message, for clients of AMQP 1.0: the header `x-death` as RabbitMQ's annotation.

`x-opt-deaths` is an array of maps, the latest death first (mc_amqp.erl, `encode_deaths`). A header
has the time of the first death in a queue for a reason; the annotation gives it as that of the
last one, too, which is not kept.
"""

from typing import Final

from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp10.values import Value

DEATHS: Final = "x-death"
OPTIONAL_DEATHS: Final = "x-opt-deaths"
_UINT_MAX: Final = (1 << 32) - 1


def deaths_of(field: Field) -> Value | None:
    """The annotation for a header; None if it has another form."""
    letter, deaths = field
    if letter != "A" or not deaths:
        return None
    found = [_death_of(table) for kind, table in deaths if kind == "F"]
    return Value("array", found) if found else None


def _death_of(death: Table) -> Value:
    time_ms = 1000 * _number(death, "time")
    keys = [text for kind, text in death.get("routing-keys", ("A", []))[1] if kind == "S"]
    pairs = [
        ("queue", Value("string", _text(death, "queue"))),
        ("reason", Value("symbol", _text(death, "reason"))),
        ("count", Value("ulong", _number(death, "count"))),
        ("first-time", Value("timestamp", time_ms)),
        ("last-time", Value("timestamp", time_ms)),
        ("exchange", Value("string", _text(death, "exchange"))),
        ("routing-keys", Value("array", [Value("string", key) for key in keys])),
    ]  # fmt: skip
    ttl = _text(death, "original-expiration")
    if ttl.isascii() and ttl.isdigit():
        pairs.insert(0, ("ttl", Value("uint", min(int(ttl), _UINT_MAX))))
    return Value("map", [(Value("symbol", name), value) for name, value in pairs])


def _text(death: Table, name: str) -> str:
    letter, value = death.get(name, ("S", ""))
    return value if letter == "S" else ""


def _number(death: Table, name: str) -> int:
    _, value = death.get(name, ("l", 0))
    return max(0, value) if isinstance(value, int) else 0
