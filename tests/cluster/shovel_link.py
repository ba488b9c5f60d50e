"""A link that a shovel uses: from a node to another broker or back, each on a host of its own."""

import json
from collections import Counter

from tests.cluster.clients import bodies
from tests.cluster.clustered_nodes import ClusteredNode, declare
from tests.cluster.hosted_nodes import AMQP_PORT, API_PORT, LINK_PORT, api
from tests.cluster.namespaces import Network
from tests.cluster.rabbitmq_host import RabbitMqHost

OPTIONS = "heartbeat=1&connection_timeout=1000"
"""A link that is cut is found out soon, and so is one that is whole again."""
LEVERET, RABBITMQ = "Leveret", "RabbitMQ"


def hosted_node(directory, name, host):
    """A node on a host of its own, which everybody may use as guest."""
    directory.mkdir(exist_ok=True)
    file = directory / "leveret.conf"
    file.write_text("loopback_users.guest = false\ncollect_statistics_interval = 200\n")
    return ClusteredNode(
        directory, name, "--config", file, "--management-port", API_PORT,
        host=host, port=AMQP_PORT, link_port=LINK_PORT,
    )  # fmt: skip


class Hosts:
    """A node that has shovels, and one broker of each kind at a distance. A context manager."""

    def __init__(self, directory, *, has_rabbitmq):
        self.network = Network(3)
        near, far, rabbit = self.network.hosts
        self._closing = [self.network.close]
        try:
            self.near = self._started(hosted_node(directory, "near", near))
            self.far = {LEVERET: self._started(hosted_node(directory, "far", far))}
            if has_rabbitmq:
                made = RabbitMqHost(directory / "rabbit", rabbit)
                self._closing.append(made.close)
                self.far[RABBITMQ] = made
        except BaseException:
            self.close()
            raise

    def _started(self, node):
        self._closing.append(node.stop)
        return node

    def close(self):
        for close in reversed(self._closing):
            close()


class ShovelLink:
    """The link of one shovel. near: the node that has it. far: the other broker. source,
    destination: one of them each; the queues there are `from` and `to` with the name of the link.
    """

    def __init__(self, hosts, kind, name, *, is_outgoing):
        self.near, self.far, self._network = hosts.near, hosts.far[kind], hosts.network
        ends = (self.near, self.far)
        self.source, self.destination = ends if is_outgoing else ends[::-1]
        self._name = name
        self.origin, self.target = f"from-{name}", f"to-{name}"
        self.taken = []
        declare(self.source, self.origin)
        declare(self.destination, self.target)

    def start(self, options=OPTIONS, **more):
        """Set the shovel, and wait until it runs."""
        self.set_shovel(self.far_uri(options), **more)
        self.wait_for_state("running")

    def set_shovel(self, far_uri, **more):
        here = "amqp://"
        source, destination = (here, far_uri) if self.source is self.near else (far_uri, here)
        value = {
            "src-uri": source, "src-queue": self.origin, "dest-uri": destination,
            "dest-queue": self.target, "reconnect-delay": 1, "src-prefetch-count": 50,
        }  # fmt: skip
        value |= {key.replace("_", "-"): one for key, one in more.items()}
        self.near.ctl("set_parameter", "shovel", self._name, json.dumps(value))

    def far_uri(self, options):
        return f"amqp://guest:guest@{self.far.host.address}:{self.far.port}?{options}"

    def close(self):
        self._network.heal()
        self.near.ctl("clear_parameter", "shovel", self._name)
        for node, queue in ((self.source, self.origin), (self.destination, self.target)):
            with node.connect() as connection:
                connection.channel().queue_delete(queue)

    # The network

    def cut(self):
        self._network.cut([self.near.host], [self.far.host])

    def silence_far(self):
        """Nothing of the other broker arrives."""
        self._network.cut_one_way([self.far.host], [self.near.host])

    def silence_near(self):
        """Nothing arrives at the other broker."""
        self._network.cut_one_way([self.near.host], [self.far.host])

    def worsen(self, share, seconds):
        self._network.worsen([self.near.host], [self.far.host], share, seconds)

    def heal(self):
        self._network.heal()

    # What is seen of it

    @property
    def status(self):
        (mine,) = [one for one in api(self.near, "shovels") if one["name"] == self._name]
        return mine

    def wait_for_state(self, state, reason=""):
        self.near.wait_until(
            lambda: self.status["state"] == state and reason in self.status.get("reason", ""),
            f"the shovel is {state} {reason}",
        )

    @property
    def starts(self):
        """How often messages began to move, in this run of its node."""
        return self.near.log.count(f"shovel '{self._name}' in vhost '/' moves messages from")

    def wait_for_more(self):
        """Wait until more messages have come than are there."""
        before = len(self.taken)
        self.near.wait_until(lambda: self._take() > before, "more messages have come")

    def _take(self):
        self.taken += bodies(self.destination, self.target)
        return len(self.taken)

    def wait_for_all(self, confirmed):
        """Wait until all of these messages have come, since nothing may be lost."""
        assert confirmed
        wanted = set(confirmed)
        self.near.wait_until(lambda: self._take() and wanted <= set(self.taken), "all have come")

    @property
    def doubled(self):
        """The messages that have come more than once."""
        return [body for body, count in Counter(self.taken).items() if count > 1]
