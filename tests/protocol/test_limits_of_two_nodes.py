"""Limits on connections and channels count what clients of both nodes have open."""

import pytest
from pamqp import commands

from leveret.broker.declarations.values import PutUserLimits, PutVhostLimits
from tests.protocol.raw_client import RawClient, open_arguments, wait_until

VHOST = PutVhostLimits("/", {"max-connections": 1})
USER = PutUserLimits("guest", {"max-connections": 1})
CHANNELS = PutUserLimits("guest", {"max-channels": 2})


@pytest.fixture
def declare(broker, linked):
    """Sets a limit on both nodes."""
    return lambda limit: broker.call(lambda _: linked.near.services.declarations.submit(limit))


@pytest.fixture
def counted(broker, linked):
    """What a node counts."""

    def look(node, what, name):
        opened = (linked.near if node is broker else linked.far).services.open_counts
        return broker.call(lambda _: getattr(opened, what)(name))

    return look


@pytest.fixture(params=["near", "far"])
def nodes(request, broker, far_node):
    """A node, and the other one."""
    return (broker, far_node) if request.param == "near" else (far_node, broker)


def refusal(node):
    """What a client is told that wants to open another connection."""
    with RawClient(node) as client:
        client.start()
        client.tune()
        client.send_method(0, commands.Connection.Open, **open_arguments())
        return client.read_method(0, commands.Connection.Close).reply_text


@pytest.mark.parametrize(
    ("limit", "what", "name", "text"),
    [
        (VHOST, "connections_of_vhost", "/",
         "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (1) is "
         "reached"),
        (USER, "connections_of_user", "guest",
         "NOT_ALLOWED - connection refused for user 'guest': user connection limit (1) is reached"),
    ],
    ids=["vhost", "user"],
)  # fmt: skip
def test_a_connection_to_one_node_counts_on_the_other(
    nodes, declare, counted, limit, what, name, text
):
    one, other = nodes
    with RawClient(one).open():
        declare(limit)
        wait_until(lambda: counted(other, what, name) == 1)
        assert refusal(other) == refusal(one) == text
    wait_until(lambda: counted(other, what, name) == 0)
    with RawClient(other).open():
        wait_until(lambda: counted(one, what, name) == 1)
        assert refusal(one) == text


def test_channels_of_a_user_count_on_both_nodes(nodes, declare, counted):
    one, other = nodes
    declare(CHANNELS)
    with RawClient(one).open() as near, RawClient(other).open() as far:
        near.open_channel(1)
        far.open_channel(1)
        wait_until(lambda: counted(one, "channels_of_user", "guest") == 2)
        near.call(1, commands.Channel.Close, commands.Channel.CloseOk,
                  reply_code=0, reply_text="", class_id=0, method_id=0)  # fmt: skip
        wait_until(lambda: counted(other, "channels_of_user", "guest") == 1)
        far.open_channel(2)
        wait_until(lambda: counted(one, "channels_of_user", "guest") == 2)
        near.send_method(1, commands.Channel.Open)
        assert near.read_method(0, commands.Connection.Close).reply_text == (
            "NOT_ALLOWED - number of channels opened for user 'guest' has reached the maximum "
            "allowed user limit of (2)"
        )


def test_a_node_that_is_down_counts_no_more(broker, linked, far_node, declare, counted):
    declare(VHOST)
    with RawClient(far_node).open():
        wait_until(lambda: counted(broker, "connections_of_vhost", "/") == 1)
        broker.call(lambda _: linked.unlink())
        with RawClient(broker).open():
            assert counted(broker, "connections_of_vhost", "/") == 1
