"""Clients of MQTT at all nodes, with QoS 1 and 2, whose sessions go from node to node.

Each topic has a publisher and a subscriber; each client begins at another node, and continues its
session at the next one when it is lost (tests/crash/mqtt_clients.py). Messages of QoS 2 must come
once, those of QoS 1 may come again. All nodes know the subscriptions before anything happens to
them: a node that is cut off does not learn of new ones, and messages that it takes reach no queue.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from urllib.parse import urlsplit

from tests.cluster.clustered_nodes import ClusteredNode
from tests.cluster.hosted_nodes import Cluster, api
from tests.crash.mqtt_clients import Address, Publisher, Subscriber
from tests.jepsen.account import Account
from tests.jepsen.clients import LOOK_SECONDS, Clients

MQTT_PORT = 1883
TOPICS = {"once-1": 2, "once-2": 2, "once-3": 2, "again-1": 1, "again-2": 1}
"""The topics, with the QoS of their clients."""


class MqttClients(Clients):
    """All clients. Parameters as those of Clients; the queues are those of the sessions."""

    def __init__(
        self, urls: dict[str, str], queues: list[str], account: Account, seed: int,
        depth: Callable[[], int],
    ) -> None:  # fmt: skip
        super().__init__(urls, queues, account, seed, depth)
        hosts = [urlsplit(url).hostname or "" for url in urls.values()]
        self._senders: list[Publisher] = []
        self._receivers: list[Subscriber] = []
        for number, (topic, qos) in enumerate(TOPICS.items()):
            first = number % len(hosts)
            turned = [(host, MQTT_PORT) for host in (*hosts[first:], *hosts[:first])]
            self._senders.append(
                Publisher(
                    f"sender-{topic}", turned, topic, qos, self._messages(topic),
                    partial(self._confirm, topic),
                )
            )  # fmt: skip
            self._receivers.append(
                _receiver(topic, turned[1:] + turned[:1], partial(self._receive, qos > 1))
            )

    @staticmethod
    def prepare(cluster: Cluster) -> None:
        """Subscribe to all topics, and wait until all nodes know that."""
        first = (cluster.nodes[0].host.address, MQTT_PORT)
        asyncio.run(_subscribe([first]))
        for node in cluster.nodes:
            node.wait_until(lambda one=node: _knows_all(one), "all subscriptions are known")

    def _messages(self, topic: str) -> Iterator[str]:
        for number in count(1):
            message = f"{topic}#{number}"
            self._account.published.add(message)
            yield message

    def _confirm(self, topic: str, message: str) -> None:
        self._account.confirm(message, "", topic, time.monotonic())

    def _receive(self, is_once: bool, message: str) -> None:
        # Exactly once says nothing of the order after a session has moved.
        self._account.consume(message, not is_once, {})

    def start(self) -> None:
        """Continue the sessions, and begin to publish."""
        for receiver in self._receivers:
            receiver.subscribed.set()
            receiver.start()
        for sender in self._senders:
            sender.start()

    @property
    def under_way(self) -> list[str]:
        """The messages that are not answered, and those that have not come."""
        sent = [one.payload for sender in self._senders for one in sender.open.values()]
        return [*sent, *sorted(self._account.missing)]

    async def stop_publishing(self) -> None:
        """Publish nothing new, and wait until everything is answered."""
        for sender in self._senders:
            sender.stop_publishing()
        while any(sender.open for sender in self._senders) and not self._failures():
            await asyncio.sleep(LOOK_SECONDS)

    async def drain(self) -> None:
        """Wait until everything has come; then disconnect."""
        while self._account.missing and not self._failures():
            await asyncio.sleep(LOOK_SECONDS)
        for client in (*self._senders, *self._receivers):
            await client.stop()

    def _failures(self) -> list[BaseException]:
        both = (*self._senders, *self._receivers)
        return [client.failure for client in both if client.failure is not None]

    def problems(self) -> list[str]:
        """What is wrong with the clients, beside the account."""
        lost = [one.name for one in self._receivers if one.sessions_lost]
        return [
            *(f"a client has failed: {failure!r}" for failure in self._failures()),
            *(f"the session of {name} was lost" for name in lost),
        ]


def _receiver(
    topic: str, addresses: list[Address], received: Callable[[str], object]
) -> Subscriber:
    return Subscriber(f"receiver-{topic}", addresses, topic, TOPICS[topic], received)


async def _subscribe(addresses: list[Address]) -> None:
    receivers = [_receiver(topic, addresses, str) for topic in TOPICS]
    for receiver in receivers:
        receiver.start()
        await receiver.subscribed.wait()
    for receiver in receivers:
        await receiver.stop()


def _knows_all(node: ClusteredNode) -> bool:
    found = {one["routing_key"] for one in api(node, "bindings") if one["source"] == "amq.topic"}
    return found == set(TOPICS)
