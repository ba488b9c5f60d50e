"""The nodes that the configuration lists: cluster_formation.classic_config.nodes."""

from leveret.broker.config.formation_settings import CLASSIC_CONFIG, FormationSettings
from leveret.cluster.discovery.discovery import Discovered


class ClassicConfig:
    """A backend without registration and lock; discovery.py has the contract."""

    def __init__(self, settings: FormationSettings) -> None:
        self.name = CLASSIC_CONFIG
        self.registration = None
        self.lock = None
        self._discovered = Discovered(settings.nodes, settings.node_type)

    async def list_nodes(self) -> Discovered:
        """The listed nodes; without any, a node starts alone."""
        return self._discovered

    async def close(self) -> None:
        """Nothing is open."""
