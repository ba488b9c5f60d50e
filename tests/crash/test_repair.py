"""`leveret store check` and `store repair` of a node with a quorum queue and a stream."""

import pytest

from tests.crash.killed_node import Node
from tests.forked_programs import run_program

COUNT = 30
STREAM, QUORUM = "a stream", "a quorum queue"


@pytest.fixture
def node(tmp_path):
    """A node that was killed when it had confirmed all messages, each before the next one."""
    node = Node(tmp_path / "data")
    assert node.start()
    with node.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for name in (STREAM, QUORUM):
            kind = name.split()[1]
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
            for number in range(COUNT):
                channel.basic_publish("", name, b"%s %d." % (name.encode(), number))
    node.kill()
    return node


def store(node, command):
    done = run_program("leveret", "store", command, node.directory)
    return done.returncode, done.stdout + done.stderr


def damage(node, pattern, text):
    """Change a byte of a text in the only file that has it; returns this file."""
    (path,) = [path for path in node.directory.glob(pattern) if text in path.read_bytes()]
    data = path.read_bytes()
    path.write_bytes(data.replace(text, text[:-1] + b"#"))
    return path, data.index(text)


def in_stream(channel):
    """The messages of the stream, by their offsets."""
    found = {}
    channel.basic_qos(prefetch_count=100)
    arguments = {"x-stream-offset": "first"}
    for method, properties, body in channel.consume(STREAM, arguments=arguments):
        found[properties.headers["x-stream-offset"]] = body
        channel.basic_ack(method.delivery_tag)
        if max(found) == COUNT - 1:
            channel.cancel()
            break
    return found


def test_what_is_left_of_a_damaged_stream_and_queue_is_served(node):
    assert store(node, "check")[0] == 0
    segment, at = damage(node, "streams/logs/*/*.segment", b"a stream 9.")
    log, _ = damage(node, "log/*.log", b"a quorum queue 20.")
    code, text = store(node, "check")
    assert code == 1
    assert f"{segment.relative_to(node.directory)}: " in text
    begin = int(text.partition(": the CRC of its messages")[0].rpartition("bytes ")[2].split()[0])
    assert begin < at
    assert "the messages 9 to 9 are lost" in text
    assert f"{log} has 1 damaged entries of quorum queues" in text

    code, text = store(node, "repair")
    assert code == 0, text
    assert (
        f"{segment}: undamaged parts were kept; the original is {node.directory / 'damaged'}"
        in text
    )
    assert store(node, "check")[0] == 0
    assert node.start()
    with node.connect() as connection:
        channel = connection.channel()
        found = in_stream(channel)
        assert found == {n: b"a stream %d." % n for n in range(COUNT) if n != 9}
        got = [channel.basic_get(QUORUM, auto_ack=True)[2] for _ in range(20)]
        assert got == [b"a quorum queue %d." % n for n in range(20)]
        channel.confirm_delivery()
        for name in (STREAM, QUORUM):
            channel.basic_publish("", name, b"one more")
        assert channel.basic_get(QUORUM, auto_ack=True)[2] == b"one more"
    node.stop()


def test_a_node_that_runs_is_not_looked_at(node):
    assert node.start()
    code, text = store(node, "check")
    assert code == 2
    assert "is in use by another server" in text
    node.stop()
