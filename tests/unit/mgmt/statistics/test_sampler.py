"""The sampler in an embedded broker."""

import aio_pika
import pytest

from leveret.broker.declarations.values import DeleteVhost, PutVhost
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.statistics.sampler import (
    CHURN,
    LENGTHS,
    MESSAGES,
    QUEUE,
    Sampler,
    queue_row,
)
from leveret.mgmt.statistics.series import SampleWindow
from leveret.testing import EmbeddedBroker
from tests.declaring import declare

INTERVAL_MS = 5000


@pytest.fixture
async def embedded():
    async with EmbeddedBroker(virtual_clock=True) as broker:
        yield broker


@pytest.fixture
async def sampler(embedded):
    return Sampler(NodeFacade(embedded.broker), INTERVAL_MS)


@pytest.fixture
async def connection(embedded):
    connection = await aio_pika.connect(embedded.url)
    yield connection
    await connection.close()


async def round_of(embedded, sampler):
    """Advance by one interval."""
    embedded.advance(INTERVAL_MS / 1000)
    await sampler.sample()


async def publish(channel, queue, count):
    for _ in range(count):
        await channel.default_exchange.publish(aio_pika.Message(b"x"), queue)


def messages(sampler, name):
    return sampler.messages.last[MESSAGES.index(name)]


async def test_rates_are_those_of_the_last_interval(embedded, sampler, connection):
    channel = await connection.channel()
    await channel.declare_queue("q")
    await round_of(embedded, sampler)
    await publish(channel, "q", 20)
    await round_of(embedded, sampler)
    now_ms = sampler.now_ms()
    assert sampler.messages.rate(MESSAGES.index("publish"), now_ms) == 4
    assert sampler.messages.rate(MESSAGES.index("confirm"), now_ms) == 4
    series = sampler.objects.queues["/"]["q"]
    assert series.rate(QUEUE.index("messages_ready"), now_ms) == 4
    assert sampler.lengths.last == (20, 20, 0)
    assert len(sampler.lengths.last) == len(LENGTHS)


async def test_what_clients_did_is_not_forgotten_when_they_go(embedded, sampler, connection):
    channel = await connection.channel()
    queue = await channel.declare_queue("q")
    await publish(channel, "q", 10)
    await (await queue.get()).ack()
    await round_of(embedded, sampler)
    await queue.delete(if_unused=False, if_empty=False)
    await channel.close()
    await round_of(embedded, sampler)
    for name, count in (("publish", 10), ("get", 1), ("ack", 1)):
        assert messages(sampler, name) == count
        assert sampler.vhosts["/"].last[MESSAGES.index(name)] == count
        assert sampler.messages.rate(MESSAGES.index(name), sampler.now_ms()) >= 0


async def test_series_of_deleted_objects_are_forgotten(embedded, sampler, connection):
    channel = await connection.channel()
    queue = await channel.declare_queue("q")
    await publish(channel, "q", 1)
    declare(embedded, PutVhost("other"))
    await round_of(embedded, sampler)
    assert "q" in sampler.objects.queues["/"]
    assert {"/", "other"} == sampler.vhost_lengths.keys() == sampler.vhosts.keys()
    await queue.delete(if_unused=False, if_empty=False)
    declare(embedded, DeleteVhost("other"))
    await round_of(embedded, sampler)
    assert "q" not in sampler.objects.queues["/"]
    assert {"/"} == sampler.vhost_lengths.keys() == sampler.vhosts.keys()


async def test_idle_objects_have_no_series(embedded, sampler, connection):
    channel = await connection.channel()
    await channel.declare_queue("idle")
    await round_of(embedded, sampler)
    assert "idle" not in sampler.objects.queues["/"]


async def test_a_queue_that_is_declared_again_begins_a_new_series(embedded, sampler, connection):
    channel = await connection.channel()
    queue = await channel.declare_queue("q")
    await publish(channel, "q", 20)
    await round_of(embedded, sampler)
    await queue.delete(if_unused=False, if_empty=False)
    await channel.declare_queue("q")
    await publish(channel, "q", 5)
    row = queue_row(sampler.facade.queue_counts(("/", "q")))
    assert sampler.objects.queue("/", "q", row) is None
    await round_of(embedded, sampler)
    series = sampler.objects.queue("/", "q", row)
    assert series.rate(QUEUE.index("publish"), sampler.now_ms()) == 1


async def test_the_oldest_unsettled_delivery_of_each_queue_is_known(embedded, sampler, connection):
    channel = await connection.channel()
    queue = await channel.declare_queue("q")
    await publish(channel, "q", 2)
    first = await queue.get()
    embedded.advance(10)
    second = await queue.get()
    await sampler.sample()
    known = ("/", "q")
    clock = embedded.broker.services.clock
    assert clock.now_ms() - sampler.oldest_unacked_ms[known] == pytest.approx(10_000, abs=50)
    await first.ack()
    await second.ack()
    await channel.declare_queue("q", passive=True)
    await sampler.sample()
    assert known not in sampler.oldest_unacked_ms


async def test_churn_is_counted(embedded, sampler, connection):
    channel = await connection.channel()
    await channel.declare_queue("q")
    await channel.queue_delete("q")
    await round_of(embedded, sampler)
    row = dict(zip(CHURN, sampler.churn.last, strict=True))
    assert row["connection_created"] == row["channel_created"] == 1
    assert row["queue_created"] == row["queue_deleted"] == 1


async def test_samples_of_a_virtual_host_are_kept_for_a_day(embedded, sampler):
    connection = await aio_pika.connect(f"{embedded.url}?heartbeat=0")
    channel = await connection.channel()
    queue = await channel.declare_queue("q")
    await publish(channel, "q", 3)
    await round_of(embedded, sampler)
    await queue.purge()
    for _ in range(2):
        embedded.advance(10 * 3600)
        await sampler.sample()
        await publish(channel, "q", 1)
    await connection.close()
    window = SampleWindow(86_400, 1800)
    column = LENGTHS.index("messages_ready")
    shown = sampler.vhost_lengths["/"].samples(column, sampler.now_ms(), window)
    assert 3 in [one["sample"] for one in shown]


def stalled(embedded, sampler):
    """The consumers of q that hold messages and settle none, by their tags."""
    queue = embedded.broker.services.vhosts["/"].queues["q"]
    found = queue.figures.consumers()
    return {one.tag for one in found if sampler.stalled_since_s(one) is not None}


@pytest.mark.parametrize("prefetch", [0, 2], ids=["unlimited", "full"])
async def test_a_consumer_that_holds_messages_and_settles_none_is_stalled(
    embedded, sampler, prefetch
):
    connection = await aio_pika.connect(f"{embedded.url}?heartbeat=0")
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=prefetch)
    queue = await channel.declare_queue("q")
    await publish(channel, "q", 3)
    held = []

    async def hold(message):
        held.append(message)

    await queue.consume(hold, consumer_tag="idle")
    await round_of(embedded, sampler)
    assert stalled(embedded, sampler) == set()
    embedded.advance(61)
    await sampler.sample()
    assert stalled(embedded, sampler) == {"idle"}
    (figures,) = embedded.broker.services.vhosts["/"].queues["q"].figures.consumers()
    assert figures.unacked == (prefetch or 3)
    await held[0].ack()
    await channel.declare_queue("q", passive=True)
    await round_of(embedded, sampler)
    assert stalled(embedded, sampler) == set()
    await connection.close()


async def test_a_full_consumer_is_stalled_though_its_channel_settles_messages(embedded, sampler):
    connection = await aio_pika.connect(f"{embedded.url}?heartbeat=0")
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=1)
    queue, other = await channel.declare_queue("q"), await channel.declare_queue("other")
    await publish(channel, "q", 1)

    async def hold(_message):
        pass

    await queue.consume(hold, consumer_tag="idle")
    for _ in range(2):
        embedded.advance(31)
        await publish(channel, "other", 1)
        await (await other.get()).ack()
        await sampler.sample()
    assert stalled(embedded, sampler) == {"idle"}
    await connection.close()
