"""`leveret replay --measure`: the wait of each message, measured by a real node's firehose."""

import asyncio
import re

import aio_pika
import pytest

from leveret.mgmt.replay.original import Original
from leveret.mgmt.replay.replay_command import main
from leveret.mgmt.replay.wait_times import WaitTimes
from tests.analytics.trace_log import FIRST, SECOND, TraceLog
from tests.mgmt.served_node import ServedNode

DELAY_MS, MESSAGES = 40, 8


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    served = ServedNode(tmp_path_factory.mktemp("node"))
    served.put("vhosts/traced", {"tracing": True})
    yield served
    served.stop()


@pytest.fixture
def uri(node):
    return f"amqp://guest:guest@127.0.0.1:{node.port}/traced"


@pytest.fixture
def replayed(tmp_path, capsys, uri):
    """Replays and measures the directory: exit code, output and errors."""

    def replay(*arguments):
        status = main([str(tmp_path), "--to", uri, "--speed", "0", "--measure", *arguments])
        output = capsys.readouterr()
        return status, output.out, output.err

    return replay


async def consumed(uri, queues, during):
    """Run a call while each queue has a consumer that takes this long (ms) for a message."""
    async with await aio_pika.connect(uri) as connection:
        for name, delay_ms in queues.items():
            channel = await connection.channel()
            await channel.set_qos(1)
            queue = await channel.declare_queue(name, auto_delete=True)
            await queue.bind("amq.topic", "new")

            async def take(message, delay_ms=delay_ms):
                await asyncio.sleep(delay_ms / 1000)
                await message.ack()

            await queue.consume(take)
        return await asyncio.to_thread(during)


def written(tmp_path, queues, deliveries=True):
    """A trace of simultaneous messages, each of which waits 2 ms in each queue."""
    log = TraceLog()
    for number in range(MESSAGES):
        log.publish(number, FIRST + number, queues, exchange="amq.topic", body=b"x")
    for number in range(MESSAGES if deliveries else 0):
        for queue in queues:
            log.deliver(2_000 + number, FIRST + number, queue)
    log.write(tmp_path)


def longest_ms(told, line):
    """Return the longest wait in the line that follows this one."""
    words = told[told.index(line) :].splitlines()[1]
    value, unit = re.search(r"([\d.]+) (µs|ms|s) \(longest\)", words).groups()
    return float(value) * {"µs": 0.001, "ms": 1, "s": 1000}[unit]


def test_waits_are_those_that_consumers_cause(tmp_path, uri, replayed):
    written(tmp_path, ["slow", "quick"])
    status, told, errors = asyncio.run(consumed(uri, {"slow": DELAY_MS, "quick": 0}, replayed))
    assert (status, errors) == (0, "")
    assert f"slow: {MESSAGES} in the trace, {MESSAGES} now; 0 messages before" in told
    # Each message waits until the earlier ones are processed; the last one longest.
    least_ms = (MESSAGES - 1) * DELAY_MS
    assert least_ms <= longest_ms(told, "  slow:") < 20 * least_ms
    assert longest_ms(told, "  quick:") < longest_ms(told, "  slow:")
    in_trace = "2 ms (median), 2 ms (p95), 2 ms (p99), 2 ms (longest)"
    assert told.count(f"waits in the trace: {in_trace}, of {MESSAGES} messages delivered") == 2
    assert f"of {MESSAGES} messages delivered: longer" in told
    assert "Waits were measured by copies, which arrived" in told
    assert "did not come" not in told


def test_where_messages_go_now_is_known(tmp_path, uri, replayed):
    written(tmp_path, ["was"])
    status, told, _ = asyncio.run(consumed(uri, {"is": 0}, replayed))
    assert status == 0
    assert f"was: {MESSAGES} in the trace, 0 now: {MESSAGES} fewer; now unavailable" in told
    assert "waits now: no messages" in told
    assert f"is: none in the trace, {MESSAGES} now" in told


def test_a_message_that_is_not_taken_has_no_wait(tmp_path, uri, replayed):
    written(tmp_path, ["kept"], deliveries=False)

    async def run():
        async with await aio_pika.connect(uri) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("kept", exclusive=True)
            await queue.bind("amq.topic", "new")
            # Only an exclusive queue's own connection can query it.
            return await asyncio.to_thread(replayed)

    _, told, _ = asyncio.run(run())
    assert told.count(f"none of {MESSAGES} messages was delivered") == 2


def test_only_measured_messages_are_marked(tmp_path, uri, replayed):
    written(tmp_path, ["q"])

    async def run(measured):
        async with await aio_pika.connect(uri) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("q", exclusive=True)
            await queue.bind("amq.topic", "new")
            arguments = [str(tmp_path), "--to", uri, "--speed", "0"]
            await asyncio.to_thread(replayed if measured else lambda: main(arguments))
            return [(await queue.get(no_ack=True)).headers for _ in range(MESSAGES)]

    marks = [headers["leveret-replay"] for headers in asyncio.run(run(measured=True))]
    assert [mark.partition("-")[2] for mark in marks] == [str(n + 1) for n in range(MESSAGES)]
    assert asyncio.run(run(measured=False)) == [{}] * MESSAGES


def test_a_vhost_that_is_not_traced_is_told_before_anything_is_published(
    tmp_path, node, capsys, monkeypatch
):
    monkeypatch.setattr("leveret.mgmt.replay.copies.PROBE_SECONDS_MAX", 0.3)
    written(tmp_path, ["q"])
    uri = f"amqp://guest:guest@127.0.0.1:{node.port}/%2F"
    assert main([str(tmp_path), "--to", uri, "--measure"]) == 1
    output = capsys.readouterr()
    assert "no copies arrive from the exchange amq.rabbitmq.trace of vhost '/'" in output.err
    assert "leveretctl trace_on -p '/'" in output.err
    assert output.out == ""


def test_a_user_that_may_not_read_copies_is_told_why(tmp_path, node, uri, capsys):
    node.put("users/shop", {"password": "shop", "tags": ""})
    node.put("permissions/traced/shop", {"configure": "", "write": ".*", "read": "^q"})
    written(tmp_path, ["q"])
    assert main([str(tmp_path), "--to", uri.replace("guest:guest", "shop:shop"), "--measure"]) == 1
    assert "waits cannot be measured: 403 ACCESS_REFUSED" in capsys.readouterr().err


def test_waits_message_by_message():
    waits = WaitTimes()
    for number in range(4):
        waits.came("q", number, 1_000 * number)
    waits.left("q", 0, 7_000)
    waits.left("q", 0, 9_000)
    waits.left("q", 1, 9_000, is_delivered=False)
    waits.left("other", 2, 9_000)
    waits.left("q", 99, 9_000)
    q = waits.queues["q"]
    assert (q.came, q.taken.total, q.taken.maximum, sorted(q.waiting)) == (4, 1, 7_000, [2, 3])


def test_more_messages_than_are_followed_are_counted(monkeypatch):
    monkeypatch.setattr("leveret.mgmt.replay.wait_times.FOLLOWED_MAX", 2)
    waits = WaitTimes()
    for number in range(5):
        waits.came("q", number, 0)
    assert (waits.queues["q"].came, waits.unfollowed) == (5, 3)
    waits.left("q", 0, 1)
    waits.came("q", 5, 2)
    assert waits.unfollowed == 3


def test_the_waits_of_a_trace_are_those_of_the_replayed_messages():
    original = Original(WaitTimes())
    original.routed("n", 1, ["q"], 0)
    original.replayed("", "q", ["q"], 1, 0)
    original.routed("n", 2, ["q"], 0)
    original.left("n", 1, "q", SECOND, True)
    original.left("n", 2, "q", 5 * SECOND, True)
    assert original.wait_times.queues["q"].taken.maximum == SECOND
