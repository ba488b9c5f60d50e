"""The lags of a stream's consumers over time, as management shows them.

Each node shows those of its own clients. A group of consumers may have members on several nodes.
"""

from typing import Any

from leveret.mgmt.node_facade.facts import Place
from leveret.mgmt.statistics.sampler import Sampler
from leveret.mgmt.statistics.series import SampleWindow

Lags = dict[str, dict[str, Any]]
"""By the name of a consumer: its `lag`, and the samples of it."""


def lags_view(sampler: Sampler, place: Place, window: SampleWindow | None) -> Lags:
    """The lags of the consumers of a stream on this node."""
    now_ms = sampler.now_ms()
    return {
        name: {
            "lag": series.last[0] if series.last else 0,
            "lag_details": series.details(0, now_ms, window),
        }
        for name, series in sampler.stream_lags.of(place).items()
    }


def add_part(shown: Lags, part: Lags, _node: str) -> None:
    """Add what another node reports. The larger lag counts: members of a group that wait have 0."""
    for name, other in part.items():
        own = shown.get(name)
        if own is None or _largest(own) < _largest(other):
            shown[name] = other


def _largest(one: dict[str, Any]) -> int:
    samples: list[dict[str, int]] = one["lag_details"].get("samples", [])
    lag: int = one["lag"]
    return max([lag, *(sample["sample"] for sample in samples)])
