"""Operations on the node: overview, health, logins, and the control socket's operations."""

from leveret.mgmt.api.description import bodies
from leveret.mgmt.api.description.operation import (
    QUEUE_WINDOWS,
    WHOLE_OR_NONE,
    Operation,
    Parameter,
    TaggedOperations,
    window,
)
from leveret.mgmt.api.description.schemas import (
    ANYTHING,
    COUNT,
    FLAG,
    NAME,
    OBJECT,
    TEXT,
    any_of,
    described,
    list_of,
    mapping,
    one_of,
    record,
    ref,
)

_node = TaggedOperations("node")
_health = TaggedOperations("health")
_logins = TaggedOperations("logins")
_control = TaggedOperations("control socket")

NODE_WINDOW = window("node_stats")
MEMORY = Parameter("memory", described(TEXT, "`true`: with the memory by category."))
_RELATIVE = record({"memory": mapping(COUNT)})
_NODE = any_of(ref("Node"), ref("AbsentNode"))
_ETS = record({"ets_tables_memory": one_of("no_tables")})

NODE = (
    _node.shows("/overview", ref("Overview"), 400, parameters=QUEUE_WINDOWS),
    _node.gets("/nodes", list_of(_NODE), 400, parameters=NODE_WINDOW),
    _node.shows("/nodes/{node}", _NODE, 400, 404, parameters=(*NODE_WINDOW, MEMORY)),
    _node.shows("/nodes/{node}/memory", record({"memory": ref("Memory")}), 404),
    _node.shows("/nodes/{node}/memory/relative", _RELATIVE, 404),
    *(
        _node.shows(f"/nodes/{{node}}/memory/ets{rest}", _ETS, 404)
        for rest in ("", "/relative", "/{filter}", "/{filter}/relative")
    ),
    _node.shows("/cluster-name", record({"name": TEXT})),
    _node.puts("/cluster-name", bodies.CLUSTER_NAME),
    _node.gets(
        "/extensions", list_of(record({"javascript": NAME}, {"plugin": NAME, "page": NAME}))
    ),
    _node.gets("/feature-flags", list_of(ref("FeatureFlag"))),
    _node.puts("/feature-flags/{name}/enable", bodies.NOTHING),
    _node.gets("/deprecated-features", list_of(ANYTHING)),
    _node.gets("/deprecated-features/used", list_of(ANYTHING)),
    _node.deletes("/reset"),
    _node.deletes("/reset/{node}", 404),
    _node.posts("/rebalance/queues", None, None),
    _node.gets(
        "/audit", list_of(ref("AuditLine")), 400, parameters=[Parameter("count", WHOLE_OR_NONE)]
    ),
    _node.shows("/config/effective", OBJECT),
    Operation("GET", "/openapi.json", "node", OBJECT),
)
_DOWN = (503,)
HEALTH = (
    _health.shows("/aliveness-test/{vhost}", ref("Ok"), 400, 404, *_DOWN),
    _health.shows("/healthchecks/node", ref("Ok"), *_DOWN),
    _health.shows("/healthchecks/node/{node}", ref("Ok"), 404, *_DOWN),
    _health.shows("/health/checks/alarms", ref("Ok"), *_DOWN),
    _health.shows("/health/checks/local-alarms", ref("Ok"), *_DOWN),
    _health.shows("/health/checks/certificate-expiration/{within}/{unit}", ref("Ok"), 400, *_DOWN),
    _health.shows("/health/checks/port-listener/{port}", ref("PortOk"), 400, *_DOWN),
    _health.shows("/health/checks/protocol-listener/{protocol}", ref("ProtocolOk"), *_DOWN),
    _health.shows("/health/checks/virtual-hosts", ref("Ok"), *_DOWN),
    _health.shows("/health/checks/is-in-service", ref("Ok"), *_DOWN),
    _health.shows(
        "/health/checks/node-is-mirror-sync-critical", any_of(ref("Ok"), ref("CriticalOk")), *_DOWN
    ),
    _health.shows(
        "/health/checks/node-is-quorum-critical", any_of(ref("Ok"), ref("CriticalOk")), *_DOWN
    ),
    _health.shows("/health/checks/new-quorum-queue-replicas", ref("Ok"), *_DOWN),
)
LOGINS = (
    _logins.shows(
        "/whoami",
        record({"name": TEXT, "tags": list_of(TEXT)}, {"login_session_timeout": COUNT}),
    ),
    _logins.shows(
        "/auth",
        record(
            {
                "oauth_enabled": FLAG, "enable_uaa": FLAG, "uaa_client_id": TEXT,
                "uaa_location": TEXT,
            }
        ),
    ),
    Operation(
        "POST", "/login", "logins", one_of("ok"), (413,), bodies.LOGIN,
        "application/x-www-form-urlencoded",
    ),
    _logins.shows("/auth/hash_password/{password}", record({"ok": NAME})),
    _logins.gets("/auth/attempts/{node}", list_of(ref("LoginAttempts")), 404),
    _logins.deletes("/auth/attempts/{node}", 404),
    _logins.gets("/auth/attempts/{node}/source", list_of(ref("LoginAttemptsOfAddress")), 404),
    _logins.deletes("/auth/attempts/{node}/source", 404),
)  # fmt: skip
_CHANGED = record({"vhost": NAME, "name": NAME, "size": COUNT, "error": TEXT})
CONTROL = (
    _control.shows("/node/ping", record({"status": one_of("ok"), "node": NAME})),
    _control.shows("/node/status", OBJECT),
    _control.shows("/node/environment", OBJECT),
    _control.puts("/node/vm-memory-high-watermark", bodies.AMOUNT, 409),
    _control.puts("/node/disk-free-limit", bodies.AMOUNT, 409),
    _control.puts("/node/log-level", bodies.LOG_LEVEL),
    _control.shows("/node/plugins", OBJECT, 409),
    _control.posts("/node/plugins", bodies.PLUGINS, OBJECT, 400, 409),
    _control.gets(
        "/node/log", record({"lines": list_of(TEXT), "last_number": COUNT}), 409,
        parameters=(
            Parameter("count", described(COUNT, "How many of the last lines.")),
            Parameter("after", described(COUNT, "All lines after the one with this number.")),
        ),
    ),
    *(
        _control.posts(f"/node/{act}", None, None, *statuses)
        for act, *statuses in (
            ("rotate-logs",), ("stop-app",), ("start-app", 409, 500), ("reset", 409), ("stop",),
            ("suspend-listeners",), ("resume-listeners", 500), ("drain",), ("revive", 500),
            ("leave-cluster", 409, 500), ("force-boot", 409, 500),
        )
    ),
    _control.shows("/node/cluster-status", OBJECT),
    _control.gets("/node/discarded", list_of(OBJECT)),
    _control.shows("/node/discarded/{file}", OBJECT, 400, 404),
    _control.posts("/node/publish-discarded", bodies.PUBLISHING_DISCARDED, OBJECT, 404, 409, 500),
    *(
        _control.posts(f"/node/{act}", body, None, 409, 500)
        for act, body in (
            ("join-cluster", bodies.JOINING), ("forget-cluster-node", bodies.FORGETTING),
            ("update-cluster-nodes", bodies.FORGETTING),
            ("change-cluster-node-type", bodies.NODE_TYPE),
        )
    ),
    _control.posts("/node/collect-garbage", None, record({"collected": COUNT})),
    _control.posts("/node/check-password", bodies.PASSWORD, None),
    _control.posts("/node/close-connections", bodies.CLOSING, record({"closed": COUNT})),
    _control.posts(
        "/node/rebalance-queues", bodies.REBALANCING,
        list_of(record({"node": NAME, "quorum": COUNT, "classic": COUNT})),
    ),
    _control.posts("/node/grow-quorum-queues", bodies.GROWING_ON_NODE, list_of(_CHANGED), 404, 503),
    _control.posts("/node/shrink-quorum-queues", bodies.MEMBERS_NODE, list_of(_CHANGED), 404, 503),
    _control.posts(
        "/node/force-shrink-quorum-queues", bodies.FORCING,
        list_of(record({"vhost": NAME, "name": NAME, "error": TEXT})), 503,
    ),
    Operation("GET", "/node/events", "control socket", OBJECT, answer_type="application/x-ndjson"),
)  # fmt: skip

OPERATIONS = (*NODE, *HEALTH, *LOGINS, *CONTROL)
