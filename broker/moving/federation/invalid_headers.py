"""Headers whose value has not the type that federation needs: it is kept in another header.

Source: RabbitMQ's `rabbit_basic` (`prepend_table_header`). Pure.
"""

from typing import Final

from leveret.broker.amqp.field_table import Field, Table

INVALID_HEADERS: Final = "x-invalid-headers"


def add_invalid(headers: Table, name: str, value: Field) -> None:
    """Keep the value of a header that has no array, where RabbitMQ keeps such values."""
    invalid = headers.get(INVALID_HEADERS)
    if invalid is None:
        table: Table = {}
    elif invalid[0] == "F":
        table = dict(invalid[1])
    else:
        table = {INVALID_HEADERS: ("A", [invalid])}
    kind, values = table.get(name, ("", ()))
    table[name] = "A", [value, *(values if kind == "A" else ())]
    headers[INVALID_HEADERS] = "F", table
