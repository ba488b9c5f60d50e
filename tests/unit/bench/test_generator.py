"""The load generator, against an embedded broker and against the relay."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from leveret.testing.embedded import ThreadedBroker
from tests.bench import brokers, generator
from tests.bench.loads import Load, pairs, varied
from tests.bench.properties import encoded
from tests.patience import PATIENCE_SECONDS

COUNT = 200

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CC", "cc")) is None, reason="needs a C compiler"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the compiled generator."""
    return generator.build(generator.SOURCE, tmp_path_factory.mktemp("generator") / "load")


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[brokers.Broker]:
    """Return the running relay."""
    target = tmp_path_factory.mktemp("relay") / "relay"
    with brokers.relay(generator.build(generator.RELAY_SOURCE, target)) as running:
        yield running


def run(program: Path, address: list[str], load: Load, *words: str) -> dict[str, Any]:
    """Run a load for a moment, and wait for all that it has published."""
    moment = ["--seconds=0.1", "--warmup=0"]
    moment += [f"--drain={PATIENCE_SECONDS}", f"--limit={2 * PATIENCE_SECONDS}"]
    return generator.run(program, [*address, *moment, *load.arguments, *words]).result


@pytest.mark.parametrize(
    "load",
    [
        varied("plain", "auto-ack", properties=""),
        varied("confirmed", "confirms and acks", properties="", window=1000, auto_ack=False),
        Load("pairs", "four pairs of connections", **pairs(4)),
        Load("large", "bodies of several frames", size=300_000),
    ],
    ids=lambda load: load.name,
)
def test_everything_that_a_relay_takes_is_delivered(
    program: Path, relay: brokers.Broker, load: Load
) -> None:
    """The relay answers like a broker, and no byte is lost or comes twice."""
    result = run(program, relay.address, load)
    assert result["drained"]
    assert result["consumed"] == result["published"] > 0
    assert result["confirmed"] == (result["published"] if load.window else 0)


@pytest.mark.parametrize(
    "load",
    [
        Load("get", "basic.get", get=True, auto_ack=False, in_flight=100),
        Load("transactions", "transactions", transaction=100, burst=100),
        Load("channels", "channels in turn", channels=3, in_flight=100),
        Load("in-turn", "queues in turn", in_turn=True, queues=3, consumers=3, in_flight=100),
        Load("paced", "one message a write", rate=1000, burst=1, spaced=True),
    ],
    ids=lambda load: load.name,
)
def test_a_broker_delivers_each_kind_of_load(
    program: Path, amqp_session_broker: ThreadedBroker, load: Load
) -> None:
    """Commits, gets, channels and queues in turn are as a broker expects them."""
    result = run(program, [f"--port={amqp_session_broker.port}"], load)
    assert result["drained"]
    assert result["consumed"] == result["published"] > 0


def test_unroutable_mandatory_messages_come_back(
    program: Path, amqp_session_broker: ThreadedBroker, tmp_path: Path
) -> None:
    """A message that was returned counts as consumed."""
    (tmp_path / "addresses").write_text("\tnobody\n")
    load = Load("returned", "returned", mandatory=True, consumers=0, in_flight=100)
    words = [f"--addresses={tmp_path / 'addresses'}"]
    result = run(program, [f"--port={amqp_session_broker.port}"], load, *words)
    assert result["consumed"] == result["published"] > 0


def test_each_message_has_a_message_id_of_its_own(
    program: Path, amqp_session_broker: ThreadedBroker, tmp_path: Path
) -> None:
    """The marks in the properties are replaced, in each message by another number."""
    (tmp_path / "properties").write_bytes(encoded("varied", False))
    words = [f"--port={amqp_session_broker.port}", "--consumers=0", f"--count={COUNT}", "--keep"]
    words += ["--window=100", "--durable", "--name=ids", "--size=100", "--vary=100"]
    generator.run(program, [*words, f"--properties={tmp_path / 'properties'}"])
    connection = pika.BlockingConnection(pika.URLParameters(amqp_session_broker.url))
    channel = connection.channel()
    taken = [channel.basic_get("ids-0", auto_ack=True) for _ in range(COUNT)]
    channel.queue_delete("ids-0")
    connection.close()
    ids = {properties.message_id for _, properties, _ in taken}
    assert len(ids) == COUNT
    assert not any("#" in found for found in ids)
    assert len({len(body) for _, _, body in taken}) > 50
    assert {properties.content_type for _, properties, _ in taken} == {"application/json"}


def test_encrypted_connections(program: Path, relay: brokers.Broker) -> None:
    """A server without TLS is refused in words."""
    words = [*relay.address, "--tls", f"--limit={PATIENCE_SECONDS}"]
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "TLS" in done.stderr
