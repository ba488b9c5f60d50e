"""Health checks: they print a confirmation, or exit with code 69 and print the problem.

With `--silent` only the exit code is reported; with a JSON formatter, JSON replaces the text.
"""

import socket
from typing import Any

from leveret.mgmt.ctl.command import NODE, CommandRun, command
from leveret.mgmt.ctl.errors import (
    SOFTWARE,
    UNAVAILABLE,
    CtlError,
    UsageError,
    bad_argument,
    failure,
)
from leveret.mgmt.ctl.formatters import json_text
from leveret.mgmt.ctl.status import (
    MIRROR_SYNC_CRITICAL,
    OBSERVE,
    QUORUM_CRITICAL,
    alarm_line,
    alarm_lines,
    node_status,
)

CONNECT_SECONDS = 5
ANY_HOST = {"[::]": "127.0.0.1", "::": "127.0.0.1", "0.0.0.0": "127.0.0.1"}
PROTOCOLS = {
    "amqp091": "amqp", "amqp0.9.1": "amqp", "amqp0-9-1": "amqp", "amqp09": "amqp",
    "amqp10": "amqp", "amqp1.0": "amqp", "amqps": "amqp/ssl", "amqp/tls": "amqp/ssl",
    "prometheus": "http/prometheus", "streams": "stream/ssl", "stream/tls": "stream/ssl",
}  # fmt: skip
"""RabbitMQ's names for protocols."""
TIME_UNITS = ("days", "weeks", "months", "years")


def check_failed(ctl: CommandRun, text: str, **facts: Any) -> CtlError:
    """Return the error of a failed check."""
    shown = "" if ctl.is_silent and ctl.formatter != "json" else text
    return CtlError(shown, UNAVAILABLE, {"result": "error", **facts})


@command("ping", "", "Checks that the node's process answers", OBSERVE, needs=NODE)
def ping(ctl: CommandRun) -> None:
    """Check that the process answers."""
    timeout_ms = int(ctl.connection.timeout_s * 1000)
    ctl.banner(f"Will ping {ctl.node}. This only checks if the OS process is running. "
               f"Timeout: {timeout_ms} ms.")  # fmt: skip
    ctl.say("Ping succeeded")


def _running_words(ctl: CommandRun, *, is_running: bool) -> str:
    if is_running:
        return f"RabbitMQ on node {ctl.node} is fully booted and running"
    return (
        f"RabbitMQ on node {ctl.node} is not running or has not fully booted yet "
        "(check with is_booting)"
    )


@command("check_running", "", "Checks that the broker is running on the node", OBSERVE, needs=NODE)
def check_running(ctl: CommandRun) -> None:
    """Check that the broker is running."""
    ctl.banner(f"Checking if RabbitMQ is running on node {ctl.node} ...")
    is_running = node_status(ctl)["is_running"]
    words = _running_words(ctl, is_running=is_running)
    if not is_running:
        raise failure(words)
    ctl.say(words)


@command("is_running", "", "Tells whether the broker is running on the node", OBSERVE, needs=NODE)
def is_running(ctl: CommandRun) -> None:
    """Print whether the broker is running; both answers are a success."""
    ctl.banner(f"Asking node {ctl.node} for its status ...")
    answer = node_status(ctl)["is_running"]
    ctl.say(_running_words(ctl, is_running=answer), result=answer)


@command("is_booting", "", "Tells whether the broker is starting on the node", OBSERVE, needs=NODE)
def is_booting(ctl: CommandRun) -> None:
    """Print whether the broker is starting."""
    ctl.banner(f"Asking node {ctl.node} for its boot status ...")
    if ctl.client.get("node", "ping").get("is_booting"):
        ctl.say(f"RabbitMQ on node {ctl.node} is booting", result=True)
        return
    ctl.say(
        f"RabbitMQ on node {ctl.node} is fully booted (check with is_running), stopped or has not "
        "started booting yet",
        result=False,
    )


@command("node_health_check", "", "Checks that the broker runs without alarms and partitions: use "
         "check_running and check_local_alarms instead", "Deprecated")  # fmt: skip
def node_health_check(ctl: CommandRun) -> None:
    """Run RabbitMQ's old health check."""
    ctl.banner("This command is DEPRECATED and will be removed in a future version.")
    ctl.banner(f"Timeout: {ctl.options.get('timeout', 70)} seconds ...")
    ctl.banner(f"Checking health of node {ctl.node} ...")
    found = ctl.client.get("healthchecks", "node")
    if found["status"] != "ok":
        raise failure(f"Error: health check failed. Message: {found['reason']}", SOFTWARE)
    ctl.say("Health check passed")


@command("check_local_alarms", "", "Checks that no resource alarm is in effect on the node",
         OBSERVE)  # fmt: skip
def check_local_alarms(ctl: CommandRun) -> None:
    """Check that no alarm is in effect on the node."""
    ctl.banner(f"Asking node {ctl.node} to report any local resource alarms ...")
    alarms = alarm_lines(node_status(ctl))
    if alarms:
        raise check_failed(ctl, "Error:\n" + "\n".join(alarms), local=alarms,
                           message=f"Node {ctl.node} reported local alarms")  # fmt: skip
    ctl.check_passed(f"Node {ctl.node} reported no local alarms")


@command("check_alarms", "", "Checks that no resource alarm is in effect in the cluster", OBSERVE)
def check_alarms(ctl: CommandRun) -> None:
    """Check that no alarm is in effect in the cluster."""
    ctl.banner(f"Asking node {ctl.node} to report any local resource alarms ...")
    local, others = _alarms_of_cluster(ctl)
    if local or others:
        raise check_failed(ctl, "\n".join(local + others), local=local, **{"global": others},
                           message=f"Node {ctl.node} reported alarms")  # fmt: skip
    ctl.check_passed(f"Node {ctl.node} reported no alarms, local or clusterwide")


def _alarms_of_cluster(ctl: CommandRun) -> tuple[list[str], list[str]]:
    """Return the alarms of the node and of the other nodes, a line each."""
    found = ctl.client.get("health", "checks", "alarms").get("alarms", [])
    lines: tuple[list[str], list[str]] = [], []
    for one in sorted(found, key=lambda alarm: (alarm["node"], alarm["resource"])):
        lines[one["node"] != ctl.node].append(alarm_line(one["resource"], one["node"]))
    return lines


@command("alarms", "", "Lists resource alarms that are in effect", OBSERVE)
def alarms(ctl: CommandRun) -> None:
    """List alarms."""
    ctl.banner(f"Asking node {ctl.node} to report any known resource alarms ...")
    local, others = _alarms_of_cluster(ctl)
    if local or others:
        ctl.facts({"result": "ok", "local": local, "global": others,
                   "message": f"Node {ctl.node} reported alarms"}, local + others)  # fmt: skip
    else:
        ctl.facts({"result": "ok", "node": ctl.node, "alarms": []},
                  [f"Node {ctl.node} reported no alarms, local or clusterwide"])  # fmt: skip


# Listeners


@command("check_port_connectivity", "[--address <target address>]",
         "Connects to every port that the node listens on", OBSERVE, "address=")  # fmt: skip
def check_port_connectivity(ctl: CommandRun) -> None:
    """Connect to every listener."""
    ctl.banner(f"Testing TCP connections to all active listeners on node {ctl.node} ...")
    found = node_status(ctl)["listeners"]
    failures = []
    for one in found:
        host = ctl.options.get("address") or ANY_HOST.get(one["interface"], one["interface"])
        try:
            socket.create_connection((host.strip("[]"), one["port"]), CONNECT_SECONDS).close()
        except OSError as error:
            failures.append(
                f"Interface: {host}, port: {one['port']}, protocol: {one['protocol']}: {error}"
            )
    if failures:
        raise check_failed(
            ctl, f"Error:\nConnection to ports of the following listeners on node {ctl.node} "
            "failed:\n" + "\n".join(failures), failures=failures, node=ctl.node,
        )  # fmt: skip
    text = f"Successfully connected to ports {_ports(found)} on node {ctl.node}."
    ctl.facts({"result": "ok", "node": ctl.node, "listeners": found}, [text])


def _ports(found: list[dict[str, Any]]) -> str:
    return ", ".join(str(port) for port in sorted({one["port"] for one in found}))


@command("check_port_listener", "<port>", "Checks that the node listens on a port", OBSERVE)
def check_port_listener(ctl: CommandRun) -> None:
    """Check that a port has a listener."""
    port = ctl.argument(0)
    if not port.isdigit() or not int(port):
        raise bad_argument("Argument must be a positive integer")
    ctl.banner(f"Asking node {ctl.node} if there's an active listener on port {port} ...")
    found = node_status(ctl)["listeners"]
    ports = sorted({one["port"] for one in found})
    if int(port) not in ports:
        raise check_failed(
            ctl, f"No listener for port {port} is active on node {ctl.node}. Found listeners that "
            f"use the following ports: {_ports(found)}", missing=port, ports=ports, listeners=found,
        )  # fmt: skip
    ctl.check_passed(f"A listener for port {port} is running on node {ctl.node}.",
                     node=ctl.node, port=port)  # fmt: skip


@command("check_protocol_listener", "<protocol>", "Checks that the node listens for a protocol",
         OBSERVE)  # fmt: skip
def check_protocol_listener(ctl: CommandRun) -> None:
    """Check that a protocol has a listener."""
    asked = ctl.argument(0)
    name = PROTOCOLS.get(asked.lower(), asked.lower())
    ctl.banner(f"Asking node {ctl.node} if there's an active listener for protocol {asked} ...")
    found = node_status(ctl)["listeners"]
    protocols = sorted({one["protocol"] for one in found})
    if name not in protocols:
        raise check_failed(
            ctl, f"Error:\nNo listener for protocol {name} is active on node {ctl.node}. Found "
            f"listeners for the following protocols: {', '.join(protocols)}",
            missing=name, protocols=protocols, listeners=found,
        )  # fmt: skip
    ctl.check_passed(f"A listener for protocol {name} is running on node {ctl.node}.",
                     node=ctl.node, protocol=name)  # fmt: skip


# Services


@command("check_virtual_hosts", "", "Checks that all virtual hosts run on the node", OBSERVE)
def check_virtual_hosts(ctl: CommandRun) -> None:
    """Check that all virtual hosts are running."""
    ctl.banner(f"Checking if all vhosts are running on node {ctl.node} ...")
    found = ctl.client.get("health", "checks", "virtual-hosts")
    if found["status"] != "ok":
        down = found["virtual-hosts"]
        raise check_failed(
            ctl, f"Some virtual hosts on node {ctl.node} are down:\n" + "\n".join(map(str, down)),
            down_vhosts=down,
        )  # fmt: skip
    ctl.check_passed(f"Node {ctl.node} reported all vhosts as running")


@command("check_certificate_expiration", "[--within <period>] [--unit <unit>]",
         "Checks that no certificate of a listener expires soon", OBSERVE, "within=#",
         "unit=")  # fmt: skip
def check_certificate_expiration(ctl: CommandRun) -> None:
    """Check that no certificate expires soon."""
    within, unit = ctl.options.get("within", 4), ctl.options.get("unit", "weeks")
    if unit not in TIME_UNITS:
        raise UsageError(
            f"unit '{unit}' is not supported. Please use one of: {', '.join(TIME_UNITS)}"
        )
    ctl.banner(f"Checking certificate expiration on node {ctl.node} ...")
    path = ("health", "checks", "certificate-expiration", str(within), unit)
    found = ctl.client.get(*path)
    if found["status"] != "ok":
        lines = [json_text(one) for one in found["expired"]]
        raise check_failed(
            ctl, f"Error:\nCertificates expiring within {within} {unit}:\n" + "\n".join(lines),
            message=f"Certificates expiring within {within} {unit}",
            expired=found["expired"],
        )  # fmt: skip
    ctl.check_passed(f"No certificates are expiring within {within} {unit}.")


@command("check_if_any_deprecated_features_are_used", "", "Checks that no deprecated feature is "
         "in use", OBSERVE)  # fmt: skip
def check_if_any_deprecated_features_are_used(ctl: CommandRun) -> None:
    """Check that the list of deprecated features in use is empty."""
    ctl.banner("Checking if any deprecated features are used ...")
    used = [one["name"] for one in ctl.client.get("deprecated-features", "used")]
    if used:
        raise check_failed(ctl, "Cluster reported the following deprecated features in use:\n"
                           + "\n".join(used), deprecated_features=used)  # fmt: skip
    ctl.check_passed("Cluster reported no deprecated features in use")


@command("check_if_cluster_has_classic_queue_mirroring_policy", "", "Checks that no policy mirrors "
         "queues", OBSERVE)  # fmt: skip
def check_if_cluster_has_classic_queue_mirroring_policy(ctl: CommandRun) -> None:
    """Check that no policy of any vhost mirrors classic queues, nor an operator policy."""
    ctl.banner("Checking if cluster has any classic queue mirroring policy ...")
    policies, operator_policies = (
        [one for one in ctl.client.get(table) if "ha-mode" in one["definition"]]
        for table in ("policies", "operator-policies")
    )
    lines = [
        f"{what} {one['name']} enables classic queue mirroring"
        for what, found in (("Policy", policies), ("Operator policy", operator_policies))
        for one in found
    ]
    if lines:
        raise check_failed(ctl, "\n".join(lines), policies=policies,
                           operator_policies=operator_policies,
                           message="Cluster reported policies enabling classic queue "
                           "mirroring")  # fmt: skip
    ctl.check_passed("Cluster reported no policies that enable classic queue mirroring")


@command("check_if_node_is_quorum_critical", "", "Checks that quorum queues can do without the "
         "node", OBSERVE)  # fmt: skip
def check_if_node_is_quorum_critical(ctl: CommandRun) -> None:
    """Check that no quorum queue has its quorum only with this node."""
    ctl.banner(f"Checking if node {ctl.node} is critical for quorum of any quorum queues ...")
    if not _is_one_of_several(found := ctl.client.get("health", "checks", QUORUM_CRITICAL)):
        _passed_alone(ctl)
    elif ctl.client.get("nodes", ctl.node)["being_drained"]:
        ctl.check_passed(f"Node {ctl.node} seems to be in maintenance mode, the check does not "
                         "apply")  # fmt: skip
    else:
        told = f"Node {ctl.node} reported local queues with minimum online quorum"
        _require_none(ctl, found, "would lose quorum", told)
        ctl.check_passed(f"Node {ctl.node} reported no quorum queues with minimum quorum")


@command("check_if_node_is_mirror_sync_critical", "", "Checks that mirrored queues can do without "
         "the node", OBSERVE)  # fmt: skip
def check_if_node_is_mirror_sync_critical(ctl: CommandRun) -> None:
    """Check that each mirrored queue that is led here has a synchronised mirror."""
    ctl.banner(f"Checking if node {ctl.node} is critical for data safety of any classic mirrored "
               "queues ...")  # fmt: skip
    if not _is_one_of_several(found := ctl.client.get("health", "checks", MIRROR_SYNC_CRITICAL)):
        _passed_alone(ctl)
        return
    told = "classic mirrored queues without online synchronised mirrors"
    _require_none(ctl, found, "would lose its only synchronised replica (master)",
                  f"Node {ctl.node} reported local {told}")  # fmt: skip
    ctl.check_passed(f"Node {ctl.node} reported no {told}")


def _is_one_of_several(found: dict[str, Any]) -> bool:
    """Whether the node that answered a check is in a cluster with others."""
    return found["status"] != "ok" or "reason" not in found


def _passed_alone(ctl: CommandRun) -> None:
    ctl.check_passed(f"Node {ctl.node} seems to be the only one in a single node cluster, the "
                     "check does not apply")  # fmt: skip


def _require_none(ctl: CommandRun, found: dict[str, Any], loss: str, told: str) -> None:
    """Fail if a check found queues. loss: what each would lose. told: the result in a sentence."""
    if queues := found.get("queues", []):
        lines = [f"{one['readable_name']} {loss} if node {ctl.node} is stopped" for one in queues]
        raise check_failed(ctl, "\n".join(lines), message=told, queues=queues)


@command("check_if_new_quorum_queue_replicas_have_finished_initial_sync", "", "Checks that the new "
         "members on the node have all messages", OBSERVE)  # fmt: skip
def check_if_new_quorum_queue_replicas_have_finished_initial_sync(ctl: CommandRun) -> None:
    """Check that no new member of a quorum queue on this node still has to catch up."""
    ctl.banner(f"Checking if node {ctl.node} runs the initial sync of quorum queue replicas ...")
    found = ctl.client.get("health", "checks", "new-quorum-queue-replicas")
    if queues := found.get("queues", []):
        lines = [f"{one['readable_name']} has a new replica that lacks messages" for one in queues]
        told = f"Node {ctl.node} reported new replicas that have not finished their initial sync"
        raise check_failed(ctl, "\n".join(lines), message=told, queues=queues)
    ctl.check_passed(f"Node {ctl.node} reported no new replicas that lack messages")
