"""Inspects a node and its machine: listeners, memory, events, names, TLS."""

import socket
import ssl
import sys
from pathlib import Path

from leveret.mgmt.ctl.command import FOR_EVER_SECONDS, NODE, NOTHING, CommandRun, command
from leveret.mgmt.ctl.emphasis import heading
from leveret.mgmt.ctl.errors import DATA_ERROR, bad_argument, failure
from leveret.mgmt.ctl.status import (
    CONFIGURATION,
    OBSERVE,
    breakdown_lines,
    listener_lines,
    memory_parts,
    node_status,
    unit_of,
)

FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}
EVENTS_MISSED = "events.missed"
"""The event that reports missed events, when they came too fast; matches every pattern."""


@command("listeners", "", "Lists listeners: interface, port, protocol", OBSERVE)
def listeners(ctl: CommandRun) -> None:
    """List listeners."""
    ctl.banner(f"Asking node {ctl.node} to report its protocol listeners ...")
    found = node_status(ctl)
    facts = {"result": "ok", "node": ctl.node, "listeners": found["listeners"]}
    ctl.facts(facts, listener_lines(found))


@command("memory_breakdown", "[--unit <unit>]", "Displays the node's memory use", OBSERVE,
         "unit=")  # fmt: skip
def memory_breakdown(ctl: CommandRun) -> None:
    """Show memory by category."""
    unit = unit_of(ctl)
    ctl.banner(f"Reporting memory breakdown on node {ctl.node}...")
    memory = node_status(ctl)["memory"]
    parts = memory_parts(memory)
    if ctl.formatter in ("csv", "pretty_table"):
        names = [f"{name}.{kind}" for name, _, _ in parts for kind in ("bytes", "percentage")]
        ctl.rows([[value for _, *values in parts for value in values]], names)
        return
    facts = {name: {"bytes": size, "percentage": share} for name, size, share in parts}
    ctl.facts(facts, [*breakdown_lines(memory, unit), ""])


@command("server_version", "", "Displays the RabbitMQ version that the node is compatible with",
         OBSERVE, needs=NODE)  # fmt: skip
def server_version(ctl: CommandRun) -> None:
    """Show the RabbitMQ version that the node is compatible with."""
    ctl.banner(f"Asking node {ctl.node} for its RabbitMQ version...")
    version = node_status(ctl)["rabbitmq_version"]
    ctl.facts({"result": "ok", "value": version}, [version])


@command("certificates", "", "Lists the certificates of listeners", CONFIGURATION)
def certificates(ctl: CommandRun) -> None:
    """List the certificates of listeners with their expiry."""
    ctl.banner(f"Certificates of node {ctl.node} ...")
    found = ctl.client.get("health", "checks", "certificate-expiration", "1000", "years")
    rows = [
        (one["protocol"], one["port"], one["certfile"], (one["certfile_expires_on"] or [""])[0])
        for one in found.get("expired", [])
    ]
    ctl.rows(rows, ("protocol", "port", "certfile", "expires_on"), empty_line=True)


# Events


@command("consume_event_stream", "[--duration|-d <seconds>] [--pattern <pattern>]", "Prints "
         "events of the node as they happen, one JSON object per line", OBSERVE, "duration|d=#",
         "pattern=")  # fmt: skip
def consume_event_stream(ctl: CommandRun) -> None:
    """Print events of the node as they happen, one JSON object per line."""
    import json  # noqa: PLC0415 - few commands need them
    import re  # noqa: PLC0415

    from leveret.broker.runtime.patterns import compile_pattern  # noqa: PLC0415

    ctl.require_local()
    try:
        pattern = compile_pattern(ctl.options.get("pattern", ".*"))
    except re.error as error:
        raise bad_argument(f"the pattern is not a valid regular expression: {error}") from None
    _ = ctl.client
    duration = ctl.options.get("duration")
    ctl.connection.wait_longer(FOR_EVER_SECONDS if duration is None else duration)
    for line in ctl.connection.stream("node", "events"):
        event = str(json.loads(line).get("event", ""))
        if event == EVENTS_MISSED or pattern.matches(event):
            ctl.out(line.decode().rstrip("\n"))
            sys.stdout.flush()


# Machine


@command("resolve_hostname", "<hostname> [--address-family <ipv4 | ipv6>]",
         "Resolves a name to addresses", CONFIGURATION, "address-family=", "offline",
         needs=NOTHING, counts=(1, 1))  # fmt: skip
def resolve_hostname(ctl: CommandRun) -> None:
    """Show the addresses of a host name."""
    name, family = ctl.argument(0), ctl.options.get("address_family", "IPv4")
    if family.lower() not in FAMILIES:
        raise bad_argument(f"unsupported IP address family {family}. Valid values are: ipv4, ipv6")
    ctl.banner(f"Resolving hostname {name} to {family} addresses...")
    try:
        found = socket.getaddrinfo(name, None, family=FAMILIES[family.lower()])
    except OSError as error:
        raise failure(
            f"Hostname '{name}' does not resolve ({error.strerror})", DATA_ERROR
        ) from None
    for address in sorted({str(one[4][0]) for one in found}):
        ctl.out(address)


@command("list_network_interfaces", "", "Lists the machine's network interfaces", OBSERVE,
         needs=NOTHING)  # fmt: skip
def list_network_interfaces(ctl: CommandRun) -> None:
    """List interfaces with the attributes that are readable without privileges."""
    ctl.banner("Listing network interfaces ...")
    found = {name: _interface(name) for _, name in sorted(socket.if_nameindex())}
    lines = []
    for name, facts in found.items():
        lines.append(heading(f"Interface {name}"))
        lines += [*(f"{key}: {value}" for key, value in facts.items()), ""]
    ctl.facts({"result": "ok", "interfaces": found}, lines)


def _interface(name: str) -> dict[str, str]:
    facts = {}
    for key, file in (("hwaddr", "address"), ("state", "operstate"), ("mtu", "mtu")):
        try:
            facts[key] = Path(f"/sys/class/net/{name}/{file}").read_text().strip()
        except OSError:
            # Not every kind of interface has every attribute.
            continue
    return facts


@command("tls_versions", "", "Lists the supported versions of TLS", OBSERVE,
         needs=NOTHING)  # fmt: skip
def tls_versions(ctl: CommandRun) -> None:
    """List versions of TLS."""
    ctl.banner("Listing all TLS versions supported by the runtime...")
    names = ["tlsv1.3", "tlsv1.2"]
    ctl.facts({"versions": names}, names)


@command("cipher_suites", "[--format <openssl | erlang | map>] [--all]", "Lists the available "
         "cipher suites of TLS", OBSERVE, "format=", "all", needs=NOTHING)  # fmt: skip
def cipher_suites(ctl: CommandRun) -> None:
    """List OpenSSL's cipher suites."""
    name = ctl.options.get("format", "openssl").lower()
    if name not in ("openssl", "erlang", "map"):
        raise bad_argument("Format should be either openssl, erlang or map")
    if name != "openssl":
        raise bad_argument("only the openssl format is available")
    ctl.banner("Listing available cipher suites in OpenSSL format")
    names = [str(cipher["name"]) for cipher in ssl.create_default_context().get_ciphers()]
    ctl.facts({"cipher_suites": names, "format": name}, names)


@command("list_hashes", "", "Lists the hash functions for passwords", OBSERVE,
         needs=NOTHING)  # fmt: skip
def list_hashes(ctl: CommandRun) -> None:
    """List hash functions for passwords."""
    ctl.banner("Listing supported hash algorithms ...")
    names = ["rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512"]
    ctl.facts({"result": "ok", "value": names}, names)


@command("observer", "[--interval <seconds>] [--once]", "Shows the node live: overview, queues, "
         "connections, memory; q quits", OBSERVE, "interval=#", "once")  # fmt: skip
def observer(ctl: CommandRun) -> None:
    """Show a live view."""
    # Importing rich takes longer than most commands.
    from leveret.mgmt.ctl.observer import INTERVAL_SECONDS, observe  # noqa: PLC0415

    seconds = float(ctl.options.get("interval", INTERVAL_SECONDS))
    ctl.connection.wait_longer(FOR_EVER_SECONDS)
    observe(ctl.client, ctl.node, once=bool(ctl.options.get("once")), interval_s=max(1.0, seconds))
