"""A broker of a migration, which is asked over the HTTP API.

Links connect to the URI of a queue's vhost: that of the other broker (`other_broker`) contains its
password, that of this node needs none.
"""

from collections import Counter
from typing import Any, Final
from urllib.parse import quote

from leveret.mgmt.ctl.client import HttpError, NodeClient
from leveret.mgmt.ctl.migrating.links import NAME_PREFIX, Place, QueueAtOne, is_links

LEVERET: Final = "Leveret"
QUEUE_COLUMNS: Final = "vhost,name,type,messages,exclusive,auto_delete,owner_pid_details"
CONNECTION_NAME: Final = f"Shovel {NAME_PREFIX}"
"""The beginning of the names of links' connections."""
NOT_FOUND: Final = 404
LATE_SECONDS: Final = 6.0
"""The interval of RabbitMQ's statistics, and one more."""
LEVERET_LATE_SECONDS: Final = 0.5


class MigrationBroker:
    """api: its client. place: how messages name it, without a password."""

    def __init__(self, api: NodeClient, place: str) -> None:
        self.api = api
        self.place = place
        self._timeout_s = api.timeout_s
        self._version = ""

    def uri(self, vhost: str) -> str:
        """The URI of a vhost for a link: the node that runs it needs no address."""
        return f"amqp:///{quote(vhost, safe='')}"

    def get(self, *path: str, **query: str) -> Any:
        """Get a resource. Raises CtlError, which names the broker."""
        return self.ask("GET", *path, query=query)

    def patience_s(self, *_path: str) -> float:
        """The time limit of a request for a path."""
        return self._timeout_s

    def ask(self, method: str, *path: str, body: Any = None, query: Any = None) -> Any:
        """Send a request. Raises HttpError for a refusal, with the broker in its text."""
        self.api.wait_longer(self.patience_s(*path))
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

    def late_s(self) -> float:
        """How late its counts of messages may be, in seconds."""
        return LEVERET_LATE_SECONDS if self.version().startswith(LEVERET) else LATE_SECONDS

    def cluster(self) -> str:
        """The name of its cluster."""
        return str(self.get("cluster-name")["name"])

    def plugins(self) -> set[str]:
        """The plugins that are enabled on any of its nodes.

        RabbitMQ does not know those of a node that has just started. Without a name, such a node
        would be an empty list.
        """
        nodes = self.get("nodes", columns="name,enabled_plugins")
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
            given = given_name(one)
            if not given.startswith(CONNECTION_NAME):
                names.append(f"{one['name']} ({given})" if given else one["name"])
        return sorted(names)


def given_name(connection: dict[str, Any]) -> str:
    """The name that a client has given to its connection, as the HTTP API lists it."""
    properties = connection.get("client_properties") or {}
    return str(connection.get("user_provided_name") or properties.get("connection_name", ""))
