"""The internal backend: the node's own users and permissions. It answers at once."""

from leveret.broker.auth.identity import Identity, LoginAttempt
from leveret.broker.auth.permissions import PermissionTable
from leveret.broker.auth.users import UserDirectory


class InternalBackend:
    """An authentication and authorization backend (broker/auth/identity.py)."""

    def __init__(self, users: UserDirectory, permissions: PermissionTable) -> None:
        self._users = users
        self._permissions = permissions

    def log_in(self, attempt: LoginAttempt) -> Identity | None:
        """Like `authenticate`, but not a coroutine."""
        if attempt.password is None:
            user = self._users.get(attempt.name)
        else:
            user = self._users.authenticate(attempt.name, attempt.password)
        return None if user is None else Identity(user.name, user.tags, authorization=self)

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, or None if the credentials are wrong."""
        return self.log_in(attempt)

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """The secret is ignored, as in RabbitMQ: a password does not expire."""
        return identity

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> bool:
        """Whether the user has permissions in the vhost."""
        return self._permissions.has_vhost_access(identity.name, vhost)

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> bool:
        """Whether the user's permissions in the vhost match the name."""
        return self._permissions.allows(identity.name, vhost, name, permission)

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """Whether the user's topic permissions match; without any, everything is allowed."""
        return self._permissions.allows_topic(
            identity.name, vhost, exchange, routing_key, permission, identity.client_id
        )
