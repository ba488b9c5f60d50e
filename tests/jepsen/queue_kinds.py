"""The kinds of queues that a run can have: how they are declared, and what is expected of them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.cluster.clustered_nodes import ClusteredNode
from tests.cluster.hosted_nodes import Cluster, api
from tests.jepsen.account import Account
from tests.jepsen.amqp10_clients import Amqp10Account, Amqp10Clients
from tests.jepsen.clients import Clients
from tests.jepsen.mqtt_clients import MQTT_PORT, MqttClients
from tests.jepsen.stream_account import StreamAccount
from tests.jepsen.stream_clients import PARTITIONS, SUPER_STREAM, StreamClients
from tests.jepsen.stream_protocol import PORT

DOWN = "down"
SMALL_SEGMENTS = {"x-stream-max-segment-size-bytes": 50_000}
MORE_OF_POLICIES = (
    '"ha-sync-mode": "automatic", "ha-promote-on-failure": "when-synced", '
    '"ha-promote-on-shutdown": "when-synced", "queue-master-locator": "random"'
)


class QueueKind(NamedTuple):
    """names: of the queues. settings: lines of the configuration file of all nodes.

    arguments, policies: by the beginning of a queue's name. survives_partitions: the queues need no
    partition handling, so every fault may happen with each of them. is_exact: no message may be
    delivered twice without the mark of a redelivery, and first deliveries are in order. columns:
    what tells the state of a queue whose messages do not come. account, clients: what a run uses.
    super_stream: the queues that are the partitions of one; they have replicas that come and go.
    """

    names: list[str]
    settings: list[str]
    arguments: dict[str, dict[str, Any]]
    policies: dict[str, str]
    survives_partitions: bool
    is_exact: bool
    columns: tuple[str, ...]
    account: Callable[[], Account] = Account
    clients: type[Clients] = Clients
    super_stream: tuple[str, ...] = ()

    def declare(self, cluster: Cluster) -> None:
        """Declare the queues, each at another node."""
        first = cluster.nodes[0]
        for number, (beginning, policy) in enumerate(self.policies.items()):
            definition = f"{{{policy}, {MORE_OF_POLICIES}}}"
            first.ctl("set_policy", f"ha-{number}", f"^{beginning}", definition)
        for number, queue in enumerate(self.names):
            arguments = self.arguments.get(queue.partition("-")[0])
            with cluster.nodes[number % len(cluster.nodes)].connect() as connection:
                connection.channel().queue_declare(queue, durable=True, arguments=arguments)
        if self.super_stream:
            self._declare_super_stream(first)
        self.clients.prepare(cluster)

    def _declare_super_stream(self, node: ClusteredNode) -> None:
        with node.connect() as connection:
            channel = connection.channel()
            channel.exchange_declare(
                SUPER_STREAM, "direct", durable=True, arguments={"x-super-stream": True}
            )
            for number, queue in enumerate(self.super_stream):
                order = {"x-stream-partition-order": number}
                channel.queue_bind(queue, SUPER_STREAM, str(number), order)

    def depth(self, nodes: Sequence[ClusteredNode]) -> int:
        """How many messages all queues have, as the nodes that lead them show them.

        Messages that a leader has delivered, and that are never acknowledged, count too. A node
        that is to lead a queue, and does not lead it yet, shows none.
        """
        try:
            led = [
                one
                for node in nodes
                for one in api(node, "queues")
                if _leader(one) == node.name and one["state"] != DOWN
            ]
        except OSError:
            return 1
        are_all = {one["name"] for one in led} == set(self.names)
        return sum(one["messages"] for one in led) if are_all else 1

    def states(self, nodes: Sequence[ClusteredNode]) -> list[str]:
        """The queues as each node shows them."""
        states = []
        for node in nodes:
            try:
                shown = api(node, "queues")
            except OSError as error:
                states.append(f"{node.name}: {error}")
            else:
                found = [" ".join(f"{one.get(column)}" for column in self.columns) for one in shown]
                states.append(f"{node.name}: " + "; ".join(found))
        return states


def _leader(queue: dict[str, Any]) -> str:
    return queue.get("leader") or queue["node"]


MIRRORED = QueueKind(
    ["all-1", "all-2", "two-1", "two-2"], [], {},
    {"all": '"ha-mode": "all"', "two": '"ha-mode": "exactly", "ha-params": 2'}, False, False,
    ("name", "node", "state", "slave_nodes", "synchronised_slave_nodes", "messages"),
)  # fmt: skip
QUORUM = QueueKind(
    ["all-1", "all-2", "three-1", "three-2"], [],
    {
        "all": {"x-queue-type": "quorum", "x-quorum-initial-group-size": 5},
        "three": {"x-queue-type": "quorum", "x-quorum-initial-group-size": 3},
    },
    {}, True, True, ("name", "leader", "state", "members", "online", "messages"),
)  # fmt: skip
STREAM = QueueKind(
    ["all-1", "three-1", "one-1", "short-1", "young-1"], [f"stream.listeners.tcp.default = {PORT}"],
    {
        "all": {"x-queue-type": "stream", "x-initial-cluster-size": 5, **SMALL_SEGMENTS},
        "three": {"x-queue-type": "stream", "x-initial-cluster-size": 3, **SMALL_SEGMENTS},
        "one": {"x-queue-type": "stream", "x-initial-cluster-size": 1, **SMALL_SEGMENTS},
        "short": {"x-queue-type": "stream", "x-max-length-bytes": 300_000, **SMALL_SEGMENTS},
        "young": {"x-queue-type": "stream", "x-max-age": "1m", **SMALL_SEGMENTS},
    },
    {}, True, True, ("name", "leader", "state", "members", "online", "messages"),
    lambda: StreamAccount(frozenset({"short-1", "young-1"})), StreamClients, PARTITIONS,
)  # fmt: skip
MQTT = QueueKind(
    [],
    [
        f"mqtt.listeners.tcp.default = {MQTT_PORT}", "mqtt.qos2 = exactly_once",
        "mqtt.durable_queue_type = quorum",
    ],
    {}, {}, True, True, ("name", "leader", "state", "members", "online", "messages"), Account,
    MqttClients,
)  # fmt: skip
UNLIMITED = {"x-queue-type": "quorum", "x-delivery-limit": -1}
AMQP10 = QUORUM._replace(
    settings=["compat = 4.x"],
    arguments={
        "all": {**UNLIMITED, "x-quorum-initial-group-size": 5},
        "three": {**UNLIMITED, "x-quorum-initial-group-size": 3},
    },
    account=Amqp10Account, clients=Amqp10Clients,
)  # fmt: skip
KINDS_OF_QUEUES = {
    "mirrored": MIRRORED, "quorum": QUORUM, "stream": STREAM, "mqtt": MQTT, "amqp10": AMQP10,
}  # fmt: skip
