"""A node is killed or loses its links at each step of a conversion, while clients publish.

Afterwards the queue is of one of the two types on all nodes, and has each confirmed message once,
in order: a quorum queue those of each priority, since messages may have been returned to its front.
The nodes are started once for all tests. The first one coordinates the cluster: one that was killed
is last afterwards.
"""

import logging
import threading

import pytest
from pika import BasicProperties, exceptions

from tests.cluster.clients import PERSISTENT, take
from tests.cluster.clustered_nodes import ClusteredNode, form
from tests.cluster.ending_at_a_step import (
    AFTER_DECISION,
    AT_STEP,
    BEFORE_DECISION,
    MEMBER_STEPS,
)

PACE_SECONDS = 0.005
FIRST = [b"%d" % number for number in range(30)]
EXPIRING = BasicProperties(delivery_mode=2, expiration="3600000", priority=1)


class EndingNode(ClusteredNode):
    """A node that ends at a step, and pauses if it is cut off: it does not continue alone."""

    program = "leveret-ending-at-a-step"
    partition_handling = "pause_minority"

    def __init__(self, directory, name):
        settings = directory / "leveret.conf"
        settings.write_text(
            f"cluster_partition_handling = {self.partition_handling}\ncompat = 4.x\n"
        )
        super().__init__(directory, name, "--config", settings)

    def will(self, action, step):
        """Do this at the next such step."""
        (self.data_dir / AT_STEP).write_text(f"{action} {step}")

    @property
    def has_done_so(self):
        return not (self.data_dir / AT_STEP).exists()


class IgnoringNode(EndingNode):
    """A node that continues alone if it is cut off, until it starts again."""

    partition_handling = "ignore"


@pytest.fixture(autouse=True)
def quiet_client(caplog):
    """Pika logs each message that is returned."""
    caplog.set_level(logging.CRITICAL, "pika")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    nodes = form(tmp_path_factory.mktemp("ended"), "a", "b", "c", kind=EndingNode)
    yield nodes
    for node in nodes:
        node.stop()


class Publishing(threading.Thread):
    """Publishes numbers through a node, one after the other, until a test ends it.

    confirmed: those that are. in_doubt: those that may be in the queue or not.
    """

    def __init__(self, node, queue):
        super().__init__()
        self._node, self._queue = node, queue
        self.confirmed, self.in_doubt = [], []
        self.is_over = threading.Event()

    def run(self):
        with self._node.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            number = len(FIRST)
            while not self.is_over.wait(PACE_SECONDS):
                body = b"%d" % number
                number += 1
                try:
                    channel.basic_publish("", self._queue, body, PERSISTENT, mandatory=True)
                except exceptions.UnroutableError:
                    # The queue's node is down.
                    continue
                except exceptions.NackError:
                    self.in_doubt.append(body)
                else:
                    self.confirmed.append(body)


def queue_types(node):
    return {one["name"]: one["type"] for one in node.ctl_json("list_queues", "name", "type")}


class Case:
    """A queue that is converted, and what has to be in it."""

    def __init__(self, cluster, ending, action, step, before, home=0):
        """ending: the node to which it happens. before: the type of the queue.

        home: the place of the queue's node.
        """
        self.cluster, self.ending, self.action, self.step = cluster, ending, action, step
        self.home, self.witness = cluster[home], cluster[2]
        self.before = before
        self.after = "classic" if before == "quorum" else "quorum"
        self.name = f"{action}-{step}-{before}"
        with self.home.connect() as connection:
            channel = connection.channel()
            channel.queue_declare(self.name, durable=True, arguments={"x-queue-type": before})
            channel.confirm_delivery()
            for body in FIRST:
                channel.basic_publish("", self.name, body, EXPIRING)

    def run(self):
        """Convert it, and return its type when all nodes run again."""
        self.publishing = Publishing(self.witness, self.name)
        with self.witness.connect() as connection:
            holding = connection.channel()
            tag = holding.basic_get(self.name)[0].delivery_tag
            self.publishing.start()
            self.ending.will(self.action, self.step)
            converting = threading.Thread(
                target=lambda: self.home._run_ctl("convert_queue", self.name, "--to", self.after)
            )
            converting.start()
            self.ending.wait_until(lambda: self.ending.has_done_so, "the step is reached")
            if self.action == "kill":
                self.ending.wait_for_end()
                self.ending._log.close()
                self._start_again()
            converting.join()
            if self.action == "isolate":
                self.witness.wait_until(
                    self._is_divided, "both sides continue with a queue of one type"
                )
                self.ending.stop()
                self._start_again()
            for node in self.cluster:
                node.wait_until(lambda node=node: self._is_shown_alone(node), "all agree")
            holding.basic_ack(tag)
        self.publishing.is_over.set()
        self.publishing.join()
        return queue_types(self.witness)[self.name]

    def _start_again(self):
        """The node that has ended is the last one of the cluster from now on."""
        self.ending.start()
        self.cluster.remove(self.ending)
        self.cluster.append(self.ending)

    def _is_divided(self):
        running = self.witness.ctl_json("cluster_status")["running_nodes"]
        types = [queue_types(node)[self.name] for node in (self.ending, self.witness)]
        return self.ending.name not in running and len(set(types)) == 1

    def _is_shown_alone(self, node):
        names = [one.name for one in self.cluster]
        try:
            running = node.ctl_json("cluster_status")["running_nodes"]
            types = queue_types(node)
        except AssertionError:
            return False  # It pauses.
        return (
            sorted(running) == sorted(names)
            and list(types) == [self.name]
            and types == (queue_types(self.witness))
        )

    def check(self):
        """What is in the queue, and delete it."""
        confirmed, in_doubt = self.publishing.confirmed, self.publishing.in_doubt
        kind = queue_types(self.witness)[self.name]
        with self.witness.connect() as connection:
            channel = connection.channel()
            count = channel.queue_declare(self.name, passive=True).method.message_count
            found = [body for body, _ in take(channel, self.name, count)]
            channel.queue_delete(self.name)
        left = [body for body in found if body not in (FIRST[0], *in_doubt)]
        if kind == "quorum":
            left.sort(key=lambda body: body not in FIRST)
        assert left == FIRST[1:] + confirmed
        assert len(set(found)) == len(found), "none is there twice"


@pytest.fixture(params=["classic", "quorum"])
def before(request):
    """The type of the queue before its conversion."""
    return request.param


@pytest.mark.parametrize("step", BEFORE_DECISION)
def test_the_home_node_is_killed_before_it_decides(cluster, before, step):
    case = Case(cluster, cluster[0], "kill", step, before)
    assert case.run() == before
    case.check()


@pytest.mark.parametrize("step", ["declared", "held"])
def test_the_leader_of_a_mirrored_queue_is_killed_before_it_decides(cluster, step):
    """A mirror leads, if there is one, and its node deletes the successor."""
    mirrors = '{"ha-mode": "all", "ha-sync-mode": "automatic"}'
    cluster[0].ctl("set_policy", "mirrors", "^kill-", mirrors)
    case = Case(cluster, cluster[0], "kill", step, "classic")
    assert case.run() == "classic"
    cluster[0].ctl("clear_policy", "mirrors")
    case.check()


@pytest.mark.parametrize("home", [0, 1])
def test_the_home_node_is_killed_as_it_decides(cluster, before, home):
    case = Case(cluster, cluster[home], "kill", "deciding", before, home)
    case.run()
    case.check()


@pytest.mark.parametrize(
    ("home", "step"), [*((0, step) for step in AFTER_DECISION), (1, "replaced")]
)
def test_the_home_node_is_killed_after_it_has_decided(cluster, before, home, step):
    case = Case(cluster, cluster[home], "kill", step, before, home)
    assert case.run() == case.after
    case.check()


@pytest.mark.parametrize("step", MEMBER_STEPS)
def test_another_node_is_killed(cluster, before, step):
    case = Case(cluster, cluster[1], "kill", step, before)
    assert case.run() == (case.after if step == "follows" else before)
    case.check()


@pytest.mark.parametrize(("number", "step"), [(0, "copied"), (1, "holds")])
def test_a_node_loses_its_links(cluster, before, number, step):
    case = Case(cluster, cluster[number], "cut", step, before)
    assert case.run() == before
    case.check()


@pytest.fixture(scope="module")
def divided(tmp_path_factory):
    """A cluster whose nodes do not heal a partition by themselves."""
    nodes = form(tmp_path_factory.mktemp("divided"), "a", "b", "c", kind=IgnoringNode)
    yield nodes
    for node in nodes:
        node.stop()


@pytest.mark.parametrize("step", ["deciding", "decided"])
def test_the_home_node_is_cut_off_and_continues_alone(divided, before, step):
    """It decides alone, which is given up; or the others decide, too."""
    case = Case(divided, divided[0], "isolate", step, before)
    assert case.run() == (case.after if step == "decided" else before)
    case.check()
