"""The configured rules for partitions. members: nodes, and whether each is a disc node."""

from collections.abc import Mapping

from leveret.broker.config import SettingError
from leveret.broker.config.cluster_settings import (
    PAUSE_IF_ALL_DOWN,
    PAUSE_MINORITY,
    ClusterSettings,
)
from leveret.cluster.partitions.rules import MayGoOn, PauseIfAllDown, PauseMinority, always


def check(settings: ClusterSettings) -> None:
    """Raise SettingError, as RabbitMQ refuses its file, if the rule needs nodes and names none.

    With such a rule every node would pause when it loses any other.
    """
    if settings.partition_handling == PAUSE_IF_ALL_DOWN and not settings.pause_if_all_down_nodes:
        raise SettingError(
            "cluster.pause_if_all_down_nodes",
            "cluster_partition_handling is pause_if_all_down, which needs the nodes without which"
            " others pause",
        )


def may_go_on(settings: ClusterSettings, members: Mapping[str, bool]) -> MayGoOn:
    """The rule that says whether nodes may continue without the other members."""
    if settings.partition_handling == PAUSE_MINORITY:
        return PauseMinority(frozenset(members))
    if settings.partition_handling == PAUSE_IF_ALL_DOWN:
        return PauseIfAllDown(frozenset(node.name for node in settings.pause_if_all_down_nodes))
    return always


def majority(settings: ClusterSettings, members: Mapping[str, bool]) -> MayGoOn | None:
    """With pause_minority, the rule for disc nodes; None if these can never be a majority."""
    rule = PauseMinority(frozenset(members))
    disc = frozenset(name for name, is_disc in members.items() if is_disc)
    return rule if settings.partition_handling == PAUSE_MINORITY and rule(disc) else None
