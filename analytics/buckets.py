"""Histogram buckets: 0, and the powers of two."""

UP_TO = (
    "case when {0} <= 0 then 0L when {0} = 1 then 1L else shiftleft(1L, length(bin({0} - 1))) end"
)
"""SQL for the upper bound of a number's bucket. Exact, unlike logarithms."""
