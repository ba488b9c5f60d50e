"""Operations on users and permissions, on policies, limits and parameters, and on definitions."""

from leveret.mgmt.api.description import bodies
from leveret.mgmt.api.description.operation import Operation, Parameter, TaggedOperations, choice
from leveret.mgmt.api.description.schemas import TEXT, Schema, described, list_of, ref

_users = TaggedOperations("users")
_permissions = TaggedOperations("permissions")
_policies = TaggedOperations("policies")
_limits = TaggedOperations("limits")
_parameters = TaggedOperations("parameters")
_definitions = TaggedOperations("definitions")

DRY_RUN = choice("dry_run", "true")
DOWNLOAD = Parameter("download", described(TEXT, "The name of a file to save the answer in."))
AUTH = Parameter("auth", described(TEXT, "Name and password in base64, for links in pages."))

USERS = (
    _users.lists("/users", ref("User")),
    _users.gets("/users/without-permissions", list_of(ref("User"))),
    _users.shows("/users/{user}", ref("User"), 404),
    _users.puts("/users/{user}", bodies.USER),
    _users.deletes("/users/{user}", 404),
    _users.posts("/users/bulk-delete", bodies.USERS, None),
)
PERMISSIONS = (
    _permissions.gets("/permissions", list_of(ref("Permission"))),
    _permissions.gets("/vhosts/{vhost}/permissions", list_of(ref("Permission")), 404),
    _permissions.gets("/users/{user}/permissions", list_of(ref("Permission")), 404),
    _permissions.shows("/permissions/{vhost}/{user}", ref("Permission"), 404),
    _permissions.puts("/permissions/{vhost}/{user}", bodies.PERMISSION),
    _permissions.deletes("/permissions/{vhost}/{user}", 404),
    _permissions.gets("/topic-permissions", list_of(ref("TopicPermission"))),
    _permissions.gets("/vhosts/{vhost}/topic-permissions", list_of(ref("TopicPermission")), 404),
    _permissions.gets("/users/{user}/topic-permissions", list_of(ref("TopicPermission")), 404),
    _permissions.gets("/topic-permissions/{vhost}/{user}", list_of(ref("TopicPermission")), 404),
    _permissions.puts("/topic-permissions/{vhost}/{user}", bodies.TOPIC_PERMISSION),
    _permissions.deletes("/topic-permissions/{vhost}/{user}", 404),
    _permissions.gets(
        "/topic-permissions/{vhost}/{user}/{exchange}", list_of(ref("TopicPermission")), 404
    ),
    _permissions.deletes("/topic-permissions/{vhost}/{user}/{exchange}", 404),
)


def _of_kind(kind: str) -> tuple[Operation, ...]:
    one = f"/{kind}/{{vhost}}/{{name}}"
    return (
        _policies.gets(f"/{kind}", list_of(ref("Policy"))),
        _policies.gets(f"/{kind}/{{vhost}}", list_of(ref("Policy")), 404),
        _policies.shows(one, ref("Policy"), 404),
        _policies.puts(one, bodies.POLICY, 404),
        _policies.deletes(one, 404),
    )


LIMITS = (
    _limits.gets("/vhost-limits", list_of(ref("VhostLimits"))),
    _limits.gets("/vhost-limits/{vhost}", list_of(ref("VhostLimits")), 404),
    _limits.puts("/vhost-limits/{vhost}/{name}", bodies.LIMIT, 404),
    _limits.deletes("/vhost-limits/{vhost}/{name}", 404),
    _limits.gets("/user-limits", list_of(ref("UserLimits"))),
    _limits.gets("/user-limits/{user}", list_of(ref("UserLimits")), 404),
    _limits.puts("/user-limits/{user}/{name}", bodies.LIMIT),
    _limits.deletes("/user-limits/{user}/{name}", 404),
)
_ONE_PARAMETER = "/parameters/{component}/{vhost}/{name}"
PARAMETERS = (
    _parameters.gets("/parameters", list_of(ref("Parameter"))),
    _parameters.gets("/parameters/{component}", list_of(ref("Parameter"))),
    _parameters.gets("/parameters/{component}/{vhost}", list_of(ref("Parameter")), 404),
    _parameters.shows(_ONE_PARAMETER, ref("Parameter"), 404),
    _parameters.puts(_ONE_PARAMETER, bodies.PARAMETER, 404),
    _parameters.deletes(_ONE_PARAMETER, 404),
    _parameters.gets("/global-parameters", list_of(ref("GlobalParameter"))),
    _parameters.shows("/global-parameters/{name}", ref("GlobalParameter"), 404),
    _parameters.puts("/global-parameters/{name}", bodies.PARAMETER),
    _parameters.deletes("/global-parameters/{name}", 404),
)


def _definitions_at(path: str, name: str, body: Schema, *statuses: int) -> tuple[Operation, ...]:
    return (
        _definitions.shows(path, ref(name), *statuses, parameters=[DOWNLOAD, AUTH]),
        Operation(
            "POST", path, "definitions", ref("Changes"), (204, 400, *statuses),
            body, parameters=(DRY_RUN,),
        ),
    )  # fmt: skip


OPERATIONS = (
    *USERS,
    *PERMISSIONS,
    *_of_kind("policies"),
    *_of_kind("operator-policies"),
    *LIMITS,
    *PARAMETERS,
    *_definitions_at("/definitions", "Definitions", bodies.DEFINITIONS),
    *_definitions_at("/all-configuration", "Definitions", bodies.DEFINITIONS),
    *_definitions_at(
        "/definitions/{vhost}", "VhostDefinitions", bodies.VHOST_DEFINITIONS, 400, 404
    ),
)
