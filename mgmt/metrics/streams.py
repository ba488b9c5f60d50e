"""The metrics of streams: their files, and how far their consumers on this node are behind."""

from leveret.mgmt.metrics import families as names
from leveret.mgmt.metrics.text import Exposition, render_labels
from leveret.mgmt.statistics.sampler import Sampler
from leveret.mgmt.statistics.stream_lags import uses_of_streams


async def add_lags(page: Exposition, sampler: Sampler, vhosts: set[str] | None) -> None:
    """Add the largest lag of each stream that has consumers on this node."""
    uses = await uses_of_streams(sampler.facade, sampler.give_way)
    lags = {
        place: max(use.lags.values())
        for place, use in uses.items()
        if use.lags and (vhosts is None or place[0] in vhosts)
    }
    labels = [render_labels((("vhost", vhost), ("queue", queue))) for vhost, queue in lags]
    page.add_table(names.STREAM_LAG, (0,), labels, [(lag,) for lag in lags.values()])


async def add_sums(page: Exposition, sampler: Sampler) -> None:
    """Add the largest lag of all consumers on this node, and what alerts ask for."""
    uses = (await uses_of_streams(sampler.facade, sampler.give_way)).values()
    lags = [lag for use in uses for lag in use.lags.values()]
    page.add_row(names.STREAM_LAG, (max(lags, default=0),))
    page.add_row(
        names.STREAM_ROOM,
        (sum(use.facts.size_bytes for use in uses), sum(use.near_retention for use in uses)),
    )
