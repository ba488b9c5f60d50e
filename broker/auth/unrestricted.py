"""Unrestricted permissions: for users of the control socket, and for brokers in programs' tests."""

from leveret.broker.auth.identity import Identity


class Unrestricted:
    """An `AuthorizationBackend` that allows everything."""

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> bool:
        """Yes."""
        return True

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> bool:
        """Yes."""
        return True

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """Yes."""
        return True
