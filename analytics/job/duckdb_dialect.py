"""The differences between Spark's SQL, in which tables are defined, and DuckDB's.

Functions that DuckDB does not have under Spark's name are macros. `array(...)` is the only text
that DuckDB cannot parse: it becomes `list_value(...)`.
"""

import re

from leveret.analytics.tables.columns import BOOLEAN, DOUBLE, HOPS, LONG, STRING, STRINGS, TIMESTAMP

LAST_US = 253_402_300_799_999_999
"""The end of the year 9999. DuckDB refuses later times than 294247-01-10; Python ends here."""
FIRST_US = -62_135_596_800_000_000
"""The beginning of the year 1."""

MACROS = (
    f"timestamp_micros(t) as make_timestamp(least(greatest(t, {FIRST_US}), {LAST_US}))",
    "unix_micros(t) as epoch_us(t)",
    "to_date(t) as cast(t as date)",
    "date_format(t, f) as strftime(t, case f when 'EEEE' then '%A' else '%Y-%m-%d %H:%M' end)",
    "format_number(n, digits) as format('{:,.' || digits || 'f}', n)",
    "xxhash64(a, b) as hash(a, b), (a, b, c) as hash(a, b, c), (a, b, c, d) as hash(a, b, c, d)",
    "percentile_approx(x, parts, accuracy) as quantile_disc(x, parts)",
    "explode(list) as unnest(list)",
    "get(list, place) as list[place + 1]",
    "slice(list, first, size) as list[first : first + size - 1]",
    "array_size(list) as len(list)",
    "array_join(list, between) as array_to_string(list, between)",
    "sort_array(list) as list_sort(list)",
    "collect_set(x) as coalesce(list(distinct x) filter (where x is not null), [])",
    "sequence(first, last, step) as generate_series(first, last, step)",
    "struct(queue, reason, exchange, time_us, message) as struct_pack(queue := queue,"
    " reason := reason, exchange := exchange, time_us := time_us, message := message)",
)
"""Functions with Spark's names. `struct` names its fields by its arguments in Spark."""

SETTINGS = (
    "set TimeZone = 'UTC'",
    "set default_null_order = 'nulls_first_on_asc_last_on_desc'",
    "set preserve_insertion_order = false",
    # All that is used is part of the package; nothing may be loaded from the network.
    "set autoinstall_known_extensions = false",
)

TYPES = {
    STRING: "varchar",
    LONG: "bigint",
    DOUBLE: "double",
    BOOLEAN: "boolean",
    TIMESTAMP: "timestamptz",
    STRINGS: "varchar[]",
    HOPS: "struct(queue varchar, reason varchar, exchange varchar, time_us bigint,"
    " message bigint)[]",
}
"""DuckDB's types for those of tables.py. Spark's `timestamp` is an instant."""

_VALUE = re.compile(r"(?<!:):([a-z_]+)\b")
_ARRAY = re.compile(r"\barray\(")


def translated(query: str) -> str:
    """Return a query of Spark as one of DuckDB."""
    return _ARRAY.sub("list_value(", query)


def with_values(query: str) -> str:
    """Return a query in which values are named as in DuckDB, $name, and not :name."""
    return _VALUE.sub(r"$\1", query)
