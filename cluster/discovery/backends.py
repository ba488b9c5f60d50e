"""Makes the configured backend of peer discovery."""

from collections.abc import Callable

from leveret.broker.config.formation_settings import (
    CLASSIC_CONFIG,
    DNS,
    PEER_DISCOVERY,
)
from leveret.broker.config.setting_error import SettingError
from leveret.broker.config.settings import Config
from leveret.broker.plugins.extensions import Extensions
from leveret.broker.plugins.own_plugins import contributed
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.classic_config import ClassicConfig
from leveret.cluster.discovery.discovery import Discovery
from leveret.cluster.discovery.dns import Dns
from leveret.cluster.discovery.node_names import NodeNames

Maker = Callable[[Config, NodeAddress], Discovery]


def _classic_config(config: Config, own: NodeAddress) -> Discovery:
    return ClassicConfig(config.cluster_formation)


def _dns(config: Config, own: NodeAddress) -> Discovery:
    settings = config.cluster_formation
    if not settings.dns_hostname:
        raise SettingError(
            "cluster_formation.dns_hostname", "the backend dns needs the name to look up"
        )
    return Dns(settings, NodeNames(own.name))


MAKERS: Extensions[Maker] = Extensions(
    PEER_DISCOVERY, {CLASSIC_CONFIG: _classic_config, DNS: _dns}, contributed("peer_discovery")
)


def discovery_of(config: Config, own: NodeAddress) -> Discovery:
    """The backend. own: this node, with the port of its links unless it is the default one.

    Raises SettingError for an invalid setting.
    """
    return MAKERS[config.cluster_formation.backend](config, own)
