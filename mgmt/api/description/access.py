"""Schemas of users, permissions, policies and parameters, and of definitions with all of them."""

from leveret.broker.auth.passwords import ALGORITHMS
from leveret.broker.policies.limits import OF_USERS, OF_VHOSTS
from leveret.broker.policies.policy_table import APPLY_TO
from leveret.mgmt.api.description.schemas import (
    ANYTHING,
    COUNT,
    FLAG,
    NAME,
    NUMBER,
    OBJECT,
    TEXT,
    WHOLE,
    Schema,
    list_of,
    nullable,
    one_of,
    record,
    ref,
)

LIMITS_OF_VHOST = record({}, dict.fromkeys(OF_VHOSTS, WHOLE))
LIMITS_OF_USER = record({}, dict.fromkeys(OF_USERS, WHOLE))
_PATTERNS = {"configure": TEXT, "write": TEXT, "read": TEXT}
_ARGUMENTS = {"arguments": OBJECT}
_POLICY = {
    "name": NAME, "pattern": TEXT, "apply-to": one_of(*APPLY_TO), "definition": OBJECT,
    "priority": NUMBER,
}  # fmt: skip
_VHOST = {"vhost": TEXT}


def _declared(where: dict[str, Schema]) -> dict[str, Schema]:
    """The lists of objects in vhosts. where: the field that names the vhost, if there is one."""
    durable = {"durable": FLAG, "auto_delete": FLAG}
    return {
        "parameters": list_of(
            record({"component": NAME, "name": TEXT, **where, "value": ANYTHING})
        ),
        "policies": list_of(record({**_POLICY, **where})),
        "queues": list_of(record({"name": TEXT, **where, **durable, **_ARGUMENTS})),
        "exchanges": list_of(
            record({"name": TEXT, **where, "type": NAME, "internal": FLAG, **durable, **_ARGUMENTS})
        ),
        "bindings": list_of(
            record(
                {
                    "source": TEXT, **where, "destination": TEXT,
                    "destination_type": one_of("queue", "exchange"), "routing_key": TEXT,
                    **_ARGUMENTS,
                }
            )
        ),
    }  # fmt: skip


SCHEMAS: dict[str, Schema] = {
    "User": record(
        {
            "name": NAME, "password_hash": TEXT, "hashing_algorithm": one_of(*ALGORITHMS),
            "tags": list_of(TEXT), "limits": LIMITS_OF_USER,
        }
    ),
    "Permission": record({"user": NAME, **_VHOST, **_PATTERNS}),
    "TopicPermission": record(
        {"user": NAME, **_VHOST, "exchange": TEXT, "write": TEXT, "read": TEXT}
    ),
    "Policy": record({**_VHOST, **_POLICY}),
    "VhostLimits": record({**_VHOST, "value": LIMITS_OF_VHOST}),
    "UserLimits": record({"user": NAME, "value": LIMITS_OF_USER}),
    "Parameter": record({"value": ANYTHING, **_VHOST, "component": NAME, "name": TEXT}),
    "GlobalParameter": record({"name": TEXT, "value": ANYTHING}),
    "Definitions": record(
        {
            "rabbit_version": NAME, "rabbitmq_version": NAME, "product_name": NAME,
            "product_version": NAME, "users": list_of(ref("User")),
            "vhosts": list_of(
                record(
                    {
                        "name": TEXT, "description": TEXT, "tags": list_of(TEXT),
                        "metadata": OBJECT, "limits": list_of(ANYTHING),
                    }
                )
            ),
            "permissions": list_of(ref("Permission")),
            "topic_permissions": list_of(ref("TopicPermission")),
            "global_parameters": list_of(ref("GlobalParameter")), **_declared(_VHOST),
        }
    ),
    "VhostDefinitions": record({"rabbit_version": NAME, **_declared({})}),
    "Change": record(
        {
            "action": one_of("add", "change", "conflict"), "kind": NAME, "vhost": nullable(TEXT),
            "name": ANYTHING, "from": nullable(OBJECT), "to": OBJECT,
        },
        {"reason": TEXT},
    ),
    "Changes": record(
        {
            "changes": list_of(ref("Change")), "unchanged": COUNT,
            "problems": list_of(ref("Problem")),
        }
    ),
    "Problem": record({"path": TEXT, "reason": ANYTHING}),
}  # fmt: skip
