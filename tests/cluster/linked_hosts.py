"""Brokers on hosts of their own with links between them, whose network a test cuts and slows."""

from collections import Counter

from tests.cluster.clustered_nodes import ClusteredNode
from tests.cluster.hosted_nodes import AMQP_PORT, API_PORT, LINK_PORT
from tests.cluster.namespaces import Network
from tests.cluster.rabbitmq_host import RabbitMqHost

OPTIONS = "heartbeat=1&connection_timeout=1000"
"""A link that is cut is found out soon, and so is one that is whole again."""
LEVERET, RABBITMQ = "Leveret", "RabbitMQ"


def hosted_node(directory, name, host):
    """A node on a host of its own, which clients of any host may use as guest."""
    directory.mkdir(exist_ok=True)
    file = directory / "leveret.conf"
    file.write_text("loopback_users.guest = false\ncollect_statistics_interval = 200\n")
    return ClusteredNode(
        directory, name, "--config", file, "--management-port", API_PORT,
        host=host, port=AMQP_PORT, link_port=LINK_PORT,
    )  # fmt: skip


class Hosts:
    """A node that has links, and one broker of each kind at a distance."""

    def __init__(self, directory):
        self.network = Network(3)
        self._directory = directory
        near, far, _ = self.network.hosts
        self._closing = [self.network.close]
        try:
            self.near = self._started(hosted_node(directory, "near", near))
            self.far = {LEVERET: self._started(hosted_node(directory, "far", far))}
        except BaseException:
            self.close()
            raise

    def far_broker(self, kind):
        """The other broker of this kind. RabbitMQ is started for the first test that has it."""
        if kind not in self.far:
            made = RabbitMqHost(self._directory / "rabbit", self.network.hosts[2])
            self._closing.append(made.close)
            self.far[kind] = made
        return self.far[kind]

    def _started(self, node):
        self._closing.append(node.stop)
        return node

    def close(self):
        for close in reversed(self._closing):
            close()


class Link:
    """A link. near: the broker that has it. far: the other one. taken: the bodies of messages that
    have come, in their order.
    """

    def __init__(self, network, near, far):
        self._network = network
        self.near, self.far = near, far
        self.taken = []

    def far_uri(self, options):
        return f"amqp://guest:guest@{self.far.host.address}:{self.far.port}?{options}"

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

    # What has come

    def take(self):
        """Take the messages that have arrived, and return how many have in all."""
        raise NotImplementedError

    def wait_for_more(self):
        """Wait until more messages have arrived than before."""
        before = len(self.taken)
        self.near.wait_until(lambda: self.take() > before, "more messages have come")

    def wait_for_all(self, confirmed):
        """Wait until all of these messages have arrived, since nothing may be lost."""
        assert confirmed
        wanted = set(confirmed)
        self.near.wait_until(lambda: self.take() and wanted <= set(self.taken), "all have come")

    def wait_until_it_is_held(self):
        """Wait until the link reports that its destination takes nothing, if it reports that."""

    def check_that_it_was_never_lost(self, confirmed):
        """All messages have arrived once, and in order."""
        assert self.taken == confirmed

    def check_what_is_doubled(self):
        """Only messages on their way when the link was lost may come twice, if those are known."""

    @property
    def doubled(self):
        """The messages that arrived more than once."""
        return [body for body, count in Counter(self.taken).items() if count > 1]
