"""The ends of a shovel: what is looked for before messages move, and how it stops."""

import asyncio
from types import SimpleNamespace

import pytest
from pamqp import commands

from leveret.broker.amqp.content_assembler import Content
from leveret.broker.moving.client.channel import ReturnedMessage
from leveret.broker.moving.client.ended import ChannelClosed
from leveret.broker.moving.shovels.ends import prepare_destination, returned_reason
from leveret.broker.moving.transfers.stopping import settle
from leveret.broker.policies.shovel_parameter import ShovelDestination
from tests.unit.broker.moving.client.fakes import Server

TRANSFER = SimpleNamespace(is_settled=False)
ROUNDS = 20


async def opened():
    """A server, and a channel to it."""
    server = await Server().open()
    await server.received()
    return server, await server.open_channel()


async def test_an_exchange_that_is_not_there_is_told_before_messages_move():
    server = await Server().open()
    await server.received()
    preparing = asyncio.ensure_future(
        prepare_destination(
            server.connection, ShovelDestination(("amqp://",), exchange="gone"), confirms=False
        )
    )
    ((number, _),) = await server.received()
    server.send(number, commands.Channel.OpenOk)
    declaration = await server.received_method()
    assert (declaration.exchange, declaration.passive) == ("gone", True)
    server.send(number, commands.Channel.Close, reply_code=404, reply_text="NOT_FOUND")
    with pytest.raises(ChannelClosed, match="NOT_FOUND"):
        await preparing


@pytest.mark.parametrize("lost", [0, 1])
async def test_a_shovel_whose_end_is_lost_waits_for_no_confirms(lost):
    (source, consuming), (destination, publishing) = await opened(), await opened()
    (source, destination)[lost].connection.drop("the link is cut")
    settling = asyncio.ensure_future(settle(consuming, "tag", publishing, TRANSFER))
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
    assert settling.done()


async def test_a_shovel_that_stops_waits_for_confirms_and_takes_no_more():
    (source, consuming), (_, publishing) = await opened(), await opened()
    transfer = SimpleNamespace(is_settled=False, hear_source=lambda: None)
    settling = asyncio.ensure_future(settle(consuming, "tag", publishing, transfer))
    assert (await source.received_method()).consumer_tag == "tag"
    source.send(1, commands.Basic.CancelOk, consumer_tag="tag")
    assert not settling.done()
    transfer.is_settled = True
    await settling


def test_a_return_says_which_queue_is_gone():
    method = commands.Basic.Return(312, "NO_ROUTE", "", "to")
    content = Content(b"", b"", b"")
    assert returned_reason(ReturnedMessage(method, content)) == (
        "the destination has returned a message for queue 'to', which was deleted, or whose node "
        "is down: 312, NO_ROUTE"
    )
