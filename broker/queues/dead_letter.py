"""Dead letters: the x-death header of a message that died in a queue, and the cycle rule.

Each (queue, reason) pair under which a message has died has one entry in its x-death array, with a
count. The latest is the first one; the order of the others has no meaning. A message that would
come back to a queue by itself, without a client having rejected it on the way, is in a cycle and
dropped.

Source: RabbitMQ's `rabbit_dead_letter` and its documentation, "Dead Letter Exchanges".
"""

from collections import Counter
from typing import Any

from leveret.broker.amqp.content_header import (
    ContentHeader,
    read_header,
)
from leveret.broker.amqp.field_table import Field, Table, text_of
from leveret.storage.message import Address

REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT = "rejected", "expired", "maxlen", "delivery_limit"
DEAD_LETTER_WORK = 250
"""The work of publishing one dead letter, in the units of broker/turns.py: 60 microseconds."""
DECODED_BYTES = 3
"""The bytes of a header that one unit of work decodes."""
DEATH_HEADERS = (
    "x-death",
    *(f"x-{which}-death-{what}" for which in ("first", "last")
      for what in ("reason", "queue", "exchange")),
)  # fmt: skip
"""The headers that record deaths. RabbitMQ 3 has no x-last-death headers."""


def decoding_work(header: ContentHeader) -> int:
    """The work of decoding a message's headers, and of encoding them again."""
    return len(header.raw) // DECODED_BYTES


def dead_letter_header(
    header: ContentHeader, address: Address, queue: str, reason: str, time_s: int, drop_cc: bool,
    tells_last: bool = False,
) -> ContentHeader:  # fmt: skip
    """The header of the dead letter that is published for a message.

    address: the one it was last published to. drop_cc: drop the keys of CC and BCC, because the
    queue sets the routing key of its dead letters. tells_last: set the x-last-death headers.
    """
    headers = dict(header.headers)
    expiration = header.properties.get("expiration")
    death = _death(address, cc_keys(headers), queue, reason, time_s, expiration)
    _record_death(headers, death, address, queue, reason)
    if tells_last:
        _tell("last", headers, address, queue, reason)
    if drop_cc:
        headers.pop("CC", None)
    dead = header.replace(headers=headers, expiration=None)
    return read_header(dead.raw) if drop_cc and dead.bcc_keys else dead


def without_deaths(header: ContentHeader) -> ContentHeader:
    """The header without the headers that record deaths.

    A message begins anew when an operator retries it, so that it may die in the same queue again,
    and when a client publishes it to a node that behaves as RabbitMQ 4.
    """
    headers = {name: field for name, field in header.headers.items() if name not in DEATH_HEADERS}
    return header if len(headers) == len(header.headers) else header.replace(headers=headers)


def cc_keys(headers: Table) -> list[str]:
    """The routing keys of a well-formed CC header."""
    field = headers.get("CC")
    if field is None or field[0] != "A":
        return []
    return [value for letter, value in field[1] if letter == "S"]


def queues_in_cycle(header: ContentHeader) -> set[str]:
    """The names of the queues in which the message died, and no client has rejected it since."""
    deaths = header.headers.get("x-death")
    names: set[str] = set()
    if deaths is None or deaths[0] != "A":
        return names
    for letter, death in deaths[1]:
        if letter != "F" or death.get("reason") == ("S", REJECTED):
            break
        kind, name = death.get("queue", ("", None))
        if kind == "S":
            names.add(name)
    return names


def _death(
    address: Address, cc: list[str], queue: str, reason: str, time_s: int, expiration: str | None
) -> Table:
    death: Table = {
        "count": ("l", 1),
        "reason": ("S", reason),
        "queue": ("S", queue),
        "time": ("T", time_s),
        "exchange": ("S", address.exchange),
        "routing-keys": ("A", [("S", key) for key in (address.routing_key, *cc)]),
    }
    if expiration is not None:
        death["original-expiration"] = ("S", expiration)
    return death


def _record_death(headers: Table, death: Table, address: Address, queue: str, reason: str) -> None:
    known = headers.get("x-death")
    if known is None:
        _tell("first", headers, address, queue, reason)
    if known is None or known[0] != "A":
        headers["x-death"] = ("A", [("F", death)])
        return
    others: list[Field] = []
    for field in _merged(known[1]):
        if _place(field) == (queue, reason):
            death = {**field[1], "count": _next_count(field[1])}
        else:
            others.append(field)
    headers["x-death"] = ("A", [("F", death), *others])


def _merged(deaths: list[Field]) -> list[Field]:
    """Deaths of which each (queue, reason) pair has one, with a count.

    Nodes before RabbitMQ 3.5 added an entry for each death. Like RabbitMQ's
    `group_by_queue_and_reason`, this turns the order round if there are several.
    """
    if len(deaths) < 2:
        return deaths
    # A client may have put any values there, also such that cannot be the key of a dict.
    places = [repr(_place(field)) for field in deaths]
    counts = Counter(places)
    kept: list[Field] = []
    for field, place in zip(deaths, places, strict=True):
        if field[0] != "F":
            kept.append(field)
        elif counts[place]:
            kept.append(("F", {"count": ("l", counts[place]), **field[1]}))
            counts[place] = 0
    return kept[::-1]


def _tell(which: str, headers: Table, address: Address, queue: str, reason: str) -> None:
    for what, value in (("reason", reason), ("queue", queue), ("exchange", address.exchange)):
        headers[f"x-{which}-death-{what}"] = ("S", value)


def _place(field: Field) -> tuple[Any, Any] | None:
    """The values of queue and reason of a death; None if it is no table."""
    letter, table = field
    if letter != "F":
        return None
    queue, reason = (table.get(name, ("V", None)) for name in ("queue", "reason"))
    return _value(queue), _value(reason)


def _value(field: Field) -> Any:
    """A value as RabbitMQ compares it, to which text and bytes are the same."""
    letter, value = field
    return text_of(value) if letter == "x" else value


def _next_count(death: Table) -> Field:
    count = death.get("count")
    if count is None or not isinstance(count[1], int):
        return ("l", 1)
    return ("l", count[1] + 1)
