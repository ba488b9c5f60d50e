"""The broker that is not this node: its rights, its certificates, and its AMQP address.

Before anything is changed, its methods find what would make the migration fail later: a wrong
address or password, statistics that are off, a user without rights, an AMQP address that belongs to
another broker than the management does.
"""

import asyncio
import ssl
from collections.abc import Iterable
from pathlib import Path
from shlex import quote as quoted
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from leveret.broker.amqp.json_form import text
from leveret.broker.amqp.uri import VERIFY_NONE, UriError, parse_uri, without_credentials
from leveret.broker.moving.client.address import ServerAddress
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.client.ended import ConnectionFailed
from leveret.broker.moving.client.uri import address_of
from leveret.broker.runtime.client_context import make_client_context
from leveret.mgmt.ctl.client import TIMEOUT_SECONDS, HttpError, NodeClient
from leveret.mgmt.ctl.errors import NO_USER, UNAVAILABLE, CtlError, bad_argument, failure
from leveret.mgmt.ctl.migrating.brokers import (
    CONNECTION_NAME,
    MigrationBroker,
    given_name,
)

ADMINISTRATOR: Final = "administrator"
LOOKING_NAME: Final = "leveretctl migrate"
"""The name of the connection that tries the address."""
LONG_LISTS: Final = (("definitions",), ("queues",))
LIST_SECONDS: Final = 600.0
ADVICE: Final = (
    "--management is the URL of its management plugin, which 'rabbitmq-plugins enable "
    "rabbitmq_management' starts, by default on port 15672"
)

TLS_ADVICE: Final = (
    "The URI names the authority of a certificate of one's own, '?cacertfile=/etc/ca.pem"
    "&verify=verify_peer', and '?verify=verify_none' checks none"
)


class OtherBroker(MigrationBroker):
    """uri: without a password. timeout_s: of each request; None for the default, and `LIST_SECONDS`
    for lists that may be very long. Raises UsageError for a wrong URI or URL, and for certificates
    that cannot be read.
    """

    def __init__(self, uri: str, management: str, password: str, timeout_s: float | None) -> None:
        self.user = checked_uri(uri)
        self._split, self._password = urlsplit(uri), password
        self._management = checked_management(management)
        self._has_answered = False
        api = NodeClient(
            data_dir=None, url=management, username=self.user, password=password,
            timeout=TIMEOUT_SECONDS if timeout_s is None else timeout_s, operation="migrate",
            context=_context_of(self._split.query),
        )  # fmt: skip
        self._list_s = LIST_SECONDS if timeout_s is None else timeout_s
        super().__init__(api, without_credentials(uri).rstrip("/"))

    def uri(self, vhost: str) -> str:
        """The URI of a vhost, with user and password."""
        parts = self._split
        address = parts.netloc.rpartition("@")[2]
        login = f"{quote(self.user, safe='')}:{quote(self._password, safe='')}"
        query = f"?{parts.query}" if parts.query else ""
        return f"{parts.scheme}://{login}@{address}/{quote(vhost, safe='')}{query}"

    def patience_s(self, *path: str) -> float:
        """The time limit of a request. RabbitMQ makes a megabyte of JSON or two in a second."""
        return self._list_s if path in LONG_LISTS else super().patience_s(*path)

    def ask(self, method: str, *path: str, body: Any = None, query: Any = None) -> Any:
        """Send a request, as the other broker's user. The password may be wrong."""
        try:
            answer = super().ask(method, *path, body=body, query=query)
        except HttpError as error:
            if error.status == 401:
                raise self._login_refused() from None
            if not self._has_answered and error.status != 403:
                raise self._no_management(error.reason) from None
            raise
        except CtlError as error:
            if self._has_answered or error.code != UNAVAILABLE:
                raise
            advice = TLS_ADVICE if f"TLS with {self._management}" in error.text else ADVICE
            raise CtlError(f"{error.text}. {advice}", error.code) from None
        self._has_answered = True
        return answer

    def _login_refused(self) -> CtlError:
        return failure(
            f"{self.place} does not let user '{self.user}' log in to management: check the "
            f"password, and give the user the tag {ADMINISTRATOR}: rabbitmqctl set_user_tags "
            f"{quoted(self.user)} {ADMINISTRATOR}", NO_USER,
        )  # fmt: skip

    def _no_management(self, reason: str) -> CtlError:
        return failure(
            f"{self._management} does not answer as RabbitMQ's management does: {reason}. {ADVICE}"
        )

    def require_rights(self) -> None:
        """Raise CtlError if the user cannot read and import definitions, or counts are missing."""
        try:
            found = self.get("whoami")
        except HttpError as error:
            raise (self._login_refused() if error.status == 403 else error) from None
        if not isinstance(found, dict) or "tags" not in found:
            self._has_answered = False
            raise self._no_management("its answer to GET /api/whoami has no tags")
        tags = found["tags"]
        if ADMINISTRATOR not in (tags.split(",") if isinstance(tags, str) else tags):
            raise failure(
                f"user '{self.user}' of {self.place} has no tag {ADMINISTRATOR}, which reading all "
                f"definitions needs: rabbitmqctl set_user_tags {quoted(self.user)} {ADMINISTRATOR}",
                NO_USER,
            )
        if self.get("overview", columns="rabbitmq_version,disable_stats").get("disable_stats"):
            raise failure(
                f"{self.place} makes no statistics, so it cannot tell what is left there: remove "
                "management.disable_stats and management_agent.disable_metrics_collector from its "
                "configuration, and restart it"
            )

    def require_access(self, vhosts: Iterable[str]) -> None:
        """Raise CtlError if links may not read and write in vhosts.

        Queues of a vhost to which it has no access are not listed for an administrator either.
        """
        wanted, allowed = sorted(set(vhosts)), self._allowed()
        missing = [vhost for vhost in wanted if vhost not in allowed]
        if missing:
            commands = "\n".join(
                f"    rabbitmqctl set_permissions -p {quoted(vhost)} {quoted(self.user)} "
                "'.*' '.*' '.*'"
                for vhost in missing
            )
            raise failure(
                f"user '{self.user}' of {self.place} may not read and write in {len(missing)} "
                f"virtual hosts. Give it permissions:\n{commands}", NO_USER,
            )  # fmt: skip

    def _allowed(self) -> list[str]:
        """The vhosts in which the user may read and write."""
        found = self.get("users", self.user, "permissions")
        return sorted(one["vhost"] for one in found if one["read"] and one["write"])

    def require_connections(self) -> None:
        """Raise CtlError if links cannot connect, or connect to a broker that is not the one which
        management shows. A user that may use no vhost is not tried.
        """
        allowed = self._allowed()
        if not allowed:
            return
        address = address_of(self.uri(allowed[0]))
        assert isinstance(address, ServerAddress), "it has a host"
        try:
            cluster = asyncio.run(_cluster_at(address))
        except ConnectionFailed as error:
            raise failure(
                f"links cannot connect to {self.place}: {error}. The URI is the address of its "
                "AMQP listener, by default on port 5672"
            ) from None
        if cluster and cluster != self.cluster():
            raise failure(
                f"{self.place} belongs to the cluster '{cluster}', and {self._management} to the "
                f"cluster '{self.cluster()}': give the addresses of one broker"
            )

    def other_links(self) -> list[str]:
        """The connections of migrations' links, of whatever broker they are."""
        found = self.get("connections", columns="name,user_provided_name,client_properties")
        return sorted(one["name"] for one in found if given_name(one).startswith(CONNECTION_NAME))


async def _cluster_at(address: ServerAddress) -> str:
    """The name of the cluster at an AMQP address; empty if it has none. Raises ConnectionFailed."""
    connection = await ClientConnection.open(address, {"connection_name": ("S", LOOKING_NAME)})
    _, name = connection.server_properties.get("cluster_name", ("S", ""))
    await connection.close()
    return text(name)


def _context_of(query: str) -> ssl.SSLContext | None:
    """The TLS context for management that the options of the URI ask for; None for the default."""
    options = {name: values[0] for name, values in parse_qs(query).items()}
    given = [options.get(name) for name in ("cacertfile", "certfile", "keyfile")]
    verify = options.get("verify")
    if not any(given) and verify != VERIFY_NONE:
        return None
    cacertfile, certfile, keyfile = (Path(one) if one else None for one in given)
    try:
        context = make_client_context(
            cacertfile, certfile, keyfile, "", verify_peer=verify != VERIFY_NONE
        )
    except ValueError as error:
        raise bad_argument(str(error)) from None
    if options.get("server_name_indication") == "disable":
        context.check_hostname = False
    return context


def checked_uri(uri: str) -> str:
    """The user that a URI names, `guest` by default. Raises UsageError.

    A password in it would be shown by `ps` and kept by shells.
    """
    try:
        parsed = parse_uri(uri)
    except UriError as error:
        raise bad_argument(str(error)) from None
    if parsed.password is not None:
        raise bad_argument(
            "the URI has a password, which other users see in lists of processes: leave it out, "
            "and give it when asked, in a file (--password-file), or in LEVERET_MIGRATION_PASSWORD"
        )
    if parsed.host is None:
        raise bad_argument("the URI names no host: amqp://user@host")
    if urlsplit(uri).path not in ("", "/"):
        raise bad_argument("all virtual hosts are moved: the URI ends after host and port")
    return parsed.user or "guest"


def checked_management(url: str) -> str:
    """The URL of management. Raises UsageError."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        # A port that is no number, or too large, is found when it is read.
        is_usable = is_usable and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise bad_argument(f"--management must be a URL such as http://old:15672, and not '{url}'")
    if parts.username is not None:
        raise bad_argument("the URL of management has no user: that of the URI logs in")
    return url
