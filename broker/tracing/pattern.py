"""Selects the events of a trace: a topic pattern over `{event}.{exchange or queue}`."""

from functools import lru_cache

from leveret.broker.exchanges.topic_trie import TopicTrie

REMEMBERED = 1024


class TracePattern:
    """A trace's pattern, such as `#`, `publish.#` or `#.orders`, like a topic binding key."""

    def __init__(self, pattern: str) -> None:
        trie = TopicTrie()
        trie.add(pattern, pattern)
        self._is_everything = pattern == "#"

        # A method of the pattern would be in a reference cycle with it.
        @lru_cache(REMEMBERED)
        def look_up(key: str) -> bool:
            return any(found is not None for found in trie.match(key))

        self._look_up = look_up

    def matches(self, event: str, name: str) -> bool:
        """Return whether the pattern matches this event at this exchange or queue."""
        return self._is_everything or self._look_up(f"{event}.{name}")
