"""Buckets of histograms: 0, and the powers of two."""

UP_TO = (
    "case when {0} <= 0 then 0L when {0} = 1 then 1L else shiftleft(1L, length(bin({0} - 1))) end"
)
"""SQL: the upper bound of the bucket that a number is in. Exact, as logarithms are not."""
