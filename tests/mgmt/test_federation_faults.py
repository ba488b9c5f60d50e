"""Federation links whose upstream refuses, is silent or is no broker, and what they cannot move."""

import pytest
from pamqp import commands, heartbeat

from tests.mgmt.far_side import FarSide, closing_channel, closing_connection, sending, silent
from tests.mgmt.federated_exchanges import at, bound_queue, federate, vhost_at
from tests.mgmt.served_node import ServedNode
from tests.mgmt.test_shovels import local, take_all, uri
from tests.ports import free_port

QUICK = "?heartbeat=1&connection_timeout=1000"
EXCHANGE, QUEUE = "exchange", "queue"


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another node, which is not in a cluster with the first."""
    served = ServedNode(tmp_path_factory.mktemp("other"), name="other@localhost")
    yield served
    served.stop()


@pytest.fixture
def far():
    with FarSide() as made:
        yield made


@pytest.fixture(params=[EXCHANGE, QUEUE])
def kind(request, channel):
    """Of a federated `x`, which has a consumer if it is a queue."""
    if request.param == EXCHANGE:
        bound_queue(channel, "k")
    else:
        channel.queue_declare("x", durable=True)
        channel.basic_consume("x", lambda *message: None)
    return request.param


def reasons(node, vhost, kind):
    """Why the link of `x` has stopped, each time."""
    link = f"federation link of {kind} 'x' in vhost '{vhost}' to upstream 'up' has stopped"
    lines = [line for line in node.log.splitlines() if link in line]
    return [line.partition(" starts again in ")[2].partition(": ")[2] for line in lines]


def wait_for_reason(node, vhost, kind, wanted):
    node.wait_until(
        lambda: any(wanted in one for one in reasons(node, vhost, kind)), f"the log has {wanted!r}"
    )


@pytest.mark.parametrize(
    ("upstream", "said"),
    [
        (lambda one: f"amqp://127.0.0.1:{free_port()}", "cannot be reached: Connection refused"),
        (lambda one: f"amqp://127.0.0.1:{one.http_port}", "does not speak AMQP"),
        (lambda one: "amqp://no-such-host.invalid", "cannot be reached: "),
        (lambda one: f"amqps://127.0.0.1:{one.port}", "TLS fails: "),
        (lambda one: uri(one, "guest:secret"), "refuses the login of user 'guest': 403"),
        (lambda one: uri(one) + "/nowhere", "refuses vhost 'nowhere' to user 'guest': 530"),
        (lambda one: uri(one, "idle:secret") + "/%2F", "refuses vhost '/' to user 'idle': 530"),
    ],
)
def test_an_upstream_that_cannot_be_used(node, vhost, other, kind, upstream, said):
    assert other.put("users/idle", {"password": "secret", "tags": ""}).status in (201, 204)
    federate(node, vhost, upstream(other))
    wait_for_reason(node, vhost, kind, said)
    assert "secret" not in node.log


@pytest.mark.parametrize(
    ("configure", "read", "write", "said"),
    [
        ("", ".*", ".*", "the upstream refuses: 403, ACCESS_REFUSED - "),
        (".*", "", ".*", "403, ACCESS_REFUSED - "),
    ],
)
def test_a_user_who_may_not_use_the_upstream(
    node, vhost, other, kind, configure, read, write, said
):
    vhost_at(other, vhost)
    assert other.put("users/poor", {"password": "secret", "tags": ""}).status in (201, 204)
    rights = {"configure": configure, "read": read, "write": write}
    assert other.put(f"permissions/{vhost}/poor", rights).status == 201
    federate(node, vhost, f"{uri(other, 'poor:secret')}/{vhost}")
    wait_for_reason(node, vhost, kind, said)


@pytest.mark.parametrize("upstream", [lambda node, vhost: local(vhost), at])
def test_an_upstream_that_is_its_own_is_reported_and_nothing_is_doubled(
    node, vhost, channel, kind, upstream
):
    federate(node, vhost, upstream(node, vhost))
    wait_for_reason(node, vhost, kind, f"{kind} 'x' is its own upstream")
    if kind == EXCHANGE:
        channel.confirm_delivery()
        channel.basic_publish("x", "k", b"once")
        assert take_all(channel, "q") == [b"once"]


@pytest.mark.parametrize("method", [commands.Channel.Open, commands.Queue.Declare])
def test_an_upstream_that_does_not_answer(node, vhost, far, kind, method):
    far.answers[method] = silent
    federate(node, vhost, far.uri + QUICK)
    name = "channel.open" if method is commands.Channel.Open else "queue.declare"
    said = f"the upstream was lost: the server does not answer {name} within 1 s"
    wait_for_reason(node, vhost, kind, said)


def test_an_upstream_that_falls_silent(node, vhost, far, kind):
    far.answers[heartbeat.Heartbeat] = silent
    federate(node, vhost, far.uri + QUICK)
    said = "the upstream was lost: the server has sent nothing, not even a heartbeat, for 2 s"
    wait_for_reason(node, vhost, kind, said)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (closing_channel(404, "NOT_FOUND - gone"), "404, NOT_FOUND - gone"),
        (closing_channel(406, "PRECONDITION_FAILED - no"), "406, PRECONDITION_FAILED - no"),
        (closing_connection(320, "CONNECTION_FORCED - bye"), "320, CONNECTION_FORCED - bye"),
        (closing_connection(541, "INTERNAL_ERROR"), "541, INTERNAL_ERROR"),
        (sending(bytes(100)), "501, FRAME_ERROR"),
    ],
)
def test_an_upstream_that_refuses_the_consumer(node, vhost, far, kind, answer, said):
    far.answers[commands.Basic.Consume] = answer
    federate(node, vhost, far.uri)
    wait_for_reason(node, vhost, kind, said)
