"""The rules for partitions, as they are configured. members: nodes, and whether each is on disc."""

from collections.abc import Mapping

from leveret.broker.config import SettingError
from leveret.broker.config.cluster_settings import (
    PAUSE_IF_ALL_DOWN,
    PAUSE_MINORITY,
    ClusterSettings,
)
from leveret.cluster.partitions.rules import MayGoOn, PauseIfAllDown, PauseMinority, always


def check(settings: ClusterSettings) -> None:
    """Raise SettingError, as RabbitMQ refuses its file, if the rule lacks the nodes that it names.

    Every node would pause when it loses any other.
    """
    if settings.partition_handling == PAUSE_IF_ALL_DOWN and not settings.pause_if_all_down_nodes:
        raise SettingError(
            "cluster.pause_if_all_down_nodes",
            "cluster_partition_handling is pause_if_all_down, which needs the nodes without which"
            " others pause",
        )


def may_go_on(settings: ClusterSettings, members: Mapping[str, bool]) -> MayGoOn:
    """Whether nodes go on without the others."""
    if settings.partition_handling == PAUSE_MINORITY:
        return PauseMinority(frozenset(members))
    if settings.partition_handling == PAUSE_IF_ALL_DOWN:
        return PauseIfAllDown(frozenset(node.name for node in settings.pause_if_all_down_nodes))
    return always


def majority(settings: ClusterSettings, members: Mapping[str, bool]) -> MayGoOn | None:
    """With pause_minority, whether disc nodes are a majority; None if not even all of them are."""
    rule = PauseMinority(frozenset(members))
    disc = frozenset(name for name, is_disc in members.items() if is_disc)
    return rule if settings.partition_handling == PAUSE_MINORITY and rule(disc) else None
