"""Replacements of queues that are decided: whichever nodes die, they are carried out.

A decision is a runtime parameter that is internal to the nodes, so that it survives restarts and is
in snapshots. It is declared before the replacement, and removed with it.
"""

import base64
from collections.abc import Iterable, Iterator
from typing import Any

from leveret.broker.declarations.values import (
    Declaration,
    DeleteParameter,
    PutParameter,
    ReplaceQueue,
    RequireParameter,
    decode,
    encode,
)

DECIDED_REPLACEMENT = "queue-replacement"
"""The component of the parameters. The name of each is that of the successor."""


def decision(it: ReplaceQueue) -> PutParameter:
    """Decide a replacement."""
    value = base64.b64encode(encode(it)).decode()
    return PutParameter(DECIDED_REPLACEMENT, it.vhost, it.successor, value)


def carrying_out(it: ReplaceQueue) -> tuple[Declaration, ...]:
    """Make a decided replacement, unless another node has done so."""
    decided = decision(it)
    require = RequireParameter(decided.component, it.vhost, decided.name, decided.value)
    return require, it, giving_up(it)


def giving_up(it: ReplaceQueue) -> DeleteParameter:
    """Forget a decision."""
    return DeleteParameter(DECIDED_REPLACEMENT, it.vhost, it.successor)


def decided(values: Iterable[Any]) -> Iterator[ReplaceQueue]:
    """The replacements that parameters with these values decide."""
    for value in values:
        found = decode(base64.b64decode(value))
        assert isinstance(found, ReplaceQueue), "the parameters of this component are replacements"
        yield found
