"""The probe of confirms, and what is measured of its samples."""

import json
import signal
import subprocess
import sys

import pika
import pytest

from leveret.testing.embedded import ThreadedBroker
from tests.bench.confirm_probe import BASIC_ACK, METHOD, Probe, frame
from tests.bench.generator import GeneratorFailed
from tests.bench.samples import Results
from tests.bench.synchronising import p99_ms, record, window_said
from tests.protocol.raw_client import wait_until


def acked(tag: int, *, multiple: bool = False) -> bytes:
    """Return the frame of a confirm."""
    return frame(METHOD, BASIC_ACK + tag.to_bytes(8, "big") + bytes((multiple,)))


def published(count: int) -> Probe:
    """Return a probe that has published messages, a second apart."""
    probe = Probe("orders", is_durable=False)
    for number in range(count):
        probe.publish(float(number))
    return probe


def test_a_wait_begins_when_the_message_is_due() -> None:
    """Confirms may come one by one, out of order, and for many at once."""
    probe = published(4)
    probe.take(acked(3), 2.5)
    assert probe.waits == {3: 0.5}
    probe.take(acked(2, multiple=True), 3.0)
    assert probe.waits == {3: 0.5, 1: 3.0, 2: 2.0}
    assert not probe.is_confirmed
    probe.take(acked(4, multiple=True), 3.25)
    assert probe.is_confirmed
    assert sorted(probe.samples(100.0)) == [
        (100.0, 3e6), (101.0, 2e6), (102.0, 0.5e6), (103.0, 0.25e6)
    ]  # fmt: skip


def test_confirms_come_in_pieces() -> None:
    """A frame may be cut anywhere."""
    probe = published(2)
    for octet in acked(1) + acked(2):
        probe.take(bytes((octet,)), 2.0)
    assert probe.waits == {1: 2.0, 2: 1.0}


def test_a_probe_ends_when_a_message_is_refused() -> None:
    """A refusal is no confirm."""
    probe = published(1)
    with pytest.raises(SystemExit, match="the broker sent"):
        probe.take(frame(METHOD, b"\0\x3c\0\x78" + bytes(9)), 1.0)


@pytest.mark.parametrize("words", [[], ["--durable"]], ids=["transient", "persistent"])
def test_a_broker_confirms_what_the_probe_publishes(
    amqp_session_broker: ThreadedBroker, words: list[str]
) -> None:
    """Each message is there once, with a size and an id of its own, and has a sample."""
    connection = pika.BlockingConnection(pika.URLParameters(amqp_session_broker.url))
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True, durable=bool(words)).method.queue
    options = ["--port", str(amqp_session_broker.port), "--queue", queue, *words]
    command = [sys.executable, "-m", "tests.bench.confirm_probe", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        wait_until(lambda: channel.queue_declare(queue, passive=True).method.message_count > 20)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate()
    samples = json.loads(output)["samples"]
    taken = [channel.basic_get(queue, auto_ack=True) for _ in samples]
    assert channel.basic_get(queue)[0] is None
    connection.close()
    assert all(wait > 0 for _, wait in samples)
    assert len({properties.message_id for _, properties, _ in taken}) == len(samples)
    assert len({len(body) for _, _, body in taken}) > 20
    assert {properties.delivery_mode for _, properties, _ in taken} == {2 if words else 1}


def test_only_messages_of_the_window_count() -> None:
    """The p99 is the smallest wait that 99% do not exceed."""
    samples = [(10 + number / 1000, 1000.0 * number) for number in range(1000)]
    assert p99_ms(samples, (10.0, 10.1)) == 98
    assert p99_ms(samples, (10.5, 20.0)) == 994
    with pytest.raises(GeneratorFailed):
        p99_ms(samples, (20.0, 21.0))


def test_an_erlang_node_says_when_it_began_and_ended() -> None:
    """Microseconds of the system's clock."""
    assert window_said("{1795440654702392,1795440658702392}\n") == (
        1795440654.702392, 1795440658.702392
    )  # fmt: skip


def test_synchronising_has_limits() -> None:
    """40,000 messages a second, and 50 ms for the confirms meanwhile."""
    results = Results(["leveret"])
    record(results, "leveret", "transient", 200_000, (100.0, 104.0), (2.0, 60.0))
    assert {title: by["leveret"].value for title, by in results.singles.items()} == {
        "synchronising 200,000 messages of 1 KB, transient": 4.0,
        "p99 of confirms before synchronising, transient": 2.0,
        "p99 of confirms while synchronising, transient": 60.0,
    }
    assert results.limits == {
        "synchronising 200,000 messages of 1 KB, transient": 5,
        "p99 of confirms while synchronising, transient": 50,
    }
