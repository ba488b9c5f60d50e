"""What some messages of a queue have in common, and its other messages have not. Pure.

Of each property of a message (its content type, its publisher, the consumer that got it ...) the
values are counted twice: among the messages that something happened to, and among the others of
the queue. A value explains what happened if nearly all of the first have it, and far fewer of the
others. A value that all messages have explains nothing.
"""

from collections.abc import Iterable
from typing import NamedTuple

from leveret.analytics.formatting import listed, shown

SHARE_MIN, DIFFERENCE_MIN, MESSAGES_MIN = 0.9, 0.25, 5
"""Part of the messages that have the value; how much larger it is than the part of the others."""
NAMED_MAX = 2
REQUEUED = "requeued"
"""What happened to messages that were delivered again and again; otherwise it is a reason."""


class Trait(NamedTuple):
    """A value of a property. name: of the property, in words. share: the part of the messages that
    something happened to which have it. usual: the part of the other messages of the queue.
    """

    name: str
    value: str
    share: float
    usual: float

    def words(self) -> str:
        """Return it for a sentence."""
        return f"{self.name} {shown(self.value)}"


def telling(traits: Iterable[Trait]) -> list[Trait]:
    """Return the traits that explain what happened, the best first."""
    found: dict[str, Trait] = {}
    for one in sorted(traits, key=lambda one: one.usual - one.share):
        if one.share >= SHARE_MIN and one.share - one.usual >= DIFFERENCE_MIN:
            # A publisher and its connection, or a consumer and its connection, are one.
            found.setdefault(one.name.split()[0], one)
    return list(found.values())[:NAMED_MAX]


def in_common(traits: Iterable[Trait]) -> str:
    """Return what messages have in common as the end of a sentence; empty if it is not known."""
    found = telling(traits)
    if not found:
        return ""
    least, usual = min(one.share for one in found), max(one.usual for one in found)
    words = listed([one.words() for one in found])
    all_of_them = "all" if least > 0.995 else f"{least:.0%}"
    others = f"only {usual:.0%}" if usual else "none"
    return f"; {all_of_them} of them have {words}, and {others} of the queue's other messages do"
