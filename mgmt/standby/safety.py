"""Changes that a standby makes only after an operator has accepted them. Pure.

An upstream that was reset, or that lost its definitions, would make the standby delete the objects
that it exists to keep. So a sync that would delete more than half of the followed objects is held,
if these are `DELETIONS_MIN` or more. An operator accepts the present upstream: the same objects,
whatever their properties. If the upstream changes before the standby has followed, it is checked
again.
"""

import hashlib

from leveret.mgmt.slices import GiveWay
from leveret.mgmt.standby.comparing import Difference

DELETIONS_MIN = 5
"""Fewer deletions do not hold a sync."""


def deletes_much(difference: Difference) -> bool:
    """Whether an operator has to accept the deletions."""
    count = difference.lacked_count
    return count >= DELETIONS_MIN and 2 * count > difference.own_count


def held_reason(difference: Difference) -> str:
    """The reason why a sync is held, and what an operator can do."""
    return (
        f"the upstream lacks {difference.lacked_count} of the {difference.own_count} objects "
        "that are followed here: nothing is changed before an operator accepts that "
        "(accept_schema_replication), or the upstream has them again"
    )


async def digest_of(difference: Difference, give_way: GiveWay) -> str:
    """The digest of an upstream's objects, independent of the order in which it lists them."""
    total = 0
    for kind, items in difference.upstream.items():
        for key in items:
            named = "\0".join((kind, *key)).encode("utf-8", "surrogateescape")
            total ^= int.from_bytes(hashlib.sha256(named).digest())
            await give_way()
    return f"{total:064x}"
