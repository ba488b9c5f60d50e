"""Classic queues of three real nodes become quorum queues while clients use them.

The nodes are started once for all tests. Each test has queues of its own, and leaves all running.
"""

import asyncio
import itertools
import json
import signal
import threading
from collections import Counter

import aio_pika
import pika
import pytest

from tests.cluster.clients import PERSISTENT, bodies, publish, take
from tests.cluster.clustered_nodes import ClusteredNode, form
from tests.patience import until

TO_QUORUM, TO_CLASSIC = ("--to", "quorum"), ("--to", "classic")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    nodes = form(tmp_path_factory.mktemp("converted"), "a", "b", "c")
    yield nodes
    for node in nodes:
        node.stop()


def declare(node, queue, durable=True, **arguments):
    with node.connect() as connection:
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        connection.channel().queue_declare(queue, durable=durable, arguments=table)


def types(node):
    """The types of all queues, by name."""
    return {one["name"]: one["type"] for one in node.ctl_json("list_queues", "name", "type")}


def mirrors_of(node, queue):
    """How many mirrors a queue has."""
    queues = node.ctl_json("list_queues", "name", "synchronised_slave_pids")
    (pids,) = [one["synchronised_slave_pids"] for one in queues if one["name"] == queue]
    return len(pids)


def test_messages_bindings_and_policies_stay(cluster):
    a, b, c = cluster
    declare(a, "bound", x_max_length=100)
    with a.connect() as connection:
        connection.channel().queue_bind("bound", "amq.topic", "key")
    b.ctl("set_policy", "short", "^bound$", '{"max-length": 4}', "--apply-to", "queues")
    publish(b, "bound", b"1", b"2", b"3")
    held = c.connect().channel()
    method, _, body = held.basic_get("bound")
    assert body == b"1"
    b.ctl("convert_queue", "bound", *TO_QUORUM)
    assert types(c)["bound"] == "quorum"
    held.basic_nack(method.delivery_tag, requeue=True)
    held.connection.close()
    with c.connect() as connection:
        connection.channel().basic_publish("amq.topic", "key", b"4")
    publish(a, "bound", b"5")
    for node in cluster:
        node.stop(signal.SIGKILL)
    for node in cluster:
        node.start(waits=False)
    for node in cluster:
        node.wait_for_log(" ready in")
    assert sorted(bodies(c, "bound")) == [b"1", b"3", b"4", b"5"]
    b.ctl("clear_policy", "short")
    with b.connect() as connection:
        connection.channel().queue_delete("bound")


def test_many_are_converted_and_the_others_are_listed(cluster, tmp_path):
    a, b, _ = cluster
    declare(a, "many-1")
    declare(b, "many-2")
    declare(a, "many-3", durable=False, x_max_priority=5, x_queue_mode="lazy")
    publish(a, "many-1", b"1")
    publish(a, "many-2", b"2")
    said = a.ctl("convert_queues", "--pattern", "^many-", *TO_QUORUM, succeeds=False)
    assert "1 of 3: many-1: converted\n2 of 3: many-2: converted\n3 of 3: many-3: " in said
    assert (
        "queue 'many-3' in vhost '/' cannot be converted: it is not durable; quorum queues have no "
        "argument x-max-priority; quorum queues have no argument x-queue-mode; what it was "
        "declared with cannot be changed: declare another queue"
    ) in said
    assert "1 of 3 queues were not converted" in said
    assert "it is a quorum queue" in b.ctl("convert_queue", "many-1", *TO_QUORUM, succeeds=False)
    said = b.ctl("convert_queues", "--pattern", "^many-[12]", *TO_QUORUM)
    assert "no queue to convert: none of another type than quorum has a name that matches" in said
    classic = {"x-queue-type": "classic"}
    queues = [
        {"vhost": "/", "name": name, "durable": True, "auto_delete": False, "arguments": classic}
        for name in ("many-2", "many-4")
    ]
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps({"queues": queues}))
    assert "1 of 1: many-2: converted" in b.ctl("import_definitions", path, "--convert")
    assert types(b) == {
        "many-1": "quorum", "many-2": "classic", "many-3": "classic", "many-4": "classic"
    }  # fmt: skip
    assert (bodies(b, "many-1"), bodies(a, "many-2")) == ([b"1"], [b"2"])
    with b.connect() as connection:
        for number in (1, 2, 3, 4):
            connection.channel().queue_delete(f"many-{number}")


def test_a_home_node_that_dies_meanwhile_has_all_messages(cluster):
    a, b, c = cluster
    declare(a, "killed")
    published = [b"%d" % number for number in range(3000)]
    with b.connect() as connection:
        channel = connection.channel()
        channel.tx_select()
        for body in published:
            channel.basic_publish("", "killed", body, PERSISTENT)
        channel.tx_commit()
    converting = threading.Thread(target=lambda: a._run_ctl("convert_queue", "killed", *TO_QUORUM))
    converting.start()
    a.wait_for_log("is held to become a quorum queue")
    a.stop(signal.SIGKILL)
    converting.join()
    a.start()
    b.wait_until(lambda: list(types(b)) == ["killed"], "its successor is removed")
    with c.connect() as connection:
        assert [body for body, _ in take(connection.channel(), "killed", 3000)] == published
        connection.channel().queue_delete("killed")


def test_a_long_queue_whose_messages_expire_is_copied_while_it_is_used(cluster):
    a, b, c = cluster
    declare(a, "expiring", x_message_ttl=3_600_000)
    published = [b"%d" % number for number in range(20_500)]
    with b.connect() as connection:
        channel = connection.channel()
        channel.tx_select()
        for body in published:
            channel.basic_publish("", "expiring", body, PERSISTENT)
        channel.tx_commit()
    a.ctl("convert_queue", "expiring", *TO_QUORUM)
    with c.connect() as connection:
        assert [body for body, _ in take(connection.channel(), "expiring", 50)] == published[:50]
    leader = a.ctl_json("list_queues", "name", "leader")[0]["leader"]
    (node,) = [node for node in cluster if node.name == leader]
    said = node.ctl("convert_queue", "expiring", *TO_CLASSIC, succeeds=False)
    assert "it has 20450 messages with" in said
    assert "all those of a quorum queue in which some expire or have priorities" in said
    with b.connect() as connection:
        assert connection.channel().queue_delete("expiring").method.message_count == 20_450


def test_messages_with_priorities_are_delivered_by_them_from_then_on(tmp_path):
    settings = tmp_path / "leveret.conf"
    settings.write_text("compat = 4.x\n")
    node = ClusteredNode(tmp_path, "a", "--config", settings)
    try:
        declare(node, "ranked")
        bodies_of = {9: [], None: [], 1: []}
        with node.connect() as connection:
            channel = connection.channel()
            channel.tx_select()
            for number in range(2400):
                priority, body = (1, None, 9)[number % 3], b"%d" % number
                bodies_of[priority].append(body)
                properties = pika.BasicProperties(delivery_mode=2, priority=priority)
                channel.basic_publish("", "ranked", body, properties)
            channel.tx_commit()
            held, _, body = channel.basic_get("ranked")
            assert body == bodies_of[1].pop(0)
            node.ctl("convert_queue", "ranked", *TO_QUORUM)
            channel.basic_ack(held.delivery_tag)
            channel.tx_commit()
            found = [body for body, _ in take(connection.channel(), "ranked", 2399)]
        assert found == bodies_of[9] + bodies_of[None] + bodies_of[1]
    finally:
        node.stop()


class Listening:
    """Consumes through a node in a thread of its own. bodies: what it has got."""

    def __init__(self, node, queue, **arguments):
        self._connection = node.connect()
        self.bodies = []
        channel = self._connection.channel()
        channel.basic_qos(prefetch_count=10)
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        channel.basic_consume(queue, self._received, arguments=table)
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _received(self, channel, method, properties, body):
        self.bodies.append(body)
        channel.basic_ack(method.delivery_tag)

    def _run(self):
        while not self._is_over:
            self._connection.process_data_events(0.05)
        self._connection.close()

    def stop(self):
        self._is_over = True
        self._thread.join()


@pytest.mark.parametrize(("before", "after"), [("classic", "quorum"), ("quorum", "classic")])
@pytest.mark.parametrize(
    ("declared", "rank"), [({"x_single_active_consumer": True}, {}), ({}, {"x_priority": 5})]
)
def test_the_first_of_the_consumers_stays_the_first(cluster, before, after, declared, rank):
    a, b, c = cluster
    declare(a, "ranked", x_queue_type=before, **declared)
    first = Listening(b, "ranked", **rank)
    others = [Listening(node, "ranked") for node in (a, c)]
    publish(c, "ranked", b"1")
    a.ctl("convert_queue", "ranked", "--to", after)
    assert types(c)["ranked"] == after
    a.wait_until(
        lambda: a.ctl("list_queues", "name", "consumers").split()[-2:] == ["ranked", "3"],
        "all consumers are there",
    )
    publish(a, "ranked", b"2", b"3")
    b.wait_until(lambda: len(first.bodies) == 3, "the first one has all messages")
    for one in (first, *others):
        one.stop()
    assert [one.bodies for one in others] == [[], []]
    with a.connect() as connection:
        connection.channel().queue_delete("ranked")


class Publishing:
    """Publishes numbers through one node, and has them confirmed, until a test ends it."""

    def __init__(self, node, queue, name):
        self._node, self._queue, self._name = node, queue, name
        self.published = []
        self.is_over = False

    async def run(self):
        async with await connected(self._node) as connection:
            channel = await connection.channel()
            open_ = set()
            for number in itertools.count():
                if self.is_over:
                    break
                body = b"%s %d" % (self._name, number)
                self.published.append(body)
                message = aio_pika.Message(body, delivery_mode=2)
                confirmed = channel.default_exchange.publish(message, self._queue)
                open_.add(asyncio.ensure_future(confirmed))
                if len(open_) == 50:
                    done, open_ = await asyncio.wait(open_, return_when=asyncio.FIRST_COMPLETED)
                    for one in done:
                        one.result()
            await asyncio.gather(*open_)


class Consuming:
    """Consumes through one node, and settles with no regard to the order.

    first, again: the bodies of deliveries, and of redeliveries. acked, returned: what became of
    them. keeps: it settles nothing meanwhile.
    """

    def __init__(self, node, queue, prefetch):
        self._node, self._queue, self._prefetch = node, queue, prefetch
        self.first, self.again, self.acked, self.returned = [], [], [], []
        self.held = []
        self.keeps = self.is_over = False

    async def run(self):
        async with await connected(self._node) as connection:
            channel = await connection.channel()
            await channel.set_qos(self._prefetch)
            queue = await channel.get_queue(self._queue, ensure=False)
            await queue.consume(self._received)
            while not self.is_over:
                while self.held and not self.keeps:
                    await self._settle(self.held.pop())
                await asyncio.sleep(0.001)

    async def _received(self, message):
        (self.again if message.redelivered else self.first).append(message.body)
        self.held.append(message)

    async def _settle(self, message):
        if message.body.endswith(b"77") and not message.redelivered:
            self.returned.append(message.body)
            await message.nack(requeue=True)
        else:
            self.acked.append(message.body)
            await message.ack()


async def connected(node):
    return await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{node.port}/")


@pytest.mark.parametrize(
    ("before", "after", "mirrors"),
    [("classic", "quorum", 0), ("classic", "quorum", 2), ("quorum", "classic", 0)],
)
def test_nothing_is_lost_doubled_or_reordered_under_traffic(cluster, before, after, mirrors):
    a, b, c = cluster
    policy = {"ha-mode": "exactly", "ha-params": 1 + mirrors}
    a.ctl("set_policy", "mirrors", "^busy$", json.dumps(policy))
    declare(a, "busy", x_queue_type=before)
    a.wait_until(lambda: mirrors_of(a, "busy") == mirrors, "all mirrors are there")
    publishing = [Publishing(node, "busy", b"%d" % number) for number, node in enumerate(cluster)]
    consuming = [
        Consuming(node, "busy", prefetch)
        for node, prefetch in zip(cluster, (1, 20, 100), strict=True)
    ]
    asyncio.run(use_while_converted(cluster[0], "busy", after, publishing, consuming))
    published = sorted(body for one in publishing for body in one.published)
    assert sorted(body for one in consuming for body in one.acked) == published
    # One that was returned right before the conversion does not come as redelivered.
    returned = Counter(body for one in consuming for body in one.returned)
    came = Counter(body for one in consuming for body in (*one.first, *one.again))
    assert came == Counter(published) + returned, "each comes once, and after each return"
    for one in consuming:
        for number in range(3):
            numbers = [
                int(body[2:]) for body in one.first
                if body.startswith(b"%d" % number) and body not in returned
            ]  # fmt: skip
            assert numbers == sorted(numbers)
    assert types(c)["busy"] == after
    b.ctl("clear_policy", "mirrors")
    with b.connect() as connection:
        connection.channel().queue_delete("busy")


async def use_while_converted(node, queue, after, publishing, consuming):
    """Publish and consume before, during and after the conversion."""
    tasks = [asyncio.ensure_future(one.run()) for one in (*publishing, *consuming)]
    await until(lambda: all(len(one.acked) > 30 for one in consuming))
    # Consumers of the home node and of another one hold messages during the conversion.
    for one in consuming[:2]:
        one.keeps = True
    await until(lambda: len(consuming[1].held) == 20)
    await asyncio.to_thread(node.ctl, "convert_queue", queue, "--to", after)
    counts = [len(one.published) for one in publishing]
    await until(
        lambda: all(
            len(one.published) > count + 100 for one, count in zip(publishing, counts, strict=True)
        )
    )
    for one in consuming:
        one.keeps = False
    for one in publishing:
        one.is_over = True
    await asyncio.gather(*tasks[: len(publishing)])
    count = sum(len(one.published) for one in publishing)
    await until(lambda: sum(len(one.acked) for one in consuming) >= count)
    for one in consuming:
        one.is_over = True
    await asyncio.gather(*tasks)
