"""Topics as keys, whose order makes an index of them a trie.

A key is the topic with each `/` replaced by the octet 0, which no topic contains. So the keys below
a level are consecutive, whatever characters other topics have: `a`, `a/b`, `a/c`, `a-b`. A filter
walks through this order as through the nodes of a trie: `next_key` says for the key that was found
whether it matches, and the lowest key that can match next. So a filter costs one search in the
index for each branch that it enters, and no topic has to be in memory.

    filter  a/+/x      found  a/b/c     no match, next  a/b/x
                       found  a/b/x     match,    next  after a/b/x
                       found  a/b/y     no match, next  after all of a/b
                       found  b         no match, no further key can match
"""

from typing import Final, NamedTuple

SEPARATOR: Final = b"\0"
AFTER_SEPARATOR: Final = b"\1"
SINGLE_LEVEL: Final = b"+"
MULTI_LEVEL: Final = b"#"
SYSTEM: Final = b"$"
AFTER_SYSTEM: Final = b"%"


class NextKey(NamedTuple):
    """matches: the key matches. start: the lowest key that can match next; None without one."""

    matches: bool
    start: bytes | None


def key_of(topic: str) -> bytes:
    """The key of a topic, or of a filter."""
    return topic.encode("utf-8", "surrogateescape").replace(b"/", SEPARATOR)


def topic_of(key: bytes) -> str:
    """The topic of a key."""
    return key.replace(SEPARATOR, b"/").decode("utf-8", "surrogateescape")


class TopicFilter:
    """A filter, for keys that are compared in their order. start: no lower key matches."""

    def __init__(self, topic_filter: str) -> None:
        wanted = key_of(topic_filter).split(SEPARATOR)
        self._is_open = wanted[-1] == MULTI_LEVEL
        self._wanted = wanted[:-1] if self._is_open else wanted
        self._hides_system = wanted[0] in (SINGLE_LEVEL, MULTI_LEVEL)
        literal = next(
            (place for place, level in enumerate(self._wanted) if level == SINGLE_LEVEL),
            len(self._wanted),
        )
        self.start = SEPARATOR.join(self._wanted[:literal])

    def next_key(self, key: bytes) -> NextKey:
        """Compare a key that is not below the last `start`."""
        wanted, levels = self._wanted, key.split(SEPARATOR)
        if self._hides_system and key.startswith(SYSTEM):
            # A wildcard in the first level matches no topic that begins with `$` (MQTT 5.0, 4.7.2).
            return NextKey(False, AFTER_SYSTEM)
        for place, level in enumerate(wanted):
            if place == len(levels):
                below = b"" if level == SINGLE_LEVEL else level
                return NextKey(False, key + SEPARATOR + below)
            if level not in (SINGLE_LEVEL, levels[place]):
                if levels[place] < level:
                    return NextKey(False, SEPARATOR.join((*levels[:place], level)))
                return NextKey(False, self._after_sibling(levels, place))
        if self._is_open:
            return NextKey(True, key + SEPARATOR)
        if len(levels) == len(wanted):
            is_exact = SINGLE_LEVEL not in wanted
            return NextKey(True, None if is_exact else key + SEPARATOR)
        return NextKey(False, self._after_sibling(levels, len(wanted)))

    def _after_sibling(self, levels: list[bytes], place: int) -> bytes | None:
        """The key after all that share the levels up to the last `+` before a place, if any."""
        while place > 0:
            place -= 1
            if self._wanted[place] == SINGLE_LEVEL:
                return SEPARATOR.join(levels[: place + 1]) + AFTER_SEPARATOR
        return None
