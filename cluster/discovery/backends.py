"""Makes the backend of peer discovery that is configured."""

from leveret.broker.config.formation_settings import CLASSIC_CONFIG
from leveret.broker.config.settings import Config
from leveret.broker.node_address import NodeAddress
from leveret.cluster.discovery.classic_config import ClassicConfig
from leveret.cluster.discovery.discovery import Discovery


def discovery_of(config: Config, own: NodeAddress) -> Discovery:
    """The backend. own: this node, with the port of its links unless it is the default one.

    Raises SettingError for a setting that cannot be followed.
    """
    settings = config.cluster_formation
    make = {CLASSIC_CONFIG: lambda: ClassicConfig(settings)}
    return make[settings.backend]()
