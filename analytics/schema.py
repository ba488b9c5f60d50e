"""Lines of JSON to columns: the schema of broker.tracing.record as Spark has it, and what is wrong.

Fields that are not known are left out. A line is set aside, with the reason, if it is no JSON
object, has a field of another type, lacks a field that its event cannot do without, is of an event
that is not known, or holds two records because a line feed was lost.
"""

from enum import Enum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from broker.tracing import record

_CORRUPT = "_corrupt"
_TYPES = {
    record.STRING: "string", record.LONG: "bigint", record.BOOLEAN: "boolean",
    record.STRINGS: "array<string>", record.JSON: "string",
}  # fmt: skip
_IDS = "struct<message_id:string,correlation_id:string>"
_DISPENSABLE = {"consumer_tag", "properties", "user", "connection", "channel", "reply_text"}
"""Fields that the tables can do without, of records that are sound otherwise."""

TEXT_MAX = 1_000
"""Characters of a bad line that are kept."""

Names = tuple[str, ...]


class Fields(Enum):
    """What is read of messages: all, all but `body`, or of the properties only those that identify.

    `properties` is JSON text, which takes time to make; with IDS it is a struct of two texts.
    """

    ALL, SMALL, IDS = range(3)


def field_names(fields: Fields) -> Names:
    """The fields that are read."""
    has_body = fields is Fields.ALL
    return tuple(field.name for field in record.FIELDS if has_body or field.name != "body")


def parse_lines(lines: DataFrame, fields: Fields = Fields.SMALL) -> DataFrame:
    """The records of lines.

    lines: `value`, `file`, `line`, and `wrong_line`: what is known to be wrong with it. The answer
    has the records' fields, `file` and `line`, and `wrong` and `text`, which are null for all that
    is sound.
    """
    names = field_names(fields)
    types = {field.name: _TYPES[field.type] for field in record.FIELDS}
    if fields is Fields.IDS:
        types["properties"] = _IDS
    schema = ", ".join(f"`{name}` {types[name]}" for name in names) + f", {_CORRUPT} string"
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    parsed = lines.select(
        "file", "line", "value", "wrong_line", F.from_json("value", schema, options).alias("r")
    ).select("file", "line", "value", "wrong_line", "r.*")
    checked = parsed.withColumn("wrong", F.coalesce("wrong_line", _what_is_wrong()))
    text = F.when(F.col("wrong").isNotNull(), F.substring("value", 1, TEXT_MAX))
    return checked.select(*names, "file", "line", "wrong", text.alias("text"))


def _what_is_wrong() -> Column:
    event = F.col("event")
    unknown = F.concat(F.lit("the event "), event, F.lit(" is not known"))
    return (
        F.when(
            F.col(_CORRUPT).isNotNull() | F.col("value").contains('}{"event":'),
            F.lit("is not one JSON object with fields of the right types"),
        )
        .when(event.isNull(), F.lit("has no event"))
        .when(~event.isin(*record.EVENTS), unknown)
        .when(F.col("version") > record.VERSION, F.lit("is of a version that is not known"))
        .otherwise(_what_is_missing())
    )


def _what_is_missing() -> Column:
    """The first field that is needed and not there."""
    return F.coalesce(
        *(_is_missing(field.name) for field in record.FIELDS if _events_of(field.name))
    )


def _is_missing(name: str) -> Column:
    events = _events_of(name)
    is_missing = F.col(name).isNull()
    if len(events) < len(record.EVENTS):
        is_missing = F.col("event").isin(*events) & is_missing
    return F.when(is_missing, F.lit(f"has no {name}"))


def _events_of(name: str) -> list[str]:
    """The events that cannot do without a field."""
    if name in _DISPENSABLE:
        return []
    return [event for event, fields in record.EVENTS.items() if name in fields]
