"""Vhosts, limits, policies, parameters."""

import json
from typing import Any

from mgmt.ctl.client import HttpError
from mgmt.ctl.command import Session, command
from mgmt.ctl.errors import DATA_ERROR, UNAVAILABLE, CtlError, UsageError
from mgmt.ctl.formatters import json_text
from mgmt.ctl.users import find_user

VHOSTS, POLICIES, PARAMETERS = "Virtual hosts", "Policies", "Parameters"
VHOST_COLUMNS = (
    "name", "tracing", "cluster_state", "description", "tags", "default_queue_type", "metadata"
)  # fmt: skip


@command("add_vhost", "<vhost>", "Creates a virtual host", VHOSTS,
         "description=", "tags=", "default-queue-type=")  # fmt: skip
def add_vhost(ctl: Session) -> None:
    """Add a vhost; one that is there is fine."""
    name = ctl.argument(0)
    ctl.banner(f'Adding vhost "{name}" ...')
    keys = ("description", "tags", "default_queue_type")
    body = {key: ctl.options[key] for key in keys if ctl.options.get(key)}
    ctl.client.put("vhosts", name, body=body)


@command("delete_vhost", "<vhost>", "Deletes a virtual host", VHOSTS)
def delete_vhost(ctl: Session) -> None:
    """Delete a vhost with all in it."""
    name = ctl.argument(0)
    ctl.banner(f'Deleting vhost "{name}" ...')
    try:
        ctl.client.delete("vhosts", name)
    except HttpError as error:
        if error.status == 404:
            raise CtlError(f'Error:\nVirtual host "{name}" does not exist', DATA_ERROR) from None
        raise


@command("list_vhosts", "[<column>, ...]", "Lists virtual hosts", VHOSTS)
def list_vhosts(ctl: Session) -> None:
    """All vhosts."""
    columns = check_columns(ctl.arguments or ["name"], VHOST_COLUMNS)
    ctl.banner("Listing vhosts ...")
    found = ctl.client.get("vhosts")
    ctl.rows([[vhost.get(name) for name in columns] for vhost in found], columns)


def check_columns(wanted: list[str], known: tuple[str, ...]) -> list[str]:
    """The columns that are asked for, however they are separated. Raises UsageError."""
    columns = [name for word in wanted for name in word.replace(",", " ").split()]
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise UsageError(f"Info key(s) {','.join(unknown)} are not supported")
    return columns


@command("set_vhost_tags", "<vhost> [<tag>, ...]", "Sets virtual host tags", VHOSTS)
def set_vhost_tags(ctl: Session) -> None:
    """Give a vhost these tags."""
    name, tags = ctl.argument(0), ctl.arguments[1:]
    ctl.banner(f'Setting tags for virtual host "{name}" to [{", ".join(tags)}] ...')
    _existing(ctl, name)
    ctl.client.put("vhosts", name, body={"tags": tags})


@command("update_vhost_metadata", "<vhost>", "Updates metadata of a virtual host", VHOSTS,
         "description=", "tags=", "default-queue-type=")  # fmt: skip
def update_vhost_metadata(ctl: Session) -> None:
    """Change a vhost's description, tags and default queue type."""
    name = ctl.argument(0)
    ctl.banner(f'Updating metadata of vhost "{name}" ...')
    _existing(ctl, name)
    add_vhost_body = {
        key: ctl.options[key]
        for key in ("description", "tags", "default_queue_type")
        if ctl.options.get(key) is not None
    }
    ctl.client.put("vhosts", name, body=add_vhost_body)


def _existing(ctl: Session, name: str) -> None:
    try:
        ctl.client.get("vhosts", name)
    except HttpError as error:
        if error.status == 404:
            raise CtlError(f'Error:\nVirtual host "{name}" does not exist', DATA_ERROR) from None
        raise


@command("restart_vhost", "", "Restarts a failed vhost data stores and queues", VHOSTS)
def restart_vhost(ctl: Session) -> None:
    """A vhost runs as long as the node does."""
    ctl.say(f"Vhost '{ctl.vhost}' needs no restart: it runs as long as its node does.")


@command("trace_on", "", "Enables message tracing of a vhost", VHOSTS)
def trace_on(ctl: Session) -> None:
    """Trace a vhost."""
    ctl.banner(f'Starting tracing for vhost "{ctl.vhost}" ...')
    _existing(ctl, ctl.vhost)
    ctl.client.put("vhosts", ctl.vhost, body={"tracing": True})
    ctl.say(f"Trace enabled for vhost {ctl.vhost}")


@command("trace_off", "", "Disables message tracing of a vhost", VHOSTS)
def trace_off(ctl: Session) -> None:
    """Trace a vhost no more."""
    ctl.banner(f'Stopping tracing for vhost "{ctl.vhost}" ...')
    _existing(ctl, ctl.vhost)
    ctl.client.put("vhosts", ctl.vhost, body={"tracing": False})
    ctl.say(f"Trace disabled for vhost {ctl.vhost}")


# Limits


def parse_json(text: str, what: str) -> Any:
    """A JSON argument. Raises CtlError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise CtlError(f"Error:\n{what} is not JSON: {error}", DATA_ERROR) from None


def _limits(text: str) -> dict[str, Any]:
    limits = parse_json(text, "the definition of limits")
    if not isinstance(limits, dict):
        raise CtlError("Error:\nlimits must be a JSON object", DATA_ERROR)
    return limits


@command("set_vhost_limits", "<definition>", "Sets virtual host limits", VHOSTS)
def set_vhost_limits(ctl: Session) -> None:
    """Limits of a vhost."""
    ctl.banner(f'Setting vhost limits to "{ctl.argument(0)}" for vhost "{ctl.vhost}" ...')
    for name, value in _limits(ctl.argument(0)).items():
        ctl.client.put("vhost-limits", ctl.vhost, name, body={"value": value})


@command("clear_vhost_limits", "", "Clears virtual host limits", VHOSTS)
def clear_vhost_limits(ctl: Session) -> None:
    """No limits of a vhost."""
    ctl.banner(f'Clearing vhost "{ctl.vhost}" limits ...')
    for found in ctl.client.get("vhost-limits", ctl.vhost):
        for name in found["value"]:
            ctl.client.delete("vhost-limits", ctl.vhost, name)


@command("list_vhost_limits", "", "Displays configured virtual host limits", VHOSTS, "global")
def list_vhost_limits(ctl: Session) -> None:
    """Limits of a vhost, or of all."""
    if ctl.options.get("global"):
        ctl.banner("Listing limits for all vhosts ...")
        rows = [(found["vhost"], found["value"]) for found in ctl.client.get("vhost-limits")]
        ctl.rows(rows, ("vhost", "limits"))
        return
    ctl.banner(f'Listing limits for vhost "{ctl.vhost}" ...')
    for found in ctl.client.get("vhost-limits", ctl.vhost):
        ctl.out(json_text(found["value"]))


@command("set_user_limits", "<username> <definition>", "Sets user limits", VHOSTS)
def set_user_limits(ctl: Session) -> None:
    """Limits of a user."""
    name, definition = ctl.arguments
    ctl.banner(f'Setting user limits to "{definition}" for user "{name}" ...')
    find_user(ctl, name)
    for key, value in _limits(definition).items():
        ctl.client.put("user-limits", name, key, body={"value": value})


@command("clear_user_limits", "<username> <limit>|all", "Clears user connection/channel limits",
         VHOSTS)  # fmt: skip
def clear_user_limits(ctl: Session) -> None:
    """Lift a limit of a user, or all."""
    name, limit = ctl.argument(0), ctl.argument(1, "all")
    ctl.banner(f'Clearing "{limit}" limit for user "{name}" ...')
    find_user(ctl, name)
    for found in ctl.client.get("user-limits", name):
        for key in found["value"]:
            if limit in ("all", key):
                ctl.client.delete("user-limits", name, key)


@command("list_user_limits", "", "Displays configured user limits", VHOSTS, "user=", "global")
def list_user_limits(ctl: Session) -> None:
    """Limits of a user, or of all."""
    user = ctl.options.get("user")
    if user and not ctl.options.get("global"):
        ctl.banner(f'Listing limits for user "{user}" ...')
        for found in ctl.client.get("user-limits", user):
            ctl.out(json_text(found["value"]))
        return
    ctl.banner("Listing limits for all users ...")
    rows = [(found["user"], found["value"]) for found in ctl.client.get("user-limits")]
    ctl.rows(rows, ("user", "limits"))


# Policies

POLICY_COLUMNS = ("vhost", "name", "pattern", "apply-to", "definition", "priority")


def _set_policy(ctl: Session, route: str, title: str, apply_to: str) -> None:
    name, pattern, definition = ctl.arguments
    priority = ctl.options.get("priority") or "0"
    ctl.banner(
        f'Setting {title} "{name}" for pattern "{pattern}" to "{definition}" with priority '
        f'"{priority}" for vhost "{ctl.vhost}" ...'
    )
    try:
        number = int(priority)
    except ValueError:
        raise UsageError(f"priority must be a number, and is '{priority}'") from None
    body = {
        "pattern": pattern, "definition": parse_json(definition, "the definition"),
        "priority": number, "apply-to": ctl.options.get("apply_to") or apply_to,
    }  # fmt: skip
    ctl.client.put(route, ctl.vhost, name, body=body)


def _clear_policy(ctl: Session, route: str, title: str) -> None:
    name = ctl.argument(0)
    ctl.banner(f'Clearing {title} "{name}" on vhost "{ctl.vhost}" ...')
    try:
        ctl.client.delete(route, ctl.vhost, name)
    except HttpError as error:
        if error.status == 404:
            raise CtlError(f"Error:\nThere is no {title} '{name}'", UNAVAILABLE) from None
        raise


def _list_policies(ctl: Session, route: str, title: str) -> None:
    ctl.banner(f'Listing {title} for vhost "{ctl.vhost}" ...')
    found = ctl.client.get(route, ctl.vhost)
    ctl.rows([[policy[name] for name in POLICY_COLUMNS] for policy in found], POLICY_COLUMNS)


@command("set_policy", "<name> <pattern> <definition>", "Sets or updates a policy", POLICIES,
         "priority=", "apply-to=")  # fmt: skip
def set_policy(ctl: Session) -> None:
    """Set a policy."""
    _set_policy(ctl, "policies", "policy", "all")


@command("set_operator_policy", "<name> <pattern> <definition>",
         "Sets an operator policy that overrides a subset of arguments in user policies",
         POLICIES, "priority=", "apply-to=")  # fmt: skip
def set_operator_policy(ctl: Session) -> None:
    """Set an operator policy."""
    _set_policy(ctl, "operator-policies", "operator policy override", "queues")


@command("clear_policy", "<name>", "Clears (removes) a policy", POLICIES)
def clear_policy(ctl: Session) -> None:
    """Clear a policy."""
    _clear_policy(ctl, "policies", "policy")


@command("clear_operator_policy", "<name>", "Clears an operator policy", POLICIES)
def clear_operator_policy(ctl: Session) -> None:
    """Clear an operator policy."""
    _clear_policy(ctl, "operator-policies", "operator policy")


@command("list_policies", "", "Lists all policies in a virtual host", POLICIES)
def list_policies(ctl: Session) -> None:
    """Policies in a vhost."""
    _list_policies(ctl, "policies", "policies")


@command("list_operator_policies", "",
         "Lists operator policy overrides for a virtual host", POLICIES)  # fmt: skip
def list_operator_policies(ctl: Session) -> None:
    """Operator policies in a vhost."""
    _list_policies(ctl, "operator-policies", "operator policy overrides")


@command("list_policies_that_match", "<object_name>",
         "Lists all policies matching a queue/exchange (only the highest priority policy is "
         "active)", POLICIES, "object-type=")  # fmt: skip
def list_policies_that_match(ctl: Session) -> None:
    """Policies whose patterns match a name."""
    import re  # noqa: PLC0415 - only this command needs it

    name = ctl.argument(0)
    kind = ctl.options.get("object_type") or "queue"
    ctl.banner(f"Listing policies that match {kind} '{name}' in vhost '{ctl.vhost}' ...")
    kinds = ("all", "queues", "classic_queues") if kind == "queue" else ("all", "exchanges")
    found = [
        policy
        for policy in ctl.client.get("policies", ctl.vhost)
        if policy["apply-to"] in kinds and re.search(policy["pattern"], name)
    ]
    found.sort(key=lambda policy: -policy["priority"])
    columns = ("name", "pattern", "apply-to", "definition", "priority")
    ctl.rows([[policy[key] for key in columns] for policy in found], columns)


# Parameters


@command("set_parameter", "<component_name> <name> <value>", "Sets a runtime parameter.",
         PARAMETERS)  # fmt: skip
def set_parameter(ctl: Session) -> None:
    """Set a parameter of a component."""
    component, name, value = ctl.arguments
    ctl.banner(
        f'Setting runtime parameter "{name}" for component "{component}" to "{value}" in vhost '
        f'"{ctl.vhost}" ...'
    )
    body = {"value": parse_json(value, "the value")}
    ctl.client.put("parameters", component, ctl.vhost, name, body=body)


@command("clear_parameter", "<component_name> <name>", "Clears a runtime parameter.", PARAMETERS)
def clear_parameter(ctl: Session) -> None:
    """Clear a parameter of a component."""
    component, name = ctl.arguments
    ctl.banner(
        f'Clearing runtime parameter "{name}" for component "{component}" on vhost "{ctl.vhost}" '
        "..."
    )
    ctl.client.delete("parameters", component, ctl.vhost, name)


@command("list_parameters", "", "Lists runtime parameters for a virtual host", PARAMETERS)
def list_parameters(ctl: Session) -> None:
    """Parameters in a vhost."""
    ctl.banner(f'Listing runtime parameters for vhost "{ctl.vhost}" ...')
    columns = ("component", "name", "value")
    found = [row for row in ctl.client.get("parameters") if row["vhost"] == ctl.vhost]
    rows = [[row["component"], row["name"], json_text(row["value"])] for row in found]
    ctl.rows(rows, columns)


@command("set_global_parameter", "<name> <value>", "Sets a runtime parameter.", PARAMETERS)
def set_global_parameter(ctl: Session) -> None:
    """Set a global parameter."""
    name, value = ctl.arguments
    ctl.banner(f'Setting global runtime parameter "{name}" to "{value}" ...')
    ctl.client.put("global-parameters", name, body={"value": parse_json(value, "the value")})


@command("clear_global_parameter", "<name>", "Clears a global runtime parameter", PARAMETERS)
def clear_global_parameter(ctl: Session) -> None:
    """Clear a global parameter."""
    ctl.banner(f'Clearing global runtime parameter "{ctl.argument(0)}" ...')
    ctl.client.delete("global-parameters", ctl.argument(0))


@command("list_global_parameters", "", "Lists global runtime parameters", PARAMETERS)
def list_global_parameters(ctl: Session) -> None:
    """Global parameters."""
    ctl.banner("Listing global runtime parameters ...")
    found = ctl.client.get("global-parameters")
    ctl.rows([(row["name"], json_text(row["value"])) for row in found], ("name", "value"))
