"""A broker of a migration: this node, or the other one, which may be RabbitMQ.

It is asked over the HTTP API. Links connect to the URI of a queue's vhost: that of the other broker
contains its password, that of this node needs none.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote, urlsplit

from leveret.broker.amqp.uri import UriError, parse_uri, without_credentials
from leveret.mgmt.ctl.client import HttpError, NodeClient
from leveret.mgmt.ctl.errors import NO_USER, bad_argument, failure
from leveret.mgmt.ctl.migrating.links import NAME_PREFIX, Place, QueueAtOne, is_links

LEVERET: Final = "Leveret"
ADMINISTRATOR: Final = "administrator"
QUEUE_COLUMNS: Final = "vhost,name,type,messages,exclusive,auto_delete,owner_pid_details"
CONNECTION_NAME: Final = f"Shovel {NAME_PREFIX}"
"""The beginning of the names of links' connections."""
NOT_FOUND: Final = 404


class MigrationBroker:
    """api: its client. place: how messages name it, without a password."""

    def __init__(self, api: NodeClient, place: str) -> None:
        self.api = api
        self.place = place
        self._version = ""

    def uri(self, vhost: str) -> str:
        """The URI of a vhost for a link: the node that runs it needs no address."""
        return f"amqp:///{quote(vhost, safe='')}"

    def get(self, *path: str, **query: str) -> Any:
        """Get a resource. Raises CtlError, which names the broker."""
        return self.ask("GET", *path, query=query)

    def ask(self, method: str, *path: str, body: Any = None, query: Any = None) -> Any:
        """Send a request. Raises HttpError for a refusal, with the broker in its text."""
        self.api.wait_longer(self.api.timeout_s)
        try:
            return self.api.request(method, path, body=body, query=query)
        except HttpError as error:
            asked = f"{method} /api/{'/'.join(path)}"
            reason = f"{self.place} refuses {asked}: {error.status}, {error.reason}"
            raise HttpError(error.status, reason, error.content) from None

    def delete(self, *path: str) -> None:
        """Delete a resource, if it is there."""
        try:
            self.ask("DELETE", *path)
        except HttpError as error:
            if error.status != NOT_FOUND:
                raise

    def put_parameter(self, component: str, vhost: str, name: str, value: Any) -> None:
        """Set a parameter of a vhost."""
        body = {"component": component, "vhost": vhost, "name": name, "value": value}
        self.ask("PUT", "parameters", component, vhost, name, body=body)

    def version(self) -> str:
        """Its product and version, as the plan names them. It is asked once."""
        if not self._version:
            found = self.get("overview", columns="leveret_version,rabbitmq_version")
            leveret = found.get("leveret_version")
            version = found["rabbitmq_version"]
            self._version = f"{LEVERET} {leveret}" if leveret else f"RabbitMQ {version}"
        return self._version

    def cluster(self) -> str:
        """The name of its cluster."""
        return str(self.get("cluster-name")["name"])

    def plugins(self) -> set[str]:
        """The plugins that are enabled on any of its nodes."""
        nodes = self.get("nodes", columns="enabled_plugins")
        return {name for node in nodes for name in node.get("enabled_plugins", ())}

    def queues(self) -> dict[Place, QueueAtOne]:
        """All queues, with the consumers of programs."""
        consumers = self._consumers()
        found = {}
        for one in self.get("queues", columns=QUEUE_COLUMNS):
            place = one["vhost"], one["name"]
            found[place] = QueueAtOne(
                one.get("type", "classic"), one.get("messages"), consumers[place],
                bool(one.get("exclusive")) or bool(one.get("owner_pid_details")),
                bool(one.get("auto_delete")),
            )  # fmt: skip
        return found

    def _consumers(self) -> Counter[Place]:
        count: Counter[Place] = Counter()
        for one in self.get("consumers", columns="queue,arguments,prefetch_count"):
            if not is_links(one):
                count[one["queue"]["vhost"], one["queue"]["name"]] += 1
        return count

    def delayed(self) -> int:
        """The messages that wait in exchanges of the type x-delayed-message."""
        found = self.get("exchanges", columns="name,messages_delayed")
        return sum(one.get("messages_delayed") or 0 for one in found)

    def connections(self) -> list[str]:
        """The names of the connections of programs, sorted."""
        found = self.get("connections", columns="name,user_provided_name,client_properties")
        names = []
        for one in found:
            given = one.get("user_provided_name") or (one.get("client_properties") or {}).get(
                "connection_name", ""
            )
            if not given.startswith(CONNECTION_NAME):
                names.append(f"{one['name']} ({given})" if given else one["name"])
        return sorted(names)


class OtherBroker(MigrationBroker):
    """The broker that is not this node. uri: without a password."""

    def __init__(self, uri: str, management: str, password: str, timeout_s: float) -> None:
        user = checked_uri(uri)
        self.user = user
        self._split, self._password = urlsplit(uri), password
        api = NodeClient(
            data_dir=None, url=management, username=user, password=password, timeout=timeout_s,
            operation="migrate",
        )  # fmt: skip
        super().__init__(api, without_credentials(uri).rstrip("/"))

    def uri(self, vhost: str) -> str:
        """The URI of a vhost, with user and password."""
        parts = self._split
        address = parts.netloc.rpartition("@")[2]
        login = f"{quote(self.user, safe='')}:{quote(self._password, safe='')}"
        query = f"?{parts.query}" if parts.query else ""
        return f"{parts.scheme}://{login}@{address}/{quote(vhost, safe='')}{query}"

    def require_rights(self) -> None:
        """Raise CtlError if the user cannot export definitions. The password may be wrong, too."""
        try:
            tags = self.get("whoami")["tags"]
        except HttpError as error:
            if error.status in (401, 403):
                raise failure(
                    f"{self.place} does not let user '{self.user}' log in to management: check the "
                    f"password, and give the user the tag {ADMINISTRATOR}", NO_USER,
                ) from None  # fmt: skip
            raise
        listed = tags.split(",") if isinstance(tags, str) else tags
        if ADMINISTRATOR not in listed:
            raise failure(
                f"user '{self.user}' of {self.place} has no tag {ADMINISTRATOR}, which reading all "
                f"definitions needs: rabbitmqctl set_user_tags {self.user} {ADMINISTRATOR}",
                NO_USER,
            )

    def require_access(self, vhosts: Iterable[str]) -> None:
        """Raise CtlError if the user may not read and write in vhosts.

        Queues of a vhost to which it has no access are not listed for an administrator either.
        """
        found = self.get("users", self.user, "permissions")
        allowed = {one["vhost"] for one in found if one["read"] and one["write"]}
        missing = sorted(set(vhosts) - allowed)
        if missing:
            commands = "\n".join(
                f"    rabbitmqctl set_permissions -p '{vhost}' {self.user} '.*' '.*' '.*'"
                for vhost in missing
            )
            raise failure(
                f"user '{self.user}' of {self.place} may not read and write in {len(missing)} "
                f"virtual hosts. Give it permissions:\n{commands}", NO_USER,
            )  # fmt: skip


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
