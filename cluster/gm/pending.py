"""The broadcasts of one sender that a member keeps: those that are not acknowledged yet.

Broadcasts are numbered from 1. Three numbers are the progress of the sender's broadcasts here:

    ... acknowledged | kept ........ delivered |
                          sent to the right |

The kept broadcasts have consecutive numbers (GM1), so a message of the ring has the sender's
progress and the payloads at its end; the overlap is found by subtraction.

Invariants:

GM1  After `begin`, `acknowledged` and `delivered` only grow; broadcasts between them are kept.
GM2  A broadcast is accepted only directly after the one before it.
"""

from leveret.cluster.gm.group import Member


class PendingBroadcasts:
    """One sender's broadcasts at one member.

    place_id: the sender's place. sent: the last number sent to the right neighbour.
    acknowledged_here, acknowledged_right: this member, or its right neighbour, acknowledges the
    broadcasts. has_news: there is something to tell the right neighbour.
    """

    __slots__ = (
        "_payloads",
        "acknowledged",
        "acknowledged_here",
        "acknowledged_right",
        "delivered",
        "has_news",
        "is_alive",
        "is_erasure_asked",
        "member",
        "place_id",
        "sent",
    )  # fmt: skip

    def __init__(self, place_id: int, member: Member) -> None:
        self.place_id = place_id
        self.member = member
        self.is_alive = True
        self.acknowledged = self.delivered = self.sent = 0
        self.acknowledged_here = self.acknowledged_right = False
        self.has_news = self.is_erasure_asked = False
        self._payloads: list[bytes] = []

    def __repr__(self) -> str:
        return f"<PendingBroadcasts of {self.member}: {self.acknowledged} to {self.delivered}>"

    def begin(self, acknowledged: int) -> None:
        """Start, or start again, after a number: a new member gets unacknowledged broadcasts."""
        self._payloads.clear()
        self.acknowledged = self.delivered = acknowledged

    def add(self, payload: bytes) -> int:
        """Add a broadcast of this member's own; returns its number."""
        self._payloads.append(payload)
        self.delivered += 1
        return self.delivered

    def extend(self, delivered: int, payloads: list[bytes]) -> list[bytes]:
        """Add the new ones of the broadcasts up to a number; returns their payloads.

        payloads: those of the broadcasts up to `delivered`; some or all may be here already.
        """
        count = delivered - self.delivered
        if count <= 0:
            return []
        assert count <= len(payloads), "GM2: broadcasts in between are missing"
        new = payloads if count == len(payloads) else payloads[len(payloads) - count :]
        self._payloads += new
        self.delivered = delivered
        return new

    def acknowledge(self, through: int) -> bool:
        """Drop acknowledged broadcasts; returns whether `acknowledged` has grown."""
        assert through <= self.delivered, "GM6: acknowledged before it was delivered here"
        count = through - self.acknowledged
        if count <= 0:
            return False
        self.acknowledged = through
        if through == self.delivered:
            self._payloads.clear()
        else:
            del self._payloads[:count]
        return True

    def after(self, number: int) -> list[bytes]:
        """The payloads of the broadcasts after a number."""
        assert number >= self.acknowledged, "GM1: acknowledged broadcasts are dropped"
        if number == self.acknowledged:
            return self._payloads
        return self._payloads[number - self.acknowledged :]
