"""Health checks: 200 if a check passes, 503 with the reason if it fails."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.json_form import text
from leveret.broker.erlang.terms import Atom, format_term
from leveret.broker.net.tls import expiries_of
from leveret.broker.sessions.declaring_queues import QueueProperties
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import as_closed_channel, connect
from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.api.overview import require_this_node
from leveret.mgmt.api.routes import Answerer, StatusAnswer, route
from leveret.mgmt.views.nodes import partitions

DIGITS = re.compile("[0-9]{1,9}")
ALIVENESS_QUEUE = "aliveness-test"
UNITS_DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
PROTOCOLS = {
    "amqp": "amqp", "amqps": "amqp/ssl", "http": "http", "management": "http", "https": "https",
    "prometheus": "http/prometheus",
    **dict.fromkeys(
        ("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1", "amqp10", "amqp1.0", "amqp1-0",
         "amqp1_0"), "amqp",
    ),
}  # fmt: skip
"""Listeners by the names that RabbitMQ understands, in any case. AMQP's have all its versions."""


def failed(reason: str, **facts: Any) -> StatusAnswer:
    """503 with the reason."""
    return StatusAnswer(503, {"status": "failed", "reason": reason, **facts})


OK = {"status": "ok"}


@route("GET", "/aliveness-test/{vhost}")
async def aliveness_test(call: Call) -> Any:
    """Declare a queue, publish to it, and get the message."""
    vhost = call.vhost()
    try:
        return await _send_and_get(call, vhost)
    except (ChannelFault, ConnectionFault) as fault:
        raise as_closed_channel(fault) from None


async def _send_and_get(call: Call, vhost: str) -> Any:
    with connect(call, vhost) as connection:
        await connection.declare_queue(ALIVENESS_QUEUE, QueueProperties({}))
        await connection.publish("", ALIVENESS_QUEUE, read_header(b"\0\0"), b"test_message")
        if await connection.get(ALIVENESS_QUEUE, no_ack=True) is None:
            return failed("aliveness-test queue is empty")
    return OK


@route(
    "GET",
    "/healthchecks/node",
    "/healthchecks/node/{node}",
    answered_by=Answerer.NODE_IN_PATH,
    answers_at_once=True,
)
async def node_check(call: Call) -> Any:
    """Check that no alarm of this node is in force, and that it knows of no partition."""
    if "node" in call.request.match_info:
        require_this_node(call)
    name = Atom(call.node.name)
    alarms = [(Atom("resource_limit"), Atom(one), name) for one in call.facade.own_alarms]
    if alarms:
        return failed(f"resource alarm(s) in effect:{format_term(alarms)}")
    cut_off = [Atom(node) for node in partitions(call.node)]
    if cut_off:
        return failed(f"cluster partition in effect: {format_term(cut_off)}")
    return OK


@route("GET", "/health/checks/alarms", answers_at_once=True)
async def check_alarms(call: Call) -> Any:
    """Check that no alarm is in force in the cluster, with a list of those that are."""
    facade = call.facade
    found = {call.node.name: facade.own_alarms, **facade.alarms_of_others}
    return _alarms_of(found, "the cluster")


@route("GET", "/health/checks/local-alarms", answers_at_once=True)
async def check_local_alarms(call: Call) -> Any:
    """Check that no alarm of this node is in force, with a list of those that are."""
    return _alarms_of({call.node.name: call.facade.own_alarms}, "the node")


def _alarms_of(by_node: dict[str, tuple[str, ...]], where: str) -> Any:
    found = [
        {"node": node, "resource": source}
        for node, sources in sorted(by_node.items())
        for source in sources
    ]
    if not found:
        return OK
    return failed(f"There are alarms in effect in {where}", alarms=found)


@route("GET", "/health/checks/certificate-expiration/{within}/{unit}", answers_at_once=True)
async def check_certificates(call: Call) -> Any:
    """Check that no certificate of a listener or of its CAs expires within a time."""
    days = UNITS_DAYS.get(call.path("unit").lower())
    within = call.path("within")
    if not DIGITS.fullmatch(within):
        raise bad_request("Invalid expiration value.")
    if days is None:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    try:
        end = datetime.now(UTC) + timedelta(days=days * int(within))
    except OverflowError:
        end = datetime.max.replace(tzinfo=UTC)
    expired = [
        {
            "node": call.node.name, "protocol": protocol, "interface": listener.host or "::",
            "port": listener.port, "certfile": str(files.certfile or ""),
            "cacertfile": str(files.cacertfile or ""),
            "certfile_expires_on": ends, "cacertfile_expires_on": trusted_ends,
        }
        for protocol, listener in call.node.listeners
        for files in [call.node.certificates.get(protocol)]
        if files is not None
        for ends in [await _ends_before(files.certfile, end)]
        for trusted_ends in [await _ends_before(files.cacertfile, end)]
        if ends or trusted_ends
    ]  # fmt: skip
    if not expired:
        return OK
    return failed("Certificates expiring", expired=expired)


async def _ends_before(path: Path | None, end: datetime) -> list[str]:
    """The expiry times of those certificates in a file that expire before `end`."""
    ends = await expiries_of(path) if path is not None else []
    return [one.strftime("%Y-%m-%d %H:%M:%S") for one in ends if one < end]


@route("GET", "/health/checks/port-listener/{port}", answers_at_once=True)
async def check_port(call: Call) -> Any:
    """Check that there is a listener on a port."""
    if not DIGITS.fullmatch(call.path("port")):
        raise bad_request("Invalid port")
    port = int(call.path("port"))
    ports = sorted({listener.port for _, listener in call.node.listeners})
    if port in ports:
        return {**OK, "port": port}
    return failed("No active listener", missing=port, ports=ports)


@route("GET", "/health/checks/protocol-listener/{protocol}", answers_at_once=True)
async def check_protocol(call: Call) -> Any:
    """Check that there is a listener for a protocol."""
    wanted = PROTOCOLS.get(call.path("protocol").lower(), call.path("protocol"))
    spoken = sorted({protocol for protocol, _ in call.node.listeners})
    if wanted in spoken:
        return {**OK, "protocol": wanted}
    return failed("No active listener", missing=wanted, protocols=spoken)


@route("GET", "/health/checks/virtual-hosts", answers_at_once=True)
async def check_vhosts(call: Call) -> Any:
    """Check that all vhosts are running: none is if the node's store has failed, which they share.

    The process ends then, but answers until it has.
    """
    if not call.facade.has_failed:
        return OK
    down = [text(name) for name in call.facade.vhost_names()]
    return failed("Some virtual hosts are down", **{"virtual-hosts": down})


@route("GET", "/health/checks/is-in-service", answers_at_once=True)
async def check_service(call: Call) -> Any:
    """Check that the node serves clients: it is not under maintenance, and knows its place."""
    if call.node.is_under_maintenance or call.node.is_holding_clients:
        return failed("this rabbit node is not currently available to serve")
    return OK


@route("GET", "/config/effective")
async def effective_configuration(call: Call) -> Any:
    """Every setting, without secrets."""
    call.require_administrator()
    return environment(call)


def environment(call: Call) -> dict[str, Any]:
    """The settings by their keys, without secrets."""
    shown: dict[str, Any] = {}
    for setting, value in call.node.config.shown():
        key = setting.keys[0] if setting.keys else setting.attribute
        shown[key] = str(value) if isinstance(value, Path) else value
    return shown
