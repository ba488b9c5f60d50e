"""`leveret replay`: the messages of a trace are published to a real broker again."""

import asyncio
import json

import aio_pika
import pytest

from leveret.mgmt.replay.replay_command import main
from leveret.testing import EmbeddedBroker
from tests.analytics.trace_log import FIRST, HOUR, SECOND, START_US, TraceLog

PROPERTIES = {
    "content_type": "text/plain", "delivery_mode": 2, "message_id": "m-1", "priority": 3,
    "headers": {"tries": 7, "nested": {"list": [1, "two", True]}},
}  # fmt: skip


@pytest.fixture
def broker():
    with EmbeddedBroker.in_thread() as threaded:
        yield threaded


def declare(broker, *queues, exchange="orders", key="new"):
    """Declare queues, bound to an exchange."""

    async def run():
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            made = await channel.declare_exchange(exchange, "direct", durable=True)
            for name in queues:
                queue = await channel.declare_queue(name, durable=True)
                await queue.bind(made, key)

    asyncio.run(run())


def fetch(broker, queue):
    """Fetch all messages of a queue."""

    async def run():
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            found = await channel.get_queue(queue)
            messages = []
            while message := await found.get(no_ack=True, fail=False):
                messages.append(message)
            return messages

    return asyncio.run(run())


@pytest.fixture
def replayed(tmp_path, capsys, broker):
    """Replays the directory: exit code, output and errors."""

    def replay(*arguments):
        status = main([str(tmp_path), "--to", broker.url, "--speed", "0", *map(str, arguments)])
        output = capsys.readouterr()
        return status, output.out, output.err

    return replay


def test_messages_are_published_as_they_were(tmp_path, broker, replayed):
    declare(broker, "billing")
    log = TraceLog()
    log.publish(0, FIRST, ["billing"], body=b"\x00first\xff", properties=PROPERTIES)
    log.publish(HOUR, FIRST + 1, ["billing"], body=b"x" * 300_000)
    log.publish(2 * HOUR, FIRST + 2, ["billing"], body=b"")
    log.write(tmp_path)
    status, told, errors = replayed()
    assert (status, errors) == (0, "")
    assert "3 messages published" in told
    assert "billing: 3 in the trace; 0 messages before, 3 after" in told
    first, second, third = fetch(broker, "billing")
    assert (first.body, second.body, third.body) == (b"\x00first\xff", b"x" * 300_000, b"")
    assert (first.content_type, first.delivery_mode, first.message_id) == ("text/plain", 2, "m-1")
    assert (first.priority, first.headers) == (3, PROPERTIES["headers"])
    assert (first.exchange, first.routing_key) == ("orders", "new")


def test_how_the_outcome_differs(tmp_path, broker, replayed):
    declare(broker, "billing")
    log = TraceLog()
    for number in range(20):
        log.publish(number, FIRST + number, ["billing", "audit"], body=b"x")
    for number in range(20, 25):
        log.publish(number, FIRST + number, ["billing"], keys=["old"], body=b"x")
    log.publish(30, FIRST + 30, [], keys=["lost"], body=b"x")
    log.write(tmp_path)
    status, told, _ = replayed()
    assert status == 0
    assert "1 in the trace, 6 now" in told
    assert "exchange orders, routing key old: 0 in the trace, 5 now: 5 more" in told
    assert "lost:" not in told
    assert (
        "billing: 25 in the trace; 0 messages before, 20 after, 5 fewer than in the trace" in told
    )
    assert "audit: 20 in the trace; now unavailable: 404 NOT_FOUND" in told


def test_its_own_pace_and_faster(tmp_path, broker, replayed):
    declare(broker, "q")
    log = TraceLog()
    for number in range(4):
        log.publish(number * SECOND, FIRST + number, ["q"], body=b"x")
    log.write(tmp_path)
    loop_clock = asyncio.new_event_loop().time
    began = loop_clock()
    assert replayed("--speed", 10)[0] == 0
    assert loop_clock() - began >= 0.3


def test_waits_are_compared_where_there_are_consumers(tmp_path, broker, replayed):
    declare(broker, "q")
    log = TraceLog()
    for number in range(50):
        log.publish(number, FIRST + number, ["q"], body=b"x")
    for number in range(50):
        log.deliver(10 * SECOND + number, FIRST + number, "q")
    log.write(tmp_path)

    async def take(message):
        """Consuming is enough."""

    async def consume_and_replay():
        async with await aio_pika.connect(broker.url) as connection:
            queue = await (await connection.channel()).get_queue("q")
            await queue.consume(take, no_ack=True)
            return await asyncio.to_thread(replayed)

    status, told, _ = asyncio.run(consume_and_replay())
    assert status == 0
    assert "0 after; 1 consumer" in told
    assert "10 s in the trace: shorter" in told


def test_what_cannot_be_replayed_is_counted(tmp_path, broker, replayed):
    declare(broker, "q")
    log = TraceLog()
    log.publish(0, FIRST, ["q"], body=b"whole", properties={"user_id": "someone"})
    log.publish(1, FIRST + 1, ["q"], size=10)
    log.publish(2, FIRST + 2, ["q"], body=b"part", size=10)
    log.publish(3, FIRST + 3, ["q"], body=b"x", properties={"priority": "high"})
    log.publish(4, FIRST + 4, ["q"], exchange="gone", body=b"x")
    [path] = log.write(tmp_path)
    path.write_bytes(path.read_bytes() + b"\x1f\x8b\x08")
    status, told, _ = replayed()
    assert status == 1
    assert "1 message published" in told
    assert "1 message skipped, without a body" in told
    assert "1 message skipped, with a truncated or unreadable body" in told
    assert "1 message skipped, with properties that AMQP cannot encode" in told
    assert "1 message without the user-id of another user" in told
    assert "1 message not sent to exchange gone: 404 NOT_FOUND" in told
    assert "the file is truncated" in told


def test_exchange_and_window(tmp_path, broker, replayed):
    declare(broker, "q")
    log = TraceLog()
    log.publish(0, FIRST, ["q"], body=b"early")
    log.publish(HOUR, FIRST + 1, ["q"], body=b"wanted")
    log.publish(HOUR + 1, FIRST + 2, ["q"], body=b"other", exchange="other")
    log.publish(2 * HOUR, FIRST + 3, ["q"], body=b"late")
    log.write(tmp_path)
    window = ["--from", "2026-03-01T15:00", "--to", "2026-03-01T16:00", "--exchange", "orders"]
    assert replayed(*window)[0] == 0
    assert [message.body for message in fetch(broker, "q")] == [b"wanted"]


def test_copies_that_were_blind_go_where_they_went(tmp_path, broker, replayed):
    declare(broker, "q")
    declare(broker, "copy", key="hidden")
    log = TraceLog()
    log.publish(0, FIRST, ["q", "copy"], keys=["new", "hidden"], body=b"x")
    log.write(tmp_path)
    assert replayed()[0] == 0
    assert len(fetch(broker, "copy")) == 1


def test_a_dry_run_needs_no_broker(tmp_path, capsys):
    log = TraceLog()
    log.publish(0, FIRST, ["q"], body=b"12345")
    log.publish(10 * SECOND, FIRST + 1, [], body=b"12345")
    log.write(tmp_path)
    assert main([str(tmp_path), "--dry-run", "--speed", "10"]) == 0
    told = capsys.readouterr().out
    assert "2 messages would be published, 10 bytes of bodies" in told
    assert "at 10 times its speed that takes 1 s" in told
    assert "originally routed to no queue: 1 message" in told


def test_several_vhosts_need_a_choice(tmp_path, broker, replayed, capsys):
    declare(broker, "q")
    for vhost in ("/", "other"):
        log = TraceLog(vhost)
        log.publish(0, FIRST, ["q"], body=vhost.encode())
        log.write(tmp_path)
    with pytest.raises(SystemExit):
        replayed()
    assert "choose one with --vhost" in capsys.readouterr().err
    assert replayed("--vhost", "other")[0] == 0
    assert [message.body for message in fetch(broker, "q")] == [b"other"]


def test_logs_that_someone_has_copied(tmp_path, broker, replayed):
    declare(broker, "q")
    lines = [
        {"event": "header", "version": 1},
        {"event": "publish", "time_us": START_US, "exchange": "orders", "routing_keys": ["new"],
         "body_size": 2, "body": "aGk=", "queues": ["q"]},
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, lines))
    (tmp_path / "copy.jsonl").write_text(f"{text}\nnonsense\n")
    status, told, _ = replayed()
    assert status == 0
    assert "line 3: is not a record" in told
    assert [message.body for message in fetch(broker, "q")] == [b"hi"]


def test_a_broker_that_cannot_be_reached(tmp_path, capsys):
    TraceLog().write(tmp_path)
    assert main([str(tmp_path), "--to", "amqp://127.0.0.1:1/"]) == 1
    assert "127.0.0.1:1 cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [[], ["--to", "nowhere"], ["--to", "amqp://a", "--to", "amqp://b"],
     ["--dry-run", "--speed", "x"],
     ["--to", "amqp://a", "--from", "2026-03-02", "--until", "2026-03-01"],
     ["--dry-run", "--speed", "-1"], ["--dry-run", "--speed", "nan"]],
)  # fmt: skip
def test_options_that_make_no_sense(tmp_path, arguments):
    with pytest.raises(SystemExit) as error:
        main([str(tmp_path), *arguments])
    assert error.value.code == 2


def test_dead_letters_are_not_published_again(tmp_path, broker, replayed):
    """The target's queues produce their own dead letters."""
    declare(broker, "q")
    log = TraceLog()
    log.publish(0, FIRST, ["q"], body=b"once")
    log.deliver(SECOND, FIRST, "q")
    log.reject(2 * SECOND, FIRST, "q")
    log.dead_letter(2 * SECOND, FIRST, "q", "rejected", FIRST + 1, ["q"], exchange="orders")
    log.write(tmp_path)
    assert replayed()[0] == 0
    assert [message.body for message in fetch(broker, "q")] == [b"once"]
