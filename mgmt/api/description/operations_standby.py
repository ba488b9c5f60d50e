"""Operations on the replication of definitions from an upstream, with their schemas."""

from leveret.broker.amqp.uri import VERIFY_NONE, VERIFY_PEER
from leveret.broker.policies.schema_replication import (
    DISABLED,
    INTERVAL_S_MAX,
    INTERVAL_S_MIN,
    KINDS,
    PROMOTED,
)
from leveret.mgmt.api.description.operation import Operation, TaggedOperations
from leveret.mgmt.api.description.schemas import (
    COUNT,
    NAME,
    NUMBER,
    TEXT,
    Schema,
    described,
    list_of,
    nullable,
    one_of,
    record,
    ref,
)
from leveret.mgmt.api.schema_replication import ACTIONS
from leveret.mgmt.standby.follower import FAILED, HELD, OFF, SYNCING, WAITING

_standby = TaggedOperations("standby")

_INTERVAL: Schema = {"type": "number", "minimum": INTERVAL_S_MIN, "maximum": INTERVAL_S_MAX}
_ENDPOINTS: Schema = {**list_of(NAME), "minItems": 1}
_VHOSTS = described(nullable(list_of(TEXT)), "Those that are followed; null for all.")
_LEFT = list_of(
    record({"kind": one_of(*KINDS), "vhost": nullable(TEXT), "name": TEXT, "reason": TEXT})
)
_OPTIONS = {
    "interval": described(_INTERVAL, "Seconds between two syncs."),
    "vhosts": _VHOSTS,
    "local_users": described(list_of(TEXT), "Users that belong to the standby alone."),
    "cacertfile": described(TEXT, "Authorities that the upstream's certificate is checked by."),
    "verify": one_of(VERIFY_PEER, VERIFY_NONE),
}

SCHEMAS: dict[str, Schema] = {
    "SchemaReplication": record(
        {
            "node": described(NAME, "The node that follows."),
            "operating_mode": described(one_of("downstream", "upstream"), "A standby or not."),
            "state": one_of(OFF, WAITING, SYNCING, HELD, FAILED, DISABLED, PROMOTED),
            "upstream": nullable(ref("SchemaReplicationUpstream")),
            "reason": described(TEXT, "Why it is held or has failed."),
            "since": described(nullable(NUMBER), "When the state began, in seconds since 1970."),
            "endpoint": described(TEXT, "The one that answered last."),
            "follows": described(
                list_of(TEXT), "Ids of the clusters that it follows: the upstream's first."
            ),
            "kept": described(_LEFT, "Up to 100 objects that are not deleted yet, and why."),
            "kept_count": COUNT,
            "problems": described(_LEFT, "Up to 100 objects that cannot be declared, and why."),
            "problems_count": COUNT,
            "syncs": record(
                {
                    "complete": COUNT, "unchanged": COUNT, "failed": COUNT, "held": COUNT,
                    "changes": COUNT, "last_duration": NUMBER,
                    "last_complete_at": nullable(NUMBER),
                }
            ),
        }
    ),
    "SchemaReplicationUpstream": record(
        {
            "endpoints": list_of(NAME), "username": NAME, "kinds": list_of(one_of(*KINDS)),
            **_OPTIONS,
        }
    ),
}  # fmt: skip
_SETTING = record(
    {
        "endpoints": described(_ENDPOINTS, "Such as host:15672 or https://host:15671."),
        "username": NAME, "password": NAME,
    },
    {
        **_OPTIONS,
        "kinds": nullable(list_of(one_of(*KINDS))),
        "local_users": described(
            nullable(list_of(TEXT)), "Users that belong to the standby alone; null for yourself."
        ),
    },
)  # fmt: skip

OPERATIONS: tuple[Operation, ...] = (
    _standby.shows("/schema-replication", ref("SchemaReplication")),
    _standby.puts("/schema-replication", _SETTING, 409),
    _standby.deletes("/schema-replication", 409),
    *(_standby.posts(f"/schema-replication/{one}", None, None, 409) for one in ACTIONS),
)
