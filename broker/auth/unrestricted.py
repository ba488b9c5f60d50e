"""The permissions of who may do everything: users of the control socket, tests of a program."""

from leveret.broker.auth.identity import Identity


class Unrestricted:
    """See `AuthorizationBackend`: every answer is yes."""

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
