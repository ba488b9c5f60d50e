"""Makes the backend of peer discovery that is configured."""

from collections.abc import Callable

from leveret.broker.config.formation_settings import (
    CLASSIC_CONFIG,
    CONSUL,
    DNS,
    ETCD,
    KUBERNETES,
    FormationSettings,
)
from leveret.broker.config.setting_error import SettingError
from leveret.broker.config.settings import Config
from leveret.broker.node_address import NodeAddress
from leveret.cluster.discovery.classic_config import ClassicConfig
from leveret.cluster.discovery.consul import Consul
from leveret.cluster.discovery.discovery import Discovery
from leveret.cluster.discovery.dns import Dns
from leveret.cluster.discovery.etcd import Etcd
from leveret.cluster.discovery.kubernetes import Kubernetes
from leveret.cluster.discovery.node_names import NodeNames


def discovery_of(config: Config, own: NodeAddress) -> Discovery:
    """The backend. own: this node, with the port of its links unless it is the default one.

    Raises SettingError for a setting that cannot be followed.
    """
    settings, names = config.cluster_formation, NodeNames(own.name)
    make: dict[str, Callable[[], Discovery]] = {
        CLASSIC_CONFIG: lambda: ClassicConfig(settings),
        DNS: lambda: _dns(settings, names),
        CONSUL: lambda: Consul(settings.consul, own, names),
        ETCD: lambda: Etcd(settings.etcd, own),
        KUBERNETES: lambda: Kubernetes(settings.kubernetes, names),
    }
    return make[settings.backend]()


def _dns(settings: FormationSettings, names: NodeNames) -> Dns:
    if not settings.dns_hostname:
        raise SettingError(
            "cluster_formation.dns_hostname", "the backend dns needs the name to look up"
        )
    return Dns(settings, names)
