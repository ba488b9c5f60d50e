"""The metrics of streams: how far their consumers on this node are behind, of both protocols."""

from leveret.mgmt.metrics import families as names
from leveret.mgmt.metrics.text import Exposition, render_labels
from leveret.mgmt.node_facade.facts import Place
from leveret.mgmt.statistics.sampler import Sampler

LOOKED_AT_ONCE = 50
"""Queues examined before the slice may end."""


async def add_lags(page: Exposition, sampler: Sampler, vhosts: set[str] | None) -> None:
    """Add the largest lag of each stream that has consumers on this node."""
    lags = await _lags(sampler, vhosts)
    labels = [render_labels((("vhost", vhost), ("queue", queue))) for vhost, queue in lags]
    page.add_table(names.STREAM_LAG, (0,), labels, [(lag,) for lag in lags.values()])


async def add_largest_lag(page: Exposition, sampler: Sampler) -> None:
    """Add the largest lag of all consumers on this node."""
    lags = await _lags(sampler, None)
    page.add_row(names.STREAM_LAG, (max(lags.values(), default=0),))


async def _lags(sampler: Sampler, vhosts: set[str] | None) -> dict[Place, int]:
    """The largest number of messages that a consumer on this node lacks, by its stream."""
    lags: dict[Place, int] = {}
    for number, (place, lag) in enumerate(sampler.facade.stream_lags()):
        if lag is not None:
            lags[place] = lag
        if number % LOOKED_AT_ONCE == 0:
            await sampler.give_way()
    for connection in sampler.facade.connections():
        for one in connection.subscriptions():
            place = (connection.vhost, one.queue)
            lags[place] = max(lags.get(place, 0), one.lag)
        await sampler.give_way()
    return {place: lag for place, lag in lags.items() if vhosts is None or place[0] in vhosts}
