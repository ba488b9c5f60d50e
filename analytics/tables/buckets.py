"""Histogram buckets: 0, and the powers of two."""

UP_TO = (
    "case when {0} <= 0 then 0 when {0} = 1 then 1"
    " else cast(power(2, length(bin({0} - 1))) as bigint) end"
)
"""SQL for the upper bound of a number's bucket. Exact, unlike logarithms."""
