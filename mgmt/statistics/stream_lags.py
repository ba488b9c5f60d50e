"""How many messages the consumers of streams on this node lack, now and over time.

The lag of a name is the largest one of its consumers: a group of single active consumers has one
name, and all but one of its members wait. A consumer of the stream protocol without a name has that
of its subscription, and one of AMQP 0-9-1 its tag.
"""

from typing import Final, NamedTuple

from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.node_facade.facts import Place, StreamFacts
from leveret.mgmt.slices import GiveWay
from leveret.mgmt.statistics.series import Series

LOOKED_AT_ONCE: Final = 50
"""Queues examined before the slice may end."""
NAMES_MAX: Final = 12
"""Names of a stream that have samples: as many as a chart has colours. A series takes 20 kB."""
NEAR: Final = 0.9
"""A consumer that lacks more than this share of the kept messages is near the end of retention."""


class StreamUse(NamedTuple):
    """A stream that is used on this node. lags: by the name of a consumer, in messages."""

    facts: StreamFacts
    lags: dict[str, int]

    @property
    def near_retention(self) -> int:
        """The number of names that retention may soon overtake: it has removed messages before."""
        first, end = self.facts.first_offset, self.facts.next_offset
        if not first:
            return 0
        return sum(lag > (end - first) * NEAR for lag in self.lags.values())


async def uses_of_streams(facade: NodeFacade, give_way: GiveWay) -> dict[Place, StreamUse]:
    """All streams with a member or consumers on this node, in slices."""
    uses: dict[Place, StreamUse] = {}
    for number, (place, facts) in enumerate(facade.streams()):
        if facts is not None:
            uses[place] = use = StreamUse(facts, {})
            for consumer in facts.consumers:
                _add(use, consumer.tag, consumer.lag)
        if number % LOOKED_AT_ONCE == 0:
            await give_way()
    if uses:
        for connection in facade.connections():
            for one in connection.subscriptions():
                found = uses.get((connection.vhost, one.queue))
                if found is not None:
                    _add(found, one.properties.get("name") or f"stream.subid-{one.number}", one.lag)
            await give_way()
    return uses


def _add(use: StreamUse, name: str, lag: int | None) -> None:
    if lag is not None:
        use.lags[name] = max(lag, use.lags.get(name, 0))


class StreamLags:
    """The samples of lags, by stream and name. A name that has no consumer has none."""

    def __init__(self) -> None:
        self._series: dict[Place, dict[str, Series]] = {}

    def sample(self, time_ms: int, uses: dict[Place, StreamUse]) -> None:
        """Add the lags of a round."""
        self._series = {
            place: self._sampled(time_ms, use.lags, self._series.get(place, {}))
            for place, use in uses.items()
            if use.lags
        }

    def _sampled(
        self, time_ms: int, lags: dict[str, int], known: dict[str, Series]
    ) -> dict[str, Series]:
        names = [name for name in known if name in lags]
        new = sorted(lags.keys() - known.keys(), key=lambda name: (-lags[name], name))
        kept = {}
        for name in (names + new)[:NAMES_MAX]:
            kept[name] = series = known.get(name) or Series()
            series.add(time_ms, (lags[name],))
        return kept

    def of(self, place: Place) -> dict[str, Series]:
        """The samples of a stream's consumers, by their names."""
        return self._series.get(place, {})
