"""CONNECT: the version, the user and the virtual host of a connection.

The order of the checks and the texts are RabbitMQ's. A client may try again on the same connection;
the answer to a wrong password takes some time, which slows guessing.
"""

import logging
from typing import Final

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.json_form import text
from leveret.broker.auth.certificates import CertificateRefused
from leveret.broker.auth.identity import Identity
from leveret.broker.protocols.amqp091.connection.handshake import COMPATIBLE_VERSIONS, PRODUCT
from leveret.broker.protocols.logging_in import (
    certificate_name,
    find_user,
    find_vhost,
    is_allowed_host,
)
from leveret.broker.protocols.stomp.errors import VERSIONS, StompError, processing_error
from leveret.broker.protocols.stomp.message_headers import number_of
from leveret.broker.protocols.stomp.serving import StompClient
from leveret.broker.runtime.pending import Answer

REFUSAL_MS: Final = 3_000
"""RabbitMQ's delay before it answers a wrong password."""
HEART_BEAT_MS_MAX: Final = 2**31 - 1
LOGIN_PROTOCOL: Final = "stomp"
"""The protocol under which login attempts are counted."""

logger = logging.getLogger("leveret.connection")


async def log_in(client: StompClient, headers: dict[str, str], is_told: bool = True) -> None:
    """Open the connection. is_told: whether CONNECTED is sent. Raises StompError."""
    try:
        client.check_node_limits()
    except Fault:
        raise _refused("Connection refused: node connection limit reached") from None
    version = _agreed_version(headers)
    if version == VERSIONS[0]:
        headers = {name: value.lstrip(" ") for name, value in headers.items()}
    beats = _heart_beats(headers)
    client.protocol = f"{client.over}STOMP {version}"
    vhost_name = headers.get("host", client.settings.default_vhost)
    name, password = _credentials(client, headers)
    user = await find_user(client, name, password, LOGIN_PROTOCOL)
    if user is None:
        await _refuse(client, name)
        return
    await _open(client, user, vhost_name, version, beats, is_told)


def _agreed_version(headers: dict[str, str]) -> str:
    offered = headers.get("accept-version", VERSIONS[0]).split(",")
    common = [version for version in VERSIONS if version in offered]
    if not common:
        detail = f"Supported versions are {','.join(VERSIONS)}\n"
        raise StompError("Version mismatch", detail)
    return common[-1]


def _heart_beats(headers: dict[str, str]) -> tuple[int, int]:
    """The intervals of the server's heart-beats and of the client's, in whole seconds."""
    sent, comma, wanted = headers.get("heart-beat", "0,0").partition(",")
    if not comma:
        raise processing_error()
    return _seconds(wanted), _seconds(sent)


def _seconds(text: str) -> int:
    interval_ms = number_of(text, HEART_BEAT_MS_MAX)
    return max(1, interval_ms // 1000) if interval_ms else 0


def _credentials(client: StompClient, headers: dict[str, str]) -> tuple[str, str | None]:
    """The name and the password from the headers, the client's certificate or the settings."""
    settings = client.settings
    if client.credentials is not None:
        client.mechanism = "config"
        return client.credentials
    if "login" not in headers and settings.ssl_cert_login and client.tls is not None:
        client.mechanism = "ssl"
        try:
            return certificate_name(client), None
        except CertificateRefused as refused:
            raise _refused(f"Access refused: {refused}") from None
    client.mechanism = "stomp_headers" if "login" in headers else "config"
    return headers.get("login", settings.default_user), headers.get(
        "passcode", settings.default_pass
    )


async def _refuse(client: StompClient, name: str) -> None:
    over: Answer[None] = Answer()
    client.services.clock.call_later_ms(REFUSAL_MS, lambda: over.give(None))
    await over
    if not is_allowed_host(client, name):
        raise _refused("non-loopback access denied")
    raise _refused(f"Access refused for user '{name}'")


async def _open(
    client: StompClient,
    user: Identity,
    vhost_name: str,
    version: str,
    beats: tuple[int, int],
    is_told: bool,
) -> None:
    try:
        vhost = await find_vhost(client, user, vhost_name)
    except Fault as fault:
        logger.error("%s: %s", client.name, text(fault.explanation))
        raise _refused(f"Virtual host '{vhost_name}' access denied") from None
    try:
        client.check_limits(user, vhost_name)
    except Fault as fault:
        logger.error("%s: %s", client.name, fault.explanation)
        raise _refused("Connection refused: vhost connection limit reached") from None
    session = client.open(user, vhost, version)
    sent_s, expected_s = beats
    if is_told:
        told = {
            "session": session.name_for_client,
            "heart-beat": f"{sent_s * 1000},{expected_s * 1000}",
            "version": version,
        }
        if not client.settings.hide_server_info:
            told["server"] = f"{PRODUCT}/{COMPATIBLE_VERSIONS[client.services.config.compat]}"
        client.output.send("CONNECTED", told)
    client.begin_heart_beats(sent_s, expected_s)


def _refused(detail: str) -> StompError:
    return StompError("Bad CONNECT", detail)
