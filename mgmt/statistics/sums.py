"""Sums of statistics over the nodes of a cluster. Pure.

Numbers are added, in objects field by field. Samples (`{"sample": ..., "timestamp": ...}`) are
added by their places in the list, which begins with the newest one: the clocks of the nodes may
differ. All other values are this node's.
"""

from collections.abc import Iterable, Sequence
from typing import Any

RATE_DIGITS = 2
TIMESTAMP = "timestamp"


def added(own: Any, other: Any) -> Any:
    """The sum of two nodes' values."""
    if isinstance(own, dict) and isinstance(other, dict):
        return {
            **other,
            **{
                name: added(value, other[name]) if name in other and name != TIMESTAMP else value
                for name, value in own.items()
            },
        }
    if isinstance(own, list) and isinstance(other, list):
        pairs = zip(own, other, strict=False)
        return [added(one, another) for one, another in pairs] + own[len(other) :]
    if _is_number(own) and _is_number(other):
        total = own + other
        return round(total, RATE_DIGITS) if isinstance(total, float) else total
    return other if own is None else own


def with_others(
    own: dict[str, Any], others: Sequence[dict[str, Any]], columns: Iterable[str]
) -> dict[str, Any]:
    """An object with these columns added up over the nodes."""
    summed = dict(own)
    for column in columns:
        for other in others:
            if column in other:
                has_own = column in summed
                summed[column] = added(summed[column], other[column]) if has_own else other[column]
    return summed


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
