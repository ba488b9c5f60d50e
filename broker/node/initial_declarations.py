"""The declarations of an empty data directory: a vhost, a user, and the id of the cluster."""

import secrets

from leveret.broker.auth.users import with_password
from leveret.broker.config import Config
from leveret.broker.declarations.values import (
    Declaration,
    Permission,
    PutParameter,
    PutPermission,
    PutUser,
    PutVhost,
)
from leveret.broker.policies.parameters import GLOBAL, INTERNAL_CLUSTER_ID, NO_VHOST


def initial_declarations(config: Config) -> list[Declaration]:
    """A vhost, a user with full permissions in it, and an id."""
    vhost, user = config.default_vhost, config.default_user
    permission = Permission(
        vhost, user, config.default_permissions_configure, config.default_permissions_write,
        config.default_permissions_read,
    )  # fmt: skip
    return [
        PutVhost(vhost),
        PutUser(with_password(user, config.default_pass, config.default_user_tags)),
        PutPermission(permission),
        put_new_cluster_id(),
    ]


def put_new_cluster_id() -> PutParameter:
    """An id of RabbitMQ's form, `rabbitmq-cluster-id-` and 22 characters for 16 random octets."""
    value = f"rabbitmq-cluster-id-{secrets.token_urlsafe(16)}"
    return PutParameter(GLOBAL, NO_VHOST, INTERNAL_CLUSTER_ID, value)
