"""The state of a node: status, cluster_status, environment and report."""

from collections.abc import Iterator
from typing import Any

from leveret.mgmt.ctl.command import NODE, CommandRun, command
from leveret.mgmt.ctl.emphasis import heading
from leveret.mgmt.ctl.errors import CtlError, UsageError
from leveret.mgmt.ctl.formatters import UNITS, amount, json_text
from leveret.mgmt.ctl.index import all_commands

OBSERVE, CLUSTER = "Monitoring, observability and health checks", "Cluster"
QUORUM_CRITICAL, MIRROR_SYNC_CRITICAL = "node-is-quorum-critical", "node-is-mirror-sync-critical"
"""Health checks of the API that tell which queues need a node."""
CONFIGURATION = "Configuration and Environment"
ALARMS = {"memory": "Memory alarm", "disk": "Free disk space alarm"}


def node_status(ctl: CommandRun) -> dict[str, Any]:
    """Get the node's status over the control socket."""
    ctl.require_local()
    found: dict[str, Any] = ctl.client.get("node", "status")
    return found


def alarm_lines(found: dict[str, Any]) -> list[str]:
    """Return the alarms of a status, one per line."""
    names = [one["alarm"].removeprefix("resource_limit ") for one in found["alarms"]]
    return [alarm_line(name, found["node"]) for name in sorted(names)]


def alarm_line(resource: str, node: str) -> str:
    """Name one alarm."""
    return f"{ALARMS.get(resource, resource)} on node {node}"


def unit_of(ctl: CommandRun, default: str = "gb") -> str:
    """Return the value of `--unit`. Raises UsageError."""
    unit = str(ctl.options.get("unit") or default)
    if unit.lower() not in UNITS:
        raise UsageError(f"unit '{unit}' is not supported. Please use one of: bytes, mb, gb")
    return unit.lower()


@command("status", "[--unit <unit>]", "Displays status of a node", OBSERVE, "unit=")
def status(ctl: CommandRun) -> None:
    """Show the status of the node."""
    unit = unit_of(ctl)
    ctl.banner(f"Status of node {ctl.node} ...")
    found = node_status(ctl)
    ctl.facts(found, status_lines(found, unit))


def status_lines(found: dict[str, Any], unit: str) -> Iterator[str]:
    """Format a status for people."""
    yield heading("Runtime")
    yield f"OS PID: {found['pid']}"
    yield f"OS: {found['os']}"
    yield f"Uptime (seconds): {found['uptime']}"
    yield f"Is under maintenance?: {str(found['is_under_maintenance']).lower()}"
    yield f"RabbitMQ version: {found['rabbitmq_version']}"
    yield f"Leveret version: {found['leveret_version']}"
    yield f"Node name: {found['node']}"
    yield f"Python version: {found['python_version']}"
    yield f"Message path: {found['message_path']}\n"
    yield heading("Plugins")
    yield f"Enabled plugin file: {found['enabled_plugin_file']}"
    yield "Enabled plugins:\n"
    yield from (f" * {name}" for name in found["active_plugins"])
    yield ""
    yield heading("Data directory")
    yield f"Node data directory: {found['data_directory']}\n"
    yield heading("Config files")
    yield from (f" * {path}" for path in found["config_files"])
    yield ""
    yield heading("Log file(s)")
    yield from (f" * {path}" for path in found["log_files"])
    yield ""
    yield heading("Alarms")
    yield "\n".join(alarm_lines(found)) or "(none)"
    yield ""
    yield from _resource_lines(found, unit)
    yield heading("Totals")
    totals = found["totals"]
    yield f"Connection count: {totals['connection_count']}"
    yield f"Queue count: {totals['queue_count']}"
    yield f"Virtual host count: {totals['virtual_host_count']}\n"
    yield heading("Listeners")
    yield from listener_lines(found)


def _resource_lines(found: dict[str, Any], unit: str) -> Iterator[str]:
    memory = found["memory"]
    yield heading("Memory")
    yield f"Total memory used: {amount(memory['total']['rss'], unit)}"
    yield f"Calculation strategy: {found['vm_memory_calculation_strategy']}"
    setting = " ".join(
        f"{value} of available memory" if kind == "relative" else amount(value, unit)
        for kind, value in found["vm_memory_high_watermark_setting"].items()
    )
    limit = amount(found["vm_memory_high_watermark_limit"], unit)
    yield f"Memory high watermark setting: {setting}, computed to: {limit}\n"
    yield from breakdown_lines(memory, unit, blank=" ")
    yield ""
    yield heading("File Descriptors")
    files = found["file_descriptors"]
    yield f"Total: {files['total_used']}, limit: {files['total_limit']}"
    yield f"Sockets: {files['sockets_used']}, limit: {files['sockets_limit']}\n"
    yield heading("Free Disk Space")
    yield f"Low free disk space watermark: {amount(found['disk_free_limit'], unit)}"
    yield f"Free disk space: {amount(found['disk_free'], unit)}\n"


def memory_parts(memory: dict[str, Any]) -> list[tuple[str, int, float]]:
    """Return categories, largest first, in bytes and in percent of the total."""
    total = max(1, memory["total"]["rss"])
    parts = [(name, size) for name, size in memory.items() if isinstance(size, int)]
    return [
        (name, size, round(100 * size / total, 2))
        for name, size in sorted(parts, key=lambda part: -part[1])
    ]


def breakdown_lines(memory: dict[str, Any], unit: str, blank: str = "") -> Iterator[str]:
    """Format categories, largest first. blank: before the percent sign."""
    for name, size, percentage in memory_parts(memory):
        yield f"{name}: {amount(size, unit)} ({percentage}{blank}%)"


def listener_lines(found: dict[str, Any]) -> Iterator[str]:
    """Format listeners."""
    for one in found["listeners"]:
        yield (
            f"Interface: {one['interface']}, port: {one['port']}, protocol: {one['protocol']}, "
            f"purpose: {one['purpose']}"
        )


@command("cluster_status", "", "Displays the nodes of the cluster", CLUSTER)
def cluster_status(ctl: CommandRun) -> None:
    """Show the cluster, with the status that each running node reports."""
    ctl.require_local()
    node = ctl.node
    ctl.banner(f"Cluster status of node {node} ...")
    found = ctl.client.get("node", "cluster-status")
    flags = ctl.client.get("feature-flags")
    nodes = {name: one for name, one in found["nodes"].items() if one is not None}
    alarms = [line for one in nodes.values() for line in alarm_lines(one)]
    facts = {
        **{name: found[name] for name in ("cluster_name", *_NODE_LISTS, "partitions")},
        "alarms": alarms, "feature_flags": flags,
        "listeners": {name: one["listeners"] for name, one in nodes.items()},
        "maintenance_status": {name: _maintenance(one) for name, one in nodes.items()},
        "versions": {
            name: {key: one[key] for key in ("rabbitmq_version", "leveret_version")}
            for name, one in nodes.items()
        },
    }  # fmt: skip
    ctl.facts(facts, list(_cluster_lines(found, nodes, alarms, flags)))


_NODE_LISTS = {
    "disk_nodes": "Disk Nodes", "ram_nodes": "RAM Nodes", "running_nodes": "Running Nodes"
}  # fmt: skip


def _maintenance(status: dict[str, Any]) -> str:
    return f"{'' if status['is_under_maintenance'] else 'not '}under maintenance"


def _cluster_lines(
    found: dict[str, Any], nodes: dict[str, dict[str, Any]], alarms: list[str], flags: list[Any]
) -> Iterator[str]:
    """The status of a cluster as text. nodes: the status of each node that has answered."""
    yield from (heading("Basics"), f"Cluster name: {found['cluster_name']}\n")
    for key, title in _NODE_LISTS.items():
        if found[key]:
            yield from (heading(title), *found[key], "")
    yield heading("Versions")
    for name, one in nodes.items():
        yield f"{name}: RabbitMQ {one['rabbitmq_version']} as Leveret {one['leveret_version']}"
    yield from (f"{name}: does not answer" for name in found["nodes"].keys() - nodes.keys())
    yield from ("", heading("Maintenance status"))
    for name, one in nodes.items():
        yield f"Node: {name}, status: {_maintenance(one)}"
    yield from ("", heading("Alarms"), "\n".join(alarms) or "(none)", "")
    yield heading("Network Partitions")
    for name, others in found["partitions"].items():
        yield f"Node {name} cannot communicate with {', '.join(others)}"
    if not found["partitions"]:
        yield "(none)"
    yield from ("", heading("Listeners"))
    for name, one in nodes.items():
        yield from (f"Node: {name}, {line[0].lower()}{line[1:]}" for line in listener_lines(one))
    yield from ("", heading("Feature flags"))
    yield from (f"Flag: {flag['name']}, state: {flag['state']}" for flag in flags)


@command("environment", "", "Displays the name and the value of every setting", CONFIGURATION,
         needs=NODE)  # fmt: skip
def environment(ctl: CommandRun) -> None:
    """Show every setting."""
    ctl.require_local()
    ctl.banner(f"Application environment of node {ctl.node} ...")
    found = ctl.client.get("node", "environment")
    ctl.facts(found, (f"{key} = {json_text(value)}" for key, value in found.items()))


REPORTED = (
    "status", "cluster_status", "list_connections", "list_channels", "list_queues",
    "list_exchanges", "list_bindings", "list_consumers", "list_permissions", "list_policies",
    "list_operator_policies", "list_parameters", "list_global_parameters", "list_users",
    "list_feature_flags", "environment",
)  # fmt: skip
PER_VHOST = (
    "list_queues", "list_exchanges", "list_bindings", "list_consumers", "list_permissions",
    "list_policies", "list_operator_policies", "list_parameters",
)  # fmt: skip


@command("report", "", "Displays all information about the node, for a question or a bug "
         "report", OBSERVE)  # fmt: skip
def report(ctl: CommandRun) -> None:
    """Print everything. A part that fails is reported, and the others follow."""
    ctl.require_local()
    ctl.out(f"Reporting server status of node {ctl.node} ...\n")
    commands = all_commands()
    vhosts = [vhost["name"] for vhost in ctl.client.get("vhosts")]
    for name in REPORTED:
        for vhost in vhosts if name in PER_VHOST else ["/"]:
            options = {"vhost": vhost}
            inner = CommandRun(commands[name], [], options, ctl.connection, ctl.print_line)
            try:
                commands[name].run(inner)
            except CtlError as error:
                ctl.out(error.text)
            ctl.out("")
