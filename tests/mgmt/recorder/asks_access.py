"""Users, permissions, logins, and the rights of user tags."""

from tests.mgmt.recorder.requests import Request, delete, get, head, options_of, post, put
from tests.mgmt.recorder.scenario import Scenario
from tests.mgmt.recorder.state import STRANGER, TAGS, busy, users_of_each_tag

USER = "users/golden-u"
HASH = "5Hvbt0Pwcoj3XxwF/3mEO7xehchXapvCZFzqYMH0WJfgN3/K"
ANYTHING = {"configure": ".*", "write": ".*", "read": ".*"}

USERS = (
    put(USER, {"password": "p", "tags": "management"}),
    put(USER, {"password": "p", "tags": "management,other"}),
    get(USER),
    put(USER, {"password": "p", "tags": ["a", "b"]}),
    get(USER),
    put(USER, {"password_hash": HASH, "tags": "monitoring"}),
    get("whoami", user="golden-u:guest"),
    get("whoami", user="golden-u:p"),
    put(USER, {"password_hash": HASH, "hashing_algorithm": "rabbit_password_hashing_sha512",
               "tags": ""}),
    get(USER),
    put(USER, {"password_hash": HASH, "hashing_algorithm": "nonsense", "tags": ""}),
    put(USER, {"password_hash": "", "tags": "administrator"}),
    get(USER),
    get("whoami", user="golden-u:"),
    put(USER, {"password_hash": "!", "tags": ""}),
    put(USER, {"password": "", "tags": ""}),
    put(USER, {"tags": "management"}),
    put(USER, {"password": "p"}),
    put(USER, {"password": 5, "tags": ""}),
    put(USER, {"password": "p", "tags": 5}),
    put(USER, {"password": "p", "tags": [5]}),
    put(USER, {"password": "p", "password_hash": HASH, "tags": ""}),
    put(USER, {}),
    put(USER, b"no json"),
    put("users/golden-a%20b%2Fc%20%C3%BC", {"password": "ü", "tags": "management"}),
    get("users/golden-a%20b%2Fc%20%C3%BC"),
    get("users/nobody"),
    get("users"),
    get("users/without-permissions"),
    get("users?columns=name"),
    head(USER),
    options_of(USER),
    options_of("users"),
    post(USER),
    get("users/golden-u/permissions"),
    get("users/nobody/permissions"),
    get("users/nobody/topic-permissions"),
    get("users", user="monitoring"),
    get("users", user="management"),
    get(USER, user="management"),
    put(USER, {"password": "p", "tags": ""}, user="policymaker"),
    delete(USER, user="monitoring"),
    post("users/bulk-delete", {"users": ["golden-u", "nobody"]}),
    get("users/golden-u?columns=name"),
    post("users/bulk-delete", {"users": "golden-u"}),
    post("users/bulk-delete", {}),
    post("users/bulk-delete", b"no json"),
    get("users/bulk-delete"),
    options_of("users/bulk-delete"),
    post("users/bulk-delete", {"users": ["golden-a b/c ü"]}),
    delete(USER),
)  # fmt: skip

PERMISSION = "permissions/{v}/golden-none"
TOPIC = "topic-permissions/{v}/golden-none"

PERMISSIONS = (
    get(PERMISSION),
    delete(PERMISSION),
    delete(PERMISSION),
    get(PERMISSION),
    put(PERMISSION, {"configure": "a", "write": "b", "read": "c"}),
    put(PERMISSION, {"configure": "a", "write": "b", "read": "c"}),
    get(PERMISSION),
    put(PERMISSION, {"configure": "[", "write": "b", "read": "c"}),
    put(PERMISSION, {"configure": 5, "write": "b", "read": "c"}),
    put(PERMISSION, {"write": "b", "read": "c"}),
    put(PERMISSION, {}),
    put(PERMISSION, b"no json"),
    put("permissions/{v}/nobody", ANYTHING),
    put("permissions/nowhere/golden-none", ANYTHING),
    get("permissions/{v}/nobody"),
    get("permissions/nowhere/golden-none"),
    delete("permissions/nowhere/golden-none"),
    head(PERMISSION),
    options_of(PERMISSION),
    post(PERMISSION),
    get("permissions"),
    get("vhosts/{v}/permissions"),
    get("users/golden-none/permissions"),
    get("permissions", user="monitoring"),
    get("permissions", user="management"),
    get("vhosts/{v}/permissions", user="management"),
    get("users/golden-management/permissions", user="management"),
    put(PERMISSION, ANYTHING, user="policymaker"),
    get(TOPIC),
    put(TOPIC, {"exchange": "amq.topic", "write": "a", "read": "b"}),
    put(TOPIC, {"exchange": "amq.topic", "write": "a2", "read": "b"}),
    put(TOPIC, {"exchange": "amq.direct", "write": "a", "read": "b"}),
    put(TOPIC, {"exchange": "nothing", "write": "a", "read": "b"}),
    put(TOPIC, {"exchange": "amq.topic", "write": "[", "read": "b"}),
    put(TOPIC, {"exchange": "amq.topic", "write": "a"}),
    put(TOPIC, {"write": "a", "read": "b"}),
    put("topic-permissions/{v}/nobody", {"exchange": "amq.topic", "write": "a", "read": "b"}),
    put("topic-permissions/nowhere/golden-none", {"exchange": "x", "write": "a", "read": "b"}),
    get(TOPIC),
    get(TOPIC + "/amq.topic"),
    get("topic-permissions"),
    get("vhosts/{v}/topic-permissions"),
    get("users/golden-none/topic-permissions"),
    get("topic-permissions", user="management"),
    options_of(TOPIC),
    delete(TOPIC + "/amq.topic"),
    delete(TOPIC),
    delete(TOPIC),
)  # fmt: skip

FORM = {"Content-Type": "application/x-www-form-urlencoded"}

LOGINS = (
    *(get("whoami", user=tag) for tag in (*TAGS, STRANGER)),
    get("whoami", user=None),
    get("whoami", user="guest:wrong"),
    get("whoami", user="nobody:p"),
    get("whoami", user=None, headers={"Authorization": "Bearer abc"}),
    get("whoami", user=None, headers={"Authorization": "Basic !"}),
    get("whoami", user=None, headers={"Authorization": "nonsense"}),
    options_of("whoami", user=None),
    head("whoami"),
    post("login", b"username=guest&password=guest", user=None, headers=FORM),
    post("login", b"username=guest&password=wrong", user=None, headers=FORM),
    post("login", b"username=guest", user=None, headers=FORM),
    post("login", b"", user=None, headers=FORM),
    get("login"),
    get("auth", user=None),
    get("auth/attempts/{node}", types_only=True),
    get("auth/attempts/nobody@nowhere"),
    delete("auth/attempts/{node}"),
    delete("auth/attempts/{node}/source"),
    get("auth/attempts/{node}", user="management"),
)

SEEN_BY_TAGS = (
    "overview?columns=node,cluster_name,listeners,queue_totals",
    "nodes?columns=name", "nodes/{node}?columns=name", "definitions",
    "definitions/{v}", "parameters", "policies", "operator-policies", "vhost-limits",
    "connections?columns=user", "vhosts/{v}/connections?columns=user", "channels?columns=user",
    "consumers?columns=consumer_tag", "exchanges/{v}?columns=name", "queues/{v}?columns=name",
    "queues?columns=name,vhost", "bindings/{v}?columns=source", "vhosts?columns=name", "vhosts/{v}",
    "vhosts/%2F?columns=name", "queues/%2F", "users?columns=name", "permissions",
    "permissions/{v}/golden-none", "vhosts/{v}/permissions", "feature-flags?columns=name",
    "aliveness-test/{v}", "aliveness-test/%2F", "health/checks/alarms", "healthchecks/node",
    "health/checks/virtual-hosts", "user-limits", "global-parameters", "connections/{quoted}",
    "nodes/{node}/memory?columns=memory",
)  # fmt: skip

CHANGES: tuple[Request, ...] = (
    put("vhosts/golden-tags-2"),
    put("queues/{v}/made", {}),
    put("cluster-name", {"name": "changed"}),
    put("queues/%2F/golden", {}),
    post("definitions", {}),
    post("definitions/{v}", {}),
    post("rebalance/queues", {}),
    put("vhost-limits/{v}/max-queues", {"value": 100}),
    put("permissions/{v}/golden-none", ANYTHING),
    put("global-parameters/golden", {"value": 1}),
    delete("connections/{quoted}"),
    delete("vhosts/{v}"),
)


def statuses_for(tag: str) -> tuple[Request, ...]:
    """Everything that a tag may see, and what it may change."""
    seen = (get(path, user=tag, settles="?" in path or "quoted" in path) for path in SEEN_BY_TAGS)
    return (*seen, *(request._replace(user=tag) for request in CHANGES))


TAGS_WITH_LIMITS = ("monitoring", "policymaker", "management", "none", STRANGER)

ACCESS = (
    Scenario("users", USERS, users_of_each_tag),
    Scenario("permissions", PERMISSIONS, users_of_each_tag),
    Scenario("logins", LOGINS, users_of_each_tag),
    *(Scenario(f"tag-{tag}", statuses_for(tag), busy) for tag in TAGS_WITH_LIMITS),
)
