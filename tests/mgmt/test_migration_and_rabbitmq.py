"""`leveretctl migrate` from RabbitMQ under load, and back, with clients of both sides.

BENCH_RABBITMQ_ROOT names the root of another system whose RabbitMQ is tested, too.
"""

import threading
import time
from collections import Counter
from urllib.parse import quote

import pika
import pytest

from leveret.mgmt.ctl.migrating.brokers import MigrationBroker
from tests.bench.other_rabbitmq import root_of_other
from tests.interop import INTEROP
from tests.mgmt.ctl_command import Ctl
from tests.mgmt.rabbitmq_node import rabbitmq_node
from tests.mgmt.served_node import ServedNode
from tests.patience import PATIENCE_SECONDS

pytestmark = INTEROP
ROOTS = [None, *([root_of_other()] if root_of_other() else [])]
QUEUES = {"orders": "classic", "bills": "quorum"}
REDELIVERED = "x-source-redelivered"
SHOWN = 30
"""More than a consumer may have without acknowledging them."""


@pytest.fixture(scope="module", params=ROOTS, ids=["installed", "other"][: len(ROOTS)])
def rabbit(request):
    with rabbitmq_node(root=request.param) as broker:
        yield broker


@pytest.fixture(scope="module")
def leveret(tmp_path_factory):
    served = ServedNode(tmp_path_factory.mktemp("leveret"))
    yield served
    served.stop()


@pytest.fixture(autouse=True)
def password(monkeypatch):
    monkeypatch.setenv("LEVERET_MIGRATION_PASSWORD", "guest")


class Program:
    """A client in a thread, which uses one broker until it is moved to another one."""

    def __init__(self, broker):
        self._broker = broker
        self._is_ended = threading.Event()
        self._has_moved = threading.Event()
        self._failures = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def move(self, broker):
        self._broker = broker
        self._has_moved.set()

    def end(self):
        self._is_ended.set()
        self._thread.join()
        assert not self._failures, self._failures

    def _run(self):
        try:
            while not self._is_ended.is_set():
                self._has_moved.clear()
                parameters = pika.ConnectionParameters(
                    "127.0.0.1", self._broker.port, heartbeat=0,
                    socket_timeout=PATIENCE_SECONDS, stack_timeout=PATIENCE_SECONDS,
                )  # fmt: skip
                with pika.BlockingConnection(parameters) as connection:
                    self.use(connection.channel(), self.is_to_leave)
        except Exception as error:
            self._failures.append(repr(error))

    def is_to_leave(self):
        return self._is_ended.is_set() or self._has_moved.is_set()

    def use(self, channel, is_to_leave):
        raise NotImplementedError


class Producer(Program):
    """Publishes numbers to a queue; confirmed: those that were."""

    def __init__(self, broker, queue):
        self.queue, self.confirmed = queue, []
        super().__init__(broker)

    def use(self, channel, is_to_leave):
        channel.confirm_delivery()
        while not is_to_leave():
            body = b"%d" % len(self.confirmed)
            properties = pika.BasicProperties(delivery_mode=2)
            channel.basic_publish("", self.queue, body, properties, mandatory=True)
            self.confirmed.append(body)
            time.sleep(0.001)


class Consumer(Program):
    """came: bodies, and whether each was marked as one that may have come before."""

    def __init__(self, broker, queue):
        self.queue, self.came = queue, []
        super().__init__(broker)

    def use(self, channel, is_to_leave):
        channel.basic_qos(prefetch_count=20)
        for method, properties, body in channel.consume(self.queue, inactivity_timeout=0.1):
            if method is not None:
                is_marked = method.redelivered or REDELIVERED in (properties.headers or {})
                self.came.append((body, is_marked))
                channel.basic_ack(method.delivery_tag)
            if is_to_leave():
                channel.cancel()
                return


def address(node):
    return (
        f"amqp://guest@127.0.0.1:{node.port}",
        "--management",
        f"http://127.0.0.1:{node.http_port}",
    )


def declare(node, name, kind):
    body = {"durable": True, "arguments": {"x-queue-type": kind}}
    assert node.put(f"queues/%2F/{name}", body).status in (201, 204)


def follow(ctl, node, condition, what, command="migrate"):
    """Carry the migration, or its roll-back, on until a condition is met."""

    def is_so():
        ctl(command, "--no-wait")
        return condition()

    node.wait_until(is_so, what)


def move(moving, broker, programs, ctl, node, command="migrate"):
    """Move programs to a broker, and wait until what is published then comes to all consumers.

    A few messages of each queue show that. More take minutes on a busy machine.
    """
    for one in moving:
        one.move(broker)
    producers, consumers = programs
    wanted = [len(one.confirmed) + SHOWN for one in producers]

    def have_come():
        return all(
            len(producer.confirmed) >= count
            and set(producer.confirmed[:count]) <= {body for body, _ in consumer.came}
            for producer, consumer, count in zip(producers, consumers, wanted, strict=True)
        )

    follow(ctl, node, have_come, "messages reach the consumers", command)


def have_all(consumers, producers):
    """Whether all that was confirmed has come."""
    return all(
        set(producer.confirmed) <= {body for body, _ in consumer.came}
        for producer, consumer in zip(producers, consumers, strict=True)
    )


def check(producer, consumer):
    """Nothing that was confirmed is lost, and what came twice is marked."""
    came = Counter(body for body, _ in consumer.came)
    assert set(producer.confirmed) <= came.keys()
    marked = Counter(body for body, is_marked in consumer.came if is_marked)
    assert all(marked[body] >= number - 1 for body, number in came.items() if number > 1)


def check_ended(node, producers, consumers):
    """End the consumers; nothing is lost, and no link is left."""
    for producer, consumer in zip(producers, consumers, strict=True):
        consumer.end()
        check(producer, consumer)
    assert [one for one in node.get("shovels") if one["name"].startswith("migration")] == []


def cut_a_link(node):
    """Close the connections of links at a broker."""
    for one in node.get("connections"):
        if one["client_properties"].get("connection_name", "").startswith("Shovel migration"):
            node.delete(f"connections/{quote(one['name'], safe='')}")


@pytest.mark.parametrize("order", ["consumers first", "producers first"])
@pytest.mark.parametrize("way", ["in", "back"])
def test_programs_move_under_load(rabbit, leveret, way, order):
    ctl = Ctl(leveret)
    source, target = (rabbit, leveret) if way == "in" else (leveret, rabbit)
    back = ("--back",) if way == "back" else ()
    for name, kind in QUEUES.items():
        declare(source, name, kind)
    producers = [Producer(source, name) for name in QUEUES]
    consumers = [Consumer(source, name) for name in QUEUES]
    ctl("migrate", *back, *address(rabbit), "--yes", "--no-wait")
    first, second = (producers, consumers)[:: -1 if order == "consumers first" else 1]
    for movers in (first, second):
        move(movers, target, (producers, consumers), ctl, leveret)
        cut_a_link(rabbit)
    for one in producers:
        one.end()
    follow(ctl, leveret, lambda: have_all(consumers, producers), "all have come")
    ctl("finish_migration")
    check_ended(leveret, producers, consumers)


def break_off_the_import(ctl, patched, *arguments):
    """Begin a migration, and press Ctrl-C when the target has the definitions."""
    ask = MigrationBroker.ask

    def asked(self, method, *path, **given):
        answer = ask(self, method, *path, **given)
        if (method, path) == ("POST", ("definitions",)) and not given.get("query"):
            raise KeyboardInterrupt
        return answer

    with patched.context() as during:
        during.setattr(MigrationBroker, "ask", asked)
        code, said = ctl.fails("migrate", *arguments, "--yes")
    assert (code, "at the step 'importing'" in said) == (130, True)


STEPS = {
    "importing": "", "linked": "", "consumers moved": "consumers", "producers moved": "producers",
    "all moved": "producers consumers", "finishing": "consumers",
}  # fmt: skip
"""The steps at which a migration is rolled back, and which programs have moved."""


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("way", ["in", "back"])
def test_a_roll_back_under_load(rabbit, leveret, monkeypatch, way, step):
    ctl = Ctl(leveret)
    source, target = (rabbit, leveret) if way == "in" else (leveret, rabbit)
    arguments = (*(("--back",) if way == "back" else ()), *address(rabbit))
    for name, kind in QUEUES.items():
        declare(source, name, kind)
    programs = {
        "producers": [Producer(source, name) for name in QUEUES],
        "consumers": [Consumer(source, name) for name in QUEUES],
    }
    producers, consumers = programs.values()

    moving = [one for kind in STEPS[step].split() for one in programs[kind]]
    if step == "importing":
        break_off_the_import(ctl, monkeypatch, *arguments)
    else:
        ctl("migrate", *arguments, "--yes", "--no-wait")
        move(moving, target, (producers, consumers), ctl, leveret)
    if step == "finishing":
        ctl.fails("finish_migration")
    cut_a_link(rabbit)
    move(moving, source, (producers, consumers), ctl, leveret, "roll_back_migration")
    for one in producers:
        one.end()
    back = "roll_back_migration"
    follow(ctl, leveret, lambda: have_all(consumers, producers), "all have come", back)
    assert "The migration is rolled back" in ctl(back)
    check_ended(leveret, producers, consumers)


def test_a_stream_is_copied_and_its_offsets_are_kept_as_a_header(rabbit, leveret):
    if rabbit.get("overview")["rabbitmq_version"].startswith("3.8."):
        pytest.skip("RabbitMQ 3.8 has no streams")
    declare(rabbit, "log", "stream")
    parameters = pika.ConnectionParameters("127.0.0.1", rabbit.port, heartbeat=0)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(100):
            channel.basic_publish("", "log", b"%d" % number)
    ctl = Ctl(leveret)
    ctl("migrate", *address(rabbit), "--yes", "--no-wait")
    leveret.wait_until(
        lambda: leveret.get("queues/%2F/log").get("messages") == 100, "the stream is copied"
    )
    there = pika.ConnectionParameters("127.0.0.1", leveret.port, heartbeat=0)
    with pika.BlockingConnection(there) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=100)
        arguments = {"x-stream-offset": "first"}
        came = []
        for method, properties, body in channel.consume("log", arguments=arguments):
            came.append((body, properties.headers["x-source-offset"]))
            channel.basic_ack(method.delivery_tag)
            if len(came) == 100:
                break
        channel.cancel()
    assert came == [(b"%d" % number, number) for number in range(100)]
    ctl("finish_migration")
