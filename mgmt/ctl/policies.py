"""Policies, operator policies, and runtime parameters."""

from typing import Any

from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import failure, no_such
from leveret.mgmt.ctl.formatters import json_facts, json_text
from leveret.mgmt.ctl.users import require_vhost
from leveret.mgmt.ctl.vhosts import (
    clear_all_vhost_limits,
    clear_if_there,
    parse_json,
    parse_vhost_limits,
    replace_vhost_limits,
)

POLICIES, PARAMETERS = "Policies", "Parameters"
LIMITS = "vhost-limits"
"""RabbitMQ's component name for the limits of virtual hosts, which are parameters."""
COLUMNS = ("vhost", "name", "pattern", "apply-to", "definition", "priority")
POLICY_USAGE = (
    "[--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> "
    "<definition>"
)
LIST_USAGE = "[--vhost <vhost>] [--no-table-headers]"
KINDS = {
    "queue": ("all", "queues", "classic_queues", "quorum_queues", "streams"),
    "exchange": ("all", "exchanges"),
}


def _set_policy(ctl: CommandRun, route: str, title: str) -> None:
    name, pattern, definition = ctl.arguments
    priority = ctl.options.get("priority", 0)
    body = {
        "pattern": pattern, "definition": parse_json(definition), "priority": priority,
        "apply-to": ctl.options.get("apply_to") or "all",
    }  # fmt: skip
    ctl.banner(
        f'Setting {title} "{name}" for pattern "{pattern}" to "{definition}" with priority '
        f'"{priority}" for vhost "{ctl.vhost}" ...'
    )
    require_vhost(ctl, ctl.vhost)
    ctl.client.put(route, ctl.vhost, name, body=body)


def _list_policies(ctl: CommandRun, route: str, title: str) -> None:
    ctl.banner(f'Listing {title} for vhost "{ctl.vhost}" ...')
    require_vhost(ctl, ctl.vhost)
    ctl.rows(_policy_rows(ctl.client.get(route, ctl.vhost), COLUMNS), COLUMNS, empty_line=True)


def _policy_rows(found: list[dict[str, Any]], columns: tuple[str, ...]) -> list[list[Any]]:
    return [
        [json_facts(one[name]) if name == "definition" else one[name] for name in columns]
        for one in found
    ]


@command("set_policy", POLICY_USAGE, "Sets or updates a policy", POLICIES,
         "priority=#", "apply-to=")  # fmt: skip
def set_policy(ctl: CommandRun) -> None:
    """Set a policy."""
    _set_policy(ctl, "policies", "policy")


@command("set_operator_policy", POLICY_USAGE, "Sets a policy that overrides those of users",
         POLICIES, "priority=#", "apply-to=")  # fmt: skip
def set_operator_policy(ctl: CommandRun) -> None:
    """Set an operator policy."""
    _set_policy(ctl, "operator-policies", "operator policy override")


@command("clear_policy", "[--vhost <vhost>] <name>", "Clears (removes) a policy", POLICIES)
def clear_policy(ctl: CommandRun) -> None:
    """Clear a policy."""
    name = ctl.argument(0)
    ctl.banner(f'Clearing policy "{name}" on vhost "{ctl.vhost}" ...')
    missing = no_such("Policy", name, ctl.vhost)
    clear_if_there(ctl, missing, "policies", ctl.vhost, name)


@command("clear_operator_policy", "[--vhost <vhost>] <name>", "Clears an operator policy", POLICIES)
def clear_operator_policy(ctl: CommandRun) -> None:
    """Clear an operator policy."""
    name = ctl.argument(0)
    ctl.banner(f'Clearing operator policy "{name}" on vhost "{ctl.vhost}" ...')
    missing = no_such("Operator policy", name, ctl.vhost)
    clear_if_there(ctl, missing, "operator-policies", ctl.vhost, name)


@command("list_policies", LIST_USAGE, "Lists all policies in a virtual host", POLICIES)
def list_policies(ctl: CommandRun) -> None:
    """List policies of a virtual host."""
    _list_policies(ctl, "policies", "policies")


@command("list_operator_policies", LIST_USAGE,
         "Lists operator policy overrides for a virtual host", POLICIES)  # fmt: skip
def list_operator_policies(ctl: CommandRun) -> None:
    """List operator policies of a virtual host."""
    _list_policies(ctl, "operator-policies", "operator policy overrides")


@command("list_policies_that_match", "[--object-type <type>] <name>",
         "Lists the policies whose patterns match the name of a queue or an exchange", POLICIES,
         "object-type=")  # fmt: skip
def list_policies_that_match(ctl: CommandRun) -> None:
    """List policies whose patterns match a name, the effective one first."""
    from leveret.broker.runtime.patterns import compile_pattern  # noqa: PLC0415 - few commands need it

    name, kind = ctl.argument(0), ctl.options.get("object_type", "queue")
    if kind not in KINDS:
        raise failure(f"object type '{kind}' is neither queue nor exchange")
    ctl.banner(f"Listing policies that match {kind} '{name}' in vhost '{ctl.vhost}' ...")
    require_vhost(ctl, ctl.vhost)
    found = [
        policy
        for policy in ctl.client.get("policies", ctl.vhost)
        if policy["apply-to"] in KINDS[kind] and compile_pattern(policy["pattern"]).matches(name)
    ]
    found.sort(key=lambda policy: -policy["priority"])
    columns = ("name", "pattern", "apply-to", "definition", "priority")
    ctl.rows(_policy_rows(found, columns), columns, empty_line=True)


# Parameters


@command("set_parameter", "[--vhost <vhost>] <component_name> <name> <value>",
         "Sets a runtime parameter", PARAMETERS)  # fmt: skip
def set_parameter(ctl: CommandRun) -> None:
    """Set a parameter of a component."""
    component, name, value = ctl.arguments
    is_of_limits = component == LIMITS
    parsed = parse_vhost_limits(value) if is_of_limits else parse_json(value)
    ctl.banner(
        f'Setting runtime parameter "{name}" for component "{component}" to "{value}" in vhost '
        f'"{ctl.vhost}" ...'
    )
    if is_of_limits:
        replace_vhost_limits(ctl, parsed)
        return
    require_vhost(ctl, ctl.vhost)
    ctl.client.put("parameters", component, ctl.vhost, name, body={"value": parsed})


@command("clear_parameter", "[--vhost <vhost>] <component_name> <name>",
         "Clears a runtime parameter", PARAMETERS)  # fmt: skip
def clear_parameter(ctl: CommandRun) -> None:
    """Clear a parameter of a component."""
    component, name = ctl.arguments
    ctl.banner(
        f'Clearing runtime parameter "{name}" for component "{component}" on vhost "{ctl.vhost}" '
        "..."
    )
    if component == LIMITS:
        clear_all_vhost_limits(ctl)
        return
    missing = no_such(f"Parameter of component '{component}'", name, ctl.vhost)
    clear_if_there(ctl, missing, "parameters", component, ctl.vhost, name)


@command("list_parameters", LIST_USAGE, "Lists runtime parameters for a virtual host", PARAMETERS)
def list_parameters(ctl: CommandRun) -> None:
    """List parameters of a virtual host."""
    ctl.banner(f'Listing runtime parameters for vhost "{ctl.vhost}" ...')
    require_vhost(ctl, ctl.vhost)
    found = [row for row in ctl.client.get("parameters") if row["vhost"] == ctl.vhost]
    rows = [[row["component"], row["name"], json_text(row["value"])] for row in found]
    ctl.rows(rows, ("component", "name", "value"), empty_line=True)


@command("set_global_parameter", "<name> <value>", "Sets a global runtime parameter", PARAMETERS)
def set_global_parameter(ctl: CommandRun) -> None:
    """Set a global parameter."""
    name, value = ctl.arguments
    body = {"value": parse_json(value)}
    ctl.banner(f'Setting global runtime parameter "{name}" to "{value}" ...')
    ctl.client.put("global-parameters", name, body=body)


@command("clear_global_parameter", "<name>", "Clears a global runtime parameter", PARAMETERS)
def clear_global_parameter(ctl: CommandRun) -> None:
    """Clear a global parameter."""
    ctl.banner(f'Clearing global runtime parameter "{ctl.argument(0)}" ...')
    name = ctl.argument(0)
    clear_if_there(ctl, no_such("Global parameter", name), "global-parameters", name)


@command("list_global_parameters", "[--no-table-headers]", "Lists global runtime parameters",
         PARAMETERS)  # fmt: skip
def list_global_parameters(ctl: CommandRun) -> None:
    """List global parameters."""
    ctl.banner("Listing global runtime parameters ...")
    found = ctl.client.get("global-parameters")
    rows = [(row["name"], json_text(row["value"])) for row in found]
    ctl.rows(rows, ("name", "value"), empty_line=True)
