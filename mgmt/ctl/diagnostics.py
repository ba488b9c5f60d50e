"""Health checks and looks into a node: the commands of rabbitmq-diagnostics."""

import os
import socket
import ssl
import time
from collections import deque
from pathlib import Path
from typing import Any

from mgmt.ctl.command import Session, command
from mgmt.ctl.errors import UNAVAILABLE, CtlError, UsageError
from mgmt.ctl.formatters import UNITS, json_text
from mgmt.ctl.node import breakdown_lines, listener_lines, node_status

HEALTH, OBSERVE = "Health checks", "Monitoring, observability and health checks"
CONNECT_SECONDS = 5
OLDER_NAMES = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqps": "amqp/ssl"}


def failed(text: str) -> CtlError:
    """A check that did not pass."""
    return CtlError(text, UNAVAILABLE)


@command("ping", "", "Checks that the node OS process is up", HEALTH)
def ping(ctl: Session) -> None:
    """The process answers."""
    timeout_ms = int(float(ctl.options.get("timeout") or 60) * 1000)
    ctl.banner(
        f"Will ping {ctl.node}. This only checks if the OS process is running. "
        f"Timeout: {timeout_ms} ms."
    )
    if ctl.client.is_local:
        ctl.client.get("node", "ping")
    else:
        ctl.client.get("whoami")
    ctl.say("Ping succeeded")


@command("check_running", "", "Health check that exits with a non-zero code if the broker is not "
         "running", HEALTH)  # fmt: skip
def check_running(ctl: Session) -> None:
    """The broker serves."""
    ctl.banner(f"Checking if RabbitMQ is running on node {ctl.node} ...")
    if not node_status(ctl)["is_running"]:
        raise failed(f"Error:\nRabbitMQ on node {ctl.node} is not running or has not fully booted "
                     "yet")  # fmt: skip
    ctl.say(f"RabbitMQ on node {ctl.node} is fully booted and running")


@command("is_running", "", "Queries the node: is the broker running on it?", OBSERVE)
def is_running(ctl: Session) -> None:
    """As check_running."""
    ctl.banner(f"Asking node {ctl.node} for its status ...")
    if not node_status(ctl)["is_running"]:
        raise failed(f"RabbitMQ on node {ctl.node} is not running")
    ctl.say(f"RabbitMQ on node {ctl.node} is fully booted and running")


@command("is_booting", "", "Checks if RabbitMQ is still booting on the node", OBSERVE)
def is_booting(ctl: Session) -> None:
    """A node that answers has booted."""
    ctl.banner(f"Asking node {ctl.node} for its boot status ...")
    ctl.say(
        f"RabbitMQ on node {ctl.node} is fully booted (check with is_running), stopped or has not "
        "started booting yet"
    )


@command("node_health_check", "", "The node runs and has no alarm", HEALTH)
def node_health_check(ctl: Session) -> None:
    """RabbitMQ's old health check."""
    found = node_status(ctl)
    if not found["is_running"] or found["alarms"]:
        raise failed("Error:\nhealth check failed. Message: resource alarm(s) in effect or the "
                     "broker is stopped")  # fmt: skip
    ctl.say("Health check passed")


def _alarm_names(found: dict[str, Any]) -> list[str]:
    return [one["alarm"] for one in found["alarms"]]


@command("check_local_alarms", "", "Health check that exits with a non-zero code if there are any "
         "resource alarms on the node", HEALTH)  # fmt: skip
def check_local_alarms(ctl: Session) -> None:
    """No alarm."""
    ctl.banner(f"Asking node {ctl.node} to report any local resource alarms ...")
    names = _alarm_names(node_status(ctl))
    if names:
        raise failed(f"Node {ctl.node} reported local alarms:\n\n" + "\n".join(names))
    ctl.say(f"Node {ctl.node} reported no local alarms")


@command("check_alarms", "", "Health check that exits with a non-zero code if there are any "
         "resource alarms in the cluster", HEALTH)  # fmt: skip
def check_alarms(ctl: Session) -> None:
    """No alarm."""
    ctl.banner(f"Asking node {ctl.node} to report any known resource alarms ...")
    names = _alarm_names(node_status(ctl))
    if names:
        raise failed(f"Node {ctl.node} reported alarms:\n\n" + "\n".join(names))
    ctl.say(f"Node {ctl.node} reported no alarms, local or clusterwide")


@command("alarms", "", "Lists resource alarms (local or cluster-wide)", OBSERVE)
def alarms(ctl: Session) -> None:
    """Alarms."""
    ctl.banner(f"Asking node {ctl.node} to report any known resource alarms ...")
    names = _alarm_names(node_status(ctl))
    ctl.say("\n".join(names) or f"Node {ctl.node} reported no alarms, local or clusterwide")


@command("check_port_connectivity", "", "Basic TCP connectivity health check for each listener's "
         "port on the node", HEALTH, "address=")  # fmt: skip
def check_port_connectivity(ctl: Session) -> None:
    """Connect to every port."""
    ctl.banner(f"Testing TCP connections to all active listeners on node {ctl.node} ...")
    ports = []
    for one in node_status(ctl)["listeners"]:
        host = ctl.options.get("address") or one["interface"].strip("[]")
        host = {"::": "127.0.0.1", "0.0.0.0": "127.0.0.1"}.get(host, host)
        try:
            socket.create_connection((host, one["port"]), CONNECT_SECONDS).close()
        except OSError as error:
            raise failed(
                f"Error:\nConnection to port {one['port']} ({one['protocol']}) of node {ctl.node} "
                f"failed: {error}"
            ) from None
        ports.append(one["port"])
    shown = ", ".join(str(port) for port in sorted(set(ports)))
    ctl.say(f"Successfully connected to ports {shown} on node {ctl.node}.")


@command("check_port_listener", "<port>", "Health check that exits with a non-zero code if the "
         "node does not have an active listener for given port", HEALTH)  # fmt: skip
def check_port_listener(ctl: Session) -> None:
    """Something listens on a port."""
    port = ctl.argument(0)
    if not port.isdigit():
        raise UsageError(f"port must be a number, and is '{port}'")
    ctl.banner(f"Asking node {ctl.node} if there's an active listener on port {port} ...")
    ports = sorted({one["port"] for one in node_status(ctl)["listeners"]})
    if int(port) not in ports:
        raise failed(
            f"No listener for port {port} is active on node {ctl.node}. Found listeners that use "
            f"the following ports: {', '.join(map(str, ports))}"
        )
    ctl.say(f"A listener for port {port} is running on node {ctl.node}.")


@command("check_protocol_listener", "<protocol>", "Health check that exits with a non-zero code if "
         "the node does not have an active listener for given protocol", HEALTH)  # fmt: skip
def check_protocol_listener(ctl: Session) -> None:
    """Something listens for a protocol."""
    name = ctl.argument(0)
    ctl.banner(f"Asking node {ctl.node} if there's an active listener for protocol {name} ...")
    protocols = sorted({one["protocol"] for one in node_status(ctl)["listeners"]})
    if OLDER_NAMES.get(name.lower(), name.lower()) not in protocols:
        raise failed(
            f"No listener for protocol {name} is active on node {ctl.node}. Found listeners for "
            f"the following protocols: {', '.join(protocols)}"
        )
    ctl.say(f"A listener for protocol {name} is running on node {ctl.node}.")


@command("check_virtual_hosts", "", "Health check that exits with a non-zero code if some vhosts "
         "are not running", HEALTH)  # fmt: skip
def check_virtual_hosts(ctl: Session) -> None:
    """All vhosts run."""
    ctl.banner(f"Checking if all vhosts are running on node {ctl.node} ...")
    found = ctl.client.get("health", "checks", "virtual-hosts")
    if found["status"] != "ok":
        raise failed(f"Some virtual hosts on node {ctl.node} are down:\n{found['virtual-hosts']}")
    ctl.say(f"Node {ctl.node} reported all vhosts as running")


@command("check_certificate_expiration", "", "Health check that exits with a non-zero code if any "
         "certificate expires within a time", HEALTH, "within=", "unit=")  # fmt: skip
def check_certificate_expiration(ctl: Session) -> None:
    """No certificate ends soon."""
    within, unit = ctl.options.get("within") or "4", ctl.options.get("unit") or "weeks"
    ctl.banner(f"Checking certificate expiration on node {ctl.node} ...")
    found = ctl.client.get("health", "checks", "certificate-expiration", within, unit)
    if found["status"] != "ok":
        raise failed(f"Certificates expire within {within} {unit}:\n{json_text(found['expired'])}")
    ctl.say("No certificate expires within the given time.")


@command("certificates", "", "Displays certificates (public keys) for every listener", OBSERVE)
def certificates(ctl: Session) -> None:
    """Certificates of listeners."""
    ctl.banner(f"Certificates of node {ctl.node} ...")
    found = ctl.client.get("health", "checks", "certificate-expiration", "1000", "years")
    for one in found.get("expired", []):
        ctl.out(f"{one['protocol']} on port {one['port']}: until {one['certfile_expires_on'][0]}")


@command("listeners", "", "Lists active connection listeners (bound interface, port, protocol)",
         OBSERVE)  # fmt: skip
def listeners(ctl: Session) -> None:
    """What listens."""
    found = node_status(ctl)
    ctl.banner(f"Asking node {ctl.node} to report its protocol listeners ...")
    ctl.value({"result": "ok", "node": ctl.node, "listeners": found["listeners"]},
              listener_lines(found))  # fmt: skip


@command("memory_breakdown", "", "Provides a memory usage breakdown on the node.", OBSERVE,
         "unit=")  # fmt: skip
def memory_breakdown(ctl: Session) -> None:
    """Bytes by category."""
    unit = (ctl.options.get("unit") or "gb").lower()
    if unit not in UNITS:
        raise UsageError(f"unit must be one of {', '.join(UNITS)}")
    memory = node_status(ctl)["memory"]
    ctl.banner(f"Reporting memory breakdown on node {ctl.node}...")
    ctl.value(memory, [*breakdown_lines(memory, unit), ""])


@command("server_version", "", "Displays server version on the node", OBSERVE)
def server_version(ctl: Session) -> None:
    """The version that the server stands for."""
    ctl.banner(f"Asking node {ctl.node} for its RabbitMQ version...")
    ctl.say(ctl.client.get("overview")["rabbitmq_version"])


@command("os_env", "", "Lists environment variables of the node", OBSERVE)
def os_env(ctl: Session) -> None:
    """Variables that configure Leveret."""
    ctl.banner("Listing Leveret-specific environment variables ...")
    names = sorted(name for name in os.environ if name.startswith("LEVERET_"))
    ctl.rows([(name, os.environ[name]) for name in names], ("name", "value"))


def _log_file(ctl: Session) -> Path | None:
    files = [name for name in node_status(ctl)["log_files"] if not name.startswith("<")]
    return Path(files[0]) if files else None


@command("log_location", "", "Shows log file location(s) on the node", OBSERVE, "all")
def log_location(ctl: Session) -> None:
    """Where the node logs to."""
    for path in node_status(ctl)["log_files"]:
        ctl.out(path)


@command("log_tail", "", "Prints the last N lines of the log on the node", OBSERVE, "number=")
def log_tail(ctl: Session) -> None:
    """The last lines of the log."""
    path = _log_file(ctl)
    if path is None:
        raise failed("Error:\nthe node logs to its standard output; set log.file")
    number = int(ctl.options.get("number") or 50)
    with path.open(errors="replace") as file:
        for line in deque(file, maxlen=number):
            ctl.out(line.rstrip("\n"))


@command("log_tail_stream", "", "Streams logs from a running node for a period of time", OBSERVE,
         "duration=")  # fmt: skip
def log_tail_stream(ctl: Session) -> None:
    """New lines of the log, until it is interrupted."""
    path = _log_file(ctl)
    if path is None:
        raise failed("Error:\nthe node logs to its standard output; set log.file")
    duration = ctl.options.get("duration")
    deadline = time.monotonic() + float(duration) if duration else None
    with path.open(errors="replace") as file:
        file.seek(0, os.SEEK_END)
        while deadline is None or time.monotonic() < deadline:
            line = file.readline()
            if line:
                ctl.out(line.rstrip("\n"))
            else:
                time.sleep(0.1)


@command("command_line_arguments", "", "Displays the node's command-line arguments", OBSERVE)
def command_line_arguments(ctl: Session) -> None:
    """How the process was started."""
    pid = node_status(ctl)["pid"]
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError as error:
        raise failed(f"Error:\n{error}") from None
    ctl.out(" ".join(part.decode(errors="replace") for part in raw.split(b"\0") if part))


@command("resolve_hostname", "<hostname>", "Resolves a hostname to a set of addresses", OBSERVE,
         "address-family=", needs_node=False)  # fmt: skip
def resolve_hostname(ctl: Session) -> None:
    """Addresses of a host."""
    name = ctl.argument(0)
    try:
        found = socket.getaddrinfo(name, None)
    except OSError as error:
        raise failed(f"Error:\n{name} cannot be resolved: {error}") from None
    for address in sorted({str(one[4][0]) for one in found}):
        ctl.out(address)


@command("list_network_interfaces", "", "Lists network interfaces of the machine", OBSERVE,
         needs_node=False)  # fmt: skip
def list_network_interfaces(ctl: Session) -> None:
    """Interfaces."""
    for _, name in socket.if_nameindex():
        ctl.out(name)


@command("tls_versions", "", "Lists TLS versions supported", OBSERVE, needs_node=False)
def tls_versions(ctl: Session) -> None:
    """Versions of TLS."""
    ctl.banner("Listing all TLS versions supported by the runtime ...")
    for name in ("tlsv1.3", "tlsv1.2"):
        ctl.out(name)


@command("cipher_suites", "", "Lists cipher suites enabled by default", OBSERVE, "format=",
         needs_node=False)  # fmt: skip
def cipher_suites(ctl: Session) -> None:
    """OpenSSL's suites."""
    ctl.banner("Listing available cipher suites in OpenSSL format")
    for cipher in ssl.create_default_context().get_ciphers():
        ctl.out(cipher["name"])


@command("consume_event_stream", "", "Streams internal events from a running node", OBSERVE,
         "duration=")  # fmt: skip
def consume_event_stream(ctl: Session) -> None:
    """What happens on the node, a line of JSON each."""
    ctl.require_local()
    for line in ctl.client.stream("node", "events"):
        ctl.out(line.decode().rstrip("\n"))
