"""AMQP 1.0: what clients are told when their node is put under maintenance."""

import pytest

from leveret.broker.amqp10.values import Value
from leveret.broker.config import Amqp10Settings
from leveret.broker.protocols.amqp10.performatives import Close, Open
from leveret.broker.services.client_addresses import ClientAddress
from leveret.broker.sessions.served_connection import DRAINED
from tests.protocol.amqp10_peer import Amqp10Node

REDIRECTS = Amqp10Settings(redirects_on_maintenance=True)


async def told_when_drained(node, hostname=None):
    """The error in the close that a client gets."""
    client = node.connect()
    await client.log_in()
    client.send_bytes(b"AMQP\0\1\0\0")
    await client.answers(Open("test", hostname))
    client.connection.force_close(DRAINED)
    (close,) = [one.performative for one in await client.frames()]
    assert isinstance(close, Close)
    return close.error


@pytest.mark.parametrize(
    ("hostname", "told"), [(None, "two.example"), ("vhost:/", "vhost:/"), ("lb", "two.example")]
)
async def test_a_client_is_redirected_if_a_setting_says_so(hostname, told):
    async with Amqp10Node(amqp10=REDIRECTS) as node:
        others = node.broker.services.amqp10_addresses.of_others
        others["b@two"] = ClientAddress("two.example", 5673)
        error = await told_when_drained(node, hostname)
        assert (error.condition, error.description) == ("amqp:connection:redirect", DRAINED)
        assert {key.value: value for key, value in error.info.value} == {
            "network-host": Value("string", "two.example"),
            "port": Value("int", 5673),
            "hostname": Value("string", told),
        }


@pytest.mark.parametrize(
    ("settings", "others"),
    [(REDIRECTS, {}), (Amqp10Settings(), {"b@two": ClientAddress("two.example", 5673)})],
)
async def test_a_client_is_else_told_that_its_connection_is_closed(settings, others):
    async with Amqp10Node(amqp10=settings) as node:
        node.broker.services.amqp10_addresses.of_others.update(others)
        assert (await told_when_drained(node)).condition == "amqp:connection:forced"


@pytest.mark.parametrize("compat", ["3.12", "4.0"])
async def test_a_client_may_stay_since_4_0(compat):
    async with Amqp10Node(compat=compat, plugins=("rabbitmq_amqp1_0",)) as node:
        client = await node.connect().open(
            properties=Value(
                "map", [(Value("symbol", "ignore-maintenance"), Value("boolean", True))]
            )
        )
        client.connection.force_close(DRAINED)
        assert bool(await client.frames()) == (compat == "3.12")
        client.connection.force_close("another reason")
