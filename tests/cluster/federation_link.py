"""A federation link between brokers on hosts of their own: of an exchange, or of a queue."""

from itertools import count

from tests.cluster.consuming import Consuming
from tests.cluster.hosted_nodes import api
from tests.cluster.linked_hosts import LEVERET, RABBITMQ, Link
from tests.cluster.publisher import ConfirmedPublisher
from tests.cluster.rabbitmq_host import RabbitMqHost

PREFETCH = 50
OPTIONS = "heartbeat=1&connection_timeout=5000"
"""A link that is cut is found out soon; a broker that has just started may answer later."""
EXCHANGE, QUEUE = "exchange", "queue"
FROM_LEVERET, FROM_RABBITMQ, TO_RABBITMQ = "from Leveret", "from RabbitMQ", "RabbitMQ from Leveret"
NUMBERS = count(1)


def ends(hosts, pair):
    """The broker that has the link, and its upstream."""
    far = hosts.far_broker(LEVERET if pair == FROM_LEVERET else RABBITMQ)
    return (far, hosts.near) if pair == TO_RABBITMQ else (hosts.near, far)


class FederationLink(Link):
    """The link of one exchange or queue, which a client consumes at this end all the time.

    near: the broker that has the link. far: its upstream, where messages are published.
    """

    def __init__(self, hosts, pair, kind):
        near, far = ends(hosts, pair)
        super().__init__(hosts.network, near, far)
        self.destination = near
        self._kind = kind
        self._name = f"federated-{next(NUMBERS)}"
        self._upstream = f"parameters/federation-upstream/%2F/{self._name}"
        self._policy = f"policies/%2F/{self._name}"
        self._priorities = count(1)
        self.queue = f"to-{self._name}" if kind == EXCHANGE else self._name
        for broker in (near, far):
            self._declare(broker)
        self.bind("k")
        self._connected_before = self._connections
        self._consuming = Consuming(near, self.queue)
        self._consuming.start()
        self.taken = self._consuming.bodies

    def _declare(self, broker):
        with broker.connect() as connection:
            channel = connection.channel()
            if self._kind == EXCHANGE:
                channel.exchange_declare(self._name, "topic", durable=True)
            if self._kind == QUEUE or broker is self.near:
                channel.queue_declare(self.queue, durable=True)

    def bind(self, key):
        """Have messages with this key come, if the link is that of an exchange."""
        if self._kind == EXCHANGE:
            with self.near.connect() as connection:
                connection.channel().queue_bind(self.queue, self._name, key)

    def start(self, options=OPTIONS):
        """Set upstream and policy. Each time the policy is another one, by its priority: RabbitMQ
        applies no policy that it has already.
        """
        value = {"uri": self.far_uri(options), "reconnect-delay": 1, "prefetch-count": PREFETCH}
        api(self.near, self._upstream, "PUT", {"value": value})
        policy = {
            "pattern": f"^{self._name}$", "apply-to": f"{self._kind}s",
            "definition": {"federation-upstream": self._name}, "priority": next(self._priorities),
        }  # fmt: skip
        api(self.near, self._policy, "PUT", policy)

    def start_broker_again(self):
        """Restart the broker of the link, which was killed.

        RabbitMQ may have lost the latest settings: the policy, or only its application to the
        exchange or queue. Then it has no link. Where it has one, another policy would end it, and
        delete the upstream's queue with the messages that have not arrived yet.
        """
        self.near.start()
        if isinstance(self.near, RabbitMqHost) and self._policy_in_effect() != self._name:
            self.start()

    def _policy_in_effect(self):
        name = self._name if self._kind == EXCHANGE else self.queue
        return api(self.near, f"{self._kind}s/%2F/{name}").get("policy")

    def publishing(self, key="k"):
        """A client that publishes to the upstream all the time."""
        if self._kind == EXCHANGE:
            return ConfirmedPublisher(self.far, key, self._name)
        return ConfirmedPublisher(self.far, self._name)

    def close(self):
        self._network.heal()
        self._consuming.stop()
        api(self.near, self._policy, "DELETE")
        api(self.near, self._upstream, "DELETE")
        for broker in (self.near, self.far):
            with broker.connect() as connection:
                channel = connection.channel()
                channel.queue_delete(self.queue)
                if self._kind == EXCHANGE:
                    channel.exchange_delete(self._name)

    # What is seen of it

    def take(self):
        """Take the messages that have arrived; returns their number."""
        return len(self.taken)

    def wait_until_it_stops(self, why=""):
        """Wait until the link has failed, as its log or RabbitMQ's status says."""
        self.near.wait_until(lambda: self._has_stopped(why), f"the link stops: {why}")

    def _has_stopped(self, why):
        if isinstance(self.near, RabbitMqHost):
            links = api(self.near, "federation-links")
            mine = [one for one in links if one.get(self._kind) == self._name]
            return "running" not in [one["status"] for one in mine]
        return any("has stopped" in line and why in line for line in self._log_lines())

    @property
    def _connections(self):
        """How many connections of clients and links the node of the link has had in this run."""
        return api(self.near, "overview")["churn_rates"].get("connection_created", 0)

    def check_what_is_doubled(self):
        """Only messages that were on their way when the link was lost may come twice.

        A link that is lost while it makes its bindings has moved messages, and logs nothing that
        tells it from one that never connected. So its connections are counted. One of them is the
        consumer's, and the link may still have the last one. RabbitMQ's counts are late.
        """
        if not isinstance(self.near, RabbitMqHost):
            lost = self._connections - self._connected_before - 2
            assert len(self.doubled) <= PREFETCH * lost

    def _log_lines(self):
        begins = f"federation link of {self._kind} '{self._name}' in vhost '/'"
        return [line for line in self.near.log.splitlines() if begins in line]
