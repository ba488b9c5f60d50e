"""Percentiles of groups of rows, as expressions of SQL.

They are values that occur: the smallest one that at least this part of the values does not exceed.
DuckDB's are always exact. Spark's are exact for half as many values of a group as the accuracy
says, for example 8,000 messages a second of one queue in a minute, and above that within a
millionth of the rank. Its default is a hundredth of that.
"""

_ACCURACY = 1_000_000


def percentile(value: str, part: float) -> str:
    """One of an expression's values. part: 0.5 for the median."""
    return f"percentile_approx({value}, {part}, {_ACCURACY})"


def percentiles(value: str, *parts: float) -> str:
    """A list of several of them."""
    return f"percentile_approx({value}, array({', '.join(map(str, parts))}), {_ACCURACY})"
