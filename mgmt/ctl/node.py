"""The node: its status, its limits, starting and stopping, definitions."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mgmt.ctl.command import COMMANDS, Session, command
from mgmt.ctl.errors import DATA_ERROR, UNAVAILABLE, CtlError, UsageError
from mgmt.ctl.formatters import UNITS, amount, heading, json_text

NODES, CONFIGURATION, DEFINITIONS = "Nodes", "Configuration and Environment", "Definitions"
LEVELS = ("debug", "info", "warning", "error", "critical", "none")


def node_status(ctl: Session) -> dict[str, Any]:
    """The node's status, over the control socket, or what the API tells of it."""
    ctl.require_local()
    found: dict[str, Any] = ctl.client.get("node", "status")
    return found


@command("status", "", "Displays status of a node", NODES, "unit=")
def status(ctl: Session) -> None:
    """What the node is and does."""
    found = node_status(ctl)
    unit = ctl.options.get("unit") or "gb"
    if unit not in UNITS:
        raise UsageError(f"unit must be one of {', '.join(UNITS)}")
    ctl.banner(f"Status of node {found['node']} ...")
    ctl.value(found, status_lines(found, unit))


def status_lines(found: dict[str, Any], unit: str) -> Iterator[str]:
    """For people."""
    yield heading("Runtime")
    yield f"OS PID: {found['pid']}"
    yield f"OS: {found['os']}"
    yield f"Uptime (seconds): {found['uptime']}"
    yield f"Is under maintenance?: {str(found['is_under_maintenance']).lower()}"
    yield f"RabbitMQ version: {found['rabbitmq_version']}"
    yield f"Leveret version: {found['leveret_version']}"
    yield f"Node name: {found['node']}"
    yield f"Python version: {found['python_version']}"
    yield f"Is running?: {str(found['is_running']).lower()}\n"
    yield heading("Data directory")
    yield f"Node data directory: {found['data_directory']}\n"
    yield heading("Log file(s)")
    yield from (f" * {path}" for path in found["log_files"])
    yield ""
    yield heading("Alarms")
    yield "\n".join(f" * {one['alarm']} on {one['node']}" for one in found["alarms"]) or "(none)"
    yield ""
    yield heading("Memory")
    yield from _memory_lines(found, unit)
    yield heading("File Descriptors")
    files = found["file_descriptors"]
    yield f"Total: {files['total_used']}, limit: {files['total_limit']}"
    yield f"Sockets: {files['sockets_used']}, limit: {files['sockets_limit']}\n"
    yield heading("Free Disk Space")
    yield f"Low free disk space watermark: {amount(found['disk_free_limit'], unit)}"
    yield f"Free disk space: {amount(found['disk_free'], unit)}\n"
    yield heading("Totals")
    totals = found["totals"]
    yield f"Connection count: {totals['connection_count']}"
    yield f"Queue count: {totals['queue_count']}"
    yield f"Virtual host count: {totals['virtual_host_count']}\n"
    yield heading("Listeners")
    yield from listener_lines(found)


def _memory_lines(found: dict[str, Any], unit: str) -> Iterator[str]:
    memory = found["memory"]
    yield f"Total memory used: {amount(memory['total']['rss'], unit)}"
    yield f"Calculation strategy: {found['vm_memory_calculation_strategy']}"
    setting = " ".join(
        f"{value} of available memory" if kind == "relative" else f"{value} bytes"
        for kind, value in found["vm_memory_high_watermark_setting"].items()
    )
    limit = amount(found["vm_memory_high_watermark_limit"], unit)
    yield f"Memory high watermark setting: {setting}, computed to: {limit}\n"
    yield from breakdown_lines(memory, unit, blank=" ")
    yield ""


def breakdown_lines(memory: dict[str, Any], unit: str, blank: str = "") -> Iterator[str]:
    """Categories, the largest first. blank: before the percent sign."""
    total = max(1, memory["total"]["rss"])
    parts = [(name, size) for name, size in memory.items() if isinstance(size, int)]
    for name, size in sorted(parts, key=lambda part: -part[1]):
        yield f"{name}: {amount(size, unit)} ({round(100 * size / total, 2)}{blank}%)"


def listener_lines(found: dict[str, Any]) -> Iterator[str]:
    """What listens."""
    for one in found["listeners"]:
        yield (
            f"Interface: {one['interface']}, port: {one['port']}, protocol: {one['protocol']}, "
            f"purpose: {one['purpose']}"
        )


@command("cluster_status", "", "Displays all the nodes in the cluster", "Cluster")
def cluster_status(ctl: Session) -> None:
    """The one node."""
    found = node_status(ctl)
    name = ctl.client.get("cluster-name")["name"]
    node = found["node"]
    ctl.banner(f"Cluster status of node {node} ...")
    facts = {
        "cluster_name": name, "disk_nodes": [node], "running_nodes": [node], "partitions": {},
        "alarms": found["alarms"], "listeners": {node: found["listeners"]},
        "versions": {node: {"rabbitmq_version": found["rabbitmq_version"]}},
    }  # fmt: skip
    lines = [
        heading("Basics"), f"Cluster name: {name}\n", heading("Disk Nodes"), f"{node}\n",
        heading("Running Nodes"), f"{node}\n", heading("Versions"),
        f"{node}: RabbitMQ {found['rabbitmq_version']}\n", heading("Alarms"),
        "\n".join(f" * {one['alarm']}" for one in found["alarms"]) or "(none)", "",
        heading("Network Partitions"), "(none)\n", heading("Listeners"),
        *(f"Node: {node}, {line[0].lower()}{line[1:]}" for line in listener_lines(found)),
    ]  # fmt: skip
    ctl.value(facts, lines)


@command("environment", "", "Displays the name and value of each variable in the environment",
         CONFIGURATION)  # fmt: skip
def environment(ctl: Session) -> None:
    """Every setting."""
    ctl.require_local()
    found = ctl.client.get("node", "environment")
    ctl.banner(f"Application environment of node {ctl.node} ...")
    ctl.value(found, (f"{key} = {json_text(value)}" for key, value in found.items()))


REPORTED = (
    "cluster_status", "list_connections", "list_channels", "list_queues", "list_exchanges",
    "list_bindings", "list_consumers", "list_users", "list_permissions", "list_policies",
    "list_parameters", "environment",
)  # fmt: skip


@command("report", "", "Generates a server status report containing a concatenation of all "
         "server status information", CONFIGURATION)  # fmt: skip
def report(ctl: Session) -> None:
    """Everything, for a bug report."""
    ctl.out(f"Reporting server status of node {ctl.node} ...\n")
    status(ctl)
    vhosts = [vhost["name"] for vhost in ctl.client.get("vhosts")]
    for name in REPORTED:
        per_vhost = name in ("list_queues", "list_exchanges", "list_bindings", "list_consumers",
                             "list_permissions", "list_policies", "list_parameters")  # fmt: skip
        for vhost in vhosts if per_vhost else ["/"]:
            ctl.out("")
            inner = Session(name, [], {"vhost": vhost}, ctl.client, ctl.node, ctl.out)
            COMMANDS[name].run(inner)


@command("set_vm_memory_high_watermark", "<fraction> | absolute <value>",
         "Sets the vm_memory_high_watermark setting", CONFIGURATION)  # fmt: skip
def set_vm_memory_high_watermark(ctl: Session) -> None:
    """Another memory limit."""
    ctl.require_local()
    if ctl.argument(0) == "absolute" and len(ctl.arguments) == 2:
        body = {"absolute": ctl.argument(1)}
        what = f"{ctl.argument(1)} bytes"
    else:
        if not _is_number(ctl.argument(0)) or len(ctl.arguments) != 1:
            raise UsageError("Bad argument.", DATA_ERROR)
        body, what = {"relative": ctl.argument(0)}, ctl.argument(0)
    ctl.banner(f"Setting memory threshold on {ctl.node} to {what} ...")
    ctl.client.put("node", "vm-memory-high-watermark", body=body)


@command("set_disk_free_limit", "<disk_limit> | mem_relative <fraction>",
         "Sets the disk_free_limit setting", CONFIGURATION)  # fmt: skip
def set_disk_free_limit(ctl: Session) -> None:
    """Another limit of the free space."""
    ctl.require_local()
    if ctl.argument(0) == "mem_relative" and len(ctl.arguments) == 2:
        if not _is_number(ctl.argument(1)):
            raise UsageError("Bad argument.", DATA_ERROR)
        body = {"relative": ctl.argument(1)}
        what = f"{ctl.argument(1)} times the total RAM"
    else:
        body, what = {"absolute": ctl.argument(0)}, f"{ctl.argument(0)} bytes"
    ctl.banner(f"Setting disk free limit on {ctl.node} to {what} ...")
    ctl.client.put("node", "disk-free-limit", body=body)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@command("set_log_level", "<log_level>", "Sets log level in the running node", CONFIGURATION,
         "category=")  # fmt: skip
def set_log_level(ctl: Session) -> None:
    """Log more, or less."""
    ctl.require_local()
    words = ctl.arguments
    level = words[-1]
    category = words[0] if len(words) == 2 else ctl.options.get("category")
    if level not in LEVELS:
        raise UsageError(f"level {level} is not supported. Try one of {', '.join(LEVELS)}")
    ctl.banner(f'Setting log level to "{level}" ...')
    body = {"level": "critical" if level == "none" else level, "category": category}
    ctl.client.put("node", "log-level", body=body)


@command("set_cluster_name", "<name>", "Sets the cluster name", "Cluster")
def set_cluster_name(ctl: Session) -> None:
    """Name the cluster."""
    ctl.banner(f"Setting cluster name to {ctl.argument(0)} ...")
    ctl.client.put("cluster-name", body={"name": ctl.argument(0)})


@command("rotate_logs", "", "Opens log files anew", NODES)
def rotate_logs(ctl: Session) -> None:
    """Open log files anew."""
    ctl.require_local()
    ctl.banner(f"Rotating logs for node {ctl.node} ...")
    ctl.client.post("node", "rotate-logs")


@command("stop", "[<pidfile>]", "Stops the node and ends its process", NODES)
def stop(ctl: Session) -> None:
    """End the process, and wait until it has ended."""
    ctl.require_local()
    ctl.banner(f"Stopping and halting node {ctl.node} ...")
    ctl.client.post("node", "stop")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            ctl.client.get("node", "ping")
        except CtlError:
            return
        time.sleep(0.05)
    raise CtlError("Error: the node has not stopped within 30 seconds")


@command("shutdown", "", "Stops the node and ends its process", NODES, "wait", "no-wait")
def shutdown(ctl: Session) -> None:
    """End the process."""
    stop(ctl)
    ctl.say(f"Node {ctl.node} has stopped")


@command("stop_app", "", "Stops the broker, leaving the process running", NODES)
def stop_app(ctl: Session) -> None:
    """Serve no clients."""
    ctl.require_local()
    ctl.banner(f"Stopping rabbit application on node {ctl.node} ...")
    ctl.client.post("node", "stop-app")


@command("start_app", "", "Starts the broker", NODES)
def start_app(ctl: Session) -> None:
    """Serve clients."""
    ctl.require_local()
    ctl.banner(f"Starting node {ctl.node} ...")
    ctl.client.post("node", "start-app")


@command("reset", "", "Removes all definitions and messages of a stopped broker", NODES)
def reset(ctl: Session) -> None:
    """Begin anew."""
    ctl.require_local()
    ctl.banner(f"Resetting node {ctl.node} ...")
    ctl.client.post("node", "reset")


@command("force_reset", "", "Removes all definitions and messages of a stopped broker", NODES)
def force_reset(ctl: Session) -> None:
    """Begin anew."""
    ctl.require_local()
    ctl.banner(f"Forcefully resetting node {ctl.node} ...")
    ctl.client.post("node", "reset")


@command("await_startup", "", "Waits for the broker to start on the node", NODES,
         needs_node=False)  # fmt: skip
def await_startup(ctl: Session) -> None:
    """Wait until the broker serves."""
    deadline = time.monotonic() + float(ctl.options.get("timeout") or 300)
    while time.monotonic() < deadline:
        try:
            if node_status(ctl)["is_running"]:
                return
        except CtlError as error:
            if error.code != UNAVAILABLE:
                raise
        time.sleep(0.05)
    raise CtlError("Error: the broker has not started in time", 75)


@command("wait", "[<pidfile>]", "Waits for the broker to start on the node", NODES, "pid=",
         needs_node=False)  # fmt: skip
def wait(ctl: Session) -> None:
    """As await_startup."""
    await_startup(ctl)


@command("eval", "[<expr>, ...]", "Evaluates an Erlang expression: not here", CONFIGURATION,
         needs_node=False)  # fmt: skip
def evaluate(_ctl: Session) -> None:
    """There is no Erlang here."""
    raise CtlError("Error: there is no Erlang in this node, and nothing is evaluated in it", 64)


@command("version", "", "Displays CLI tools version", "Help", needs_node=False)
def show_version(ctl: Session) -> None:
    """The version that the tools stand for."""
    ctl.out("3.12.14")


@command("list_feature_flags", "[<column>, ...]", "Lists feature flags", "Feature flags")
def list_feature_flags(ctl: Session) -> None:
    """Features."""
    columns = ctl.arguments or ["name", "state"]
    ctl.banner("Listing feature flags ...")
    found = ctl.client.get("feature-flags")
    ctl.rows([[flag.get(name, "") for name in columns] for flag in found], columns)


@command("enable_feature_flag", "<feature_flag>", "Enables a feature flag", "Feature flags")
def enable_feature_flag(ctl: Session) -> None:
    """They are all enabled."""
    name = ctl.argument(0)
    ctl.banner(f'Enabling feature flag "{name}" ...')
    if name != "all":
        ctl.client.put("feature-flags", name, "enable")


# Definitions


@command("export_definitions", "<file_path>|-",
         "Exports definitions in JSON", DEFINITIONS, "format=")  # fmt: skip
def export_definitions(ctl: Session) -> None:
    """All definitions, to a file or to the standard output."""
    path = ctl.argument(0)
    found = ctl.client.get("definitions")
    if path == "-":
        ctl.out(json_text(found))
        return
    ctl.banner(f'Exporting definitions in JSON to a file at "{path}" ...')
    try:
        Path(path).write_text(json.dumps(found, indent=2) + "\n")
    except OSError as error:
        raise CtlError(f"Error:\n{path} cannot be written: {error.strerror}", 74) from None


@command("import_definitions", "<file_path>|-", "Imports definitions in JSON", DEFINITIONS,
         "format=", "dry-run", "skip-if-unchanged")  # fmt: skip
def import_definitions(ctl: Session) -> None:
    """Definitions from a file or the standard input; or what they would change."""
    path = ctl.argument(0)
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
    except OSError as error:
        raise CtlError(f"Error:\n{path} cannot be read: {error.strerror}", 66) from None
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise CtlError(f"Error:\nthe definitions are not JSON: {error}", DATA_ERROR) from None
    where = "from standard input" if path == "-" else f'from a file at "{path}"'
    if ctl.options.get("dry_run"):
        found = ctl.client.post("definitions", body=content, dry_run="true")
        ctl.banner(f"What importing definitions {where} would change ...")
        ctl.value(found, change_lines(found))
        return
    ctl.banner(f"Importing definitions in JSON {where} ...")
    ctl.client.post("definitions", body=content)
    ctl.say("Successfully imported definitions.")


SIGNS = {"add": "+", "change": "~", "conflict": "!"}


def change_lines(found: dict[str, Any]) -> Iterator[str]:
    """What would change, a line each."""
    for change in found["changes"]:
        where = f" in vhost '{change['vhost']}'" if change.get("vhost") else ""
        line = f"{SIGNS[change['action']]} {change['kind']} '{change['name']}'{where}"
        if change["from"] is not None:
            line += f": {json_text(change['from'])} -> {json_text(change['to'])}"
        if change.get("reason"):
            line += f" ({change['reason']})"
        yield line
    yield f"{len(found['changes'])} changes, {found['unchanged']} unchanged"
