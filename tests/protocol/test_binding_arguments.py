"""The arguments of a binding are a set: their order does not make another binding."""

import pytest
from pamqp import commands

from tests.protocol.raw_client import opened

ONE_ORDER = {"z": ("I", 1), "a": ("S", "b")}
OTHER_ORDER = dict(reversed(ONE_ORDER.items()))


@pytest.fixture
def client(timeless):
    """A client with a queue `q` and an exchange `x`."""
    with opened(timeless) as client:
        client.declare("q")
        client.declare_exchange("x", "direct")
        yield client


def change_queue(client, method, answer, arguments):
    client.call(1, method, answer, queue="q", exchange="x", routing_key="k", arguments=arguments)


def change_exchange(client, method, answer, arguments):
    client.call(1, method, answer, destination="x", source="amq.direct", routing_key="k",
                arguments=arguments)  # fmt: skip


def reached(client, exchange):
    """How many messages the queue has after one more was published."""
    client.publish(1, "k", b"", exchange=exchange)
    return client.declare("q", passive=True).message_count


def test_a_queue_is_bound_once_and_unbound_by_the_same_arguments_in_any_order(client):
    for arguments in (ONE_ORDER, OTHER_ORDER):
        change_queue(client, commands.Queue.Bind, commands.Queue.BindOk, arguments)
    assert reached(client, "x") == 1
    change_queue(client, commands.Queue.Unbind, commands.Queue.UnbindOk, OTHER_ORDER)
    assert reached(client, "x") == 1


def test_an_exchange_is_bound_once_and_unbound_by_the_same_arguments_in_any_order(client):
    change_queue(client, commands.Queue.Bind, commands.Queue.BindOk, {})
    for arguments in (ONE_ORDER, OTHER_ORDER):
        change_exchange(client, commands.Exchange.Bind, commands.Exchange.BindOk, arguments)
    assert reached(client, "amq.direct") == 1
    change_exchange(client, commands.Exchange.Unbind, commands.Exchange.UnbindOk, OTHER_ORDER)
    assert reached(client, "amq.direct") == 1
