"""A link that a shovel uses: from a node to another broker or back, each on a host of its own."""

import json

from tests.cluster.clients import bodies
from tests.cluster.clustered_nodes import declare
from tests.cluster.hosted_nodes import api
from tests.cluster.linked_hosts import OPTIONS, Link
from tests.cluster.publisher import ConfirmedPublisher


class ShovelLink(Link):
    """The link of one shovel. near: the node that has it. far: the other broker. source,
    destination: one of them each; the queues there are `from` and `to` with the name of the link.
    """

    def __init__(self, hosts, kind, name, *, is_outgoing):
        super().__init__(hosts.network, hosts.near, hosts.far_broker(kind))
        ends = (self.near, self.far)
        self.source, self.destination = ends if is_outgoing else ends[::-1]
        self._name = name
        self.origin, self.target = f"from-{name}", f"to-{name}"
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

    def start_broker_again(self):
        """Start the node of the shovel, which was killed."""
        self.near.start()

    def publishing(self):
        """A client that publishes to the source all the time."""
        return ConfirmedPublisher(self.source, self.origin)

    def close(self):
        self._network.heal()
        self.near.ctl("clear_parameter", "shovel", self._name)
        for node, queue in ((self.source, self.origin), (self.destination, self.target)):
            with node.connect() as connection:
                connection.channel().queue_delete(queue)

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

    def wait_until_it_stops(self, why=""):
        self.wait_for_state("terminated", why)

    def wait_until_it_is_held(self):
        self.wait_for_state("blocked")

    def check_that_it_was_never_lost(self, confirmed):
        super().check_that_it_was_never_lost(confirmed)
        assert self.starts == 1

    @property
    def starts(self):
        """How often messages began to move, in this run of its node."""
        return self.near.log.count(f"shovel '{self._name}' in vhost '/' moves messages from")

    def take(self):
        """Take the messages that have arrived; returns their number so far."""
        self.taken += bodies(self.destination, self.target)
        return len(self.taken)
