"""Shovels whose user may not do what they need, whose queues are missing, whose ways are circles:
the status or the log says so, and no message is lost or multiplied.
"""

import pytest

from tests.mgmt.test_shovels import (
    local,
    publish,
    ready,
    shovel,
    state,
    take_all,
    uri,
    wait_for_state,
)

BODIES = [b"%d" % number for number in range(20)]
CAME_ROUND = "moves a message that it has moved before"


@pytest.fixture
def poor(node, vhost):
    """Sets what a user may do, and returns its URI."""

    def permit(configure, write, read):
        name = f"poor-{vhost}"
        user = {"password": "secret", "tags": ""}
        assert node.put(f"users/{name}", user).status in (201, 204)
        rights = {"configure": configure, "write": write, "read": read}
        assert node.put(f"permissions/{vhost}/{name}", rights).status in (201, 204)
        return f"{uri(node, f'{name}:secret')}/{vhost}"

    return permit


def reason(node, vhost):
    wait_for_state(node, vhost, "terminated")
    (shown,) = node.get(f"shovels/{vhost}")
    return shown["reason"]


@pytest.mark.parametrize(
    ("rights", "end", "said"),
    [
        ((".*", ".*", ""), "source", "the source refuses: 403, ACCESS_REFUSED - "),
        (("", ".*", ".*"), "destination", "the destination refuses: 403, ACCESS_REFUSED - "),
        ((".*", "", ".*"), "destination", "the destination was lost: 403, ACCESS_REFUSED - "),
    ],
)
def test_a_user_who_may_not(node, vhost, channel, poor, rights, end, said):
    publish(channel, "from", BODIES)
    ends = {"src_uri": local(vhost), "dest_uri": local(vhost)}
    ends["src_uri" if end == "source" else "dest_uri"] = poor(*rights)
    shovel(node, vhost, src_queue="from", dest_queue="to", reconnect_delay=3600, **ends)
    assert reason(node, vhost).startswith(said)
    node.wait_until(lambda: ready(node, vhost, "from") == len(BODIES), "all are back")
    assert "secret" not in node.log


@pytest.mark.parametrize(
    ("key", "end", "queue"),
    [("src_predeclared", "source", "from"), ("dest_predeclared", "destination", "to")],
)
def test_a_predeclared_queue_is_waited_for_and_not_declared(node, vhost, channel, key, end, queue):
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=local(vhost),
        dest_queue="to", reconnect_delay=1, **{key: True},
    )  # fmt: skip
    missing = f"the {end} refuses: 404, NOT_FOUND - no queue '{queue}' in vhost '{vhost}'"
    assert reason(node, vhost) == missing
    assert ready(node, vhost, queue) is None
    channel.queue_declare(queue)
    wait_for_state(node, vhost, "running")
    channel.basic_publish("", "from", b"moved")
    node.wait_until(lambda: ready(node, vhost, "to") == 1, "it is moved")


@pytest.mark.parametrize("headers", [True, False])
def test_a_circle_of_three_brokers_multiplies_nothing(node, vhost, channel, headers):
    places = [f"{vhost}-{letter}" for letter in "abc"]
    for place in places:
        assert node.put(f"vhosts/{place}").status == 201
    publish(channel, "start", BODIES)
    ends = zip(places, [*places[1:], places[0]], strict=True)
    for source, destination in ends:
        shovel(
            node, source, src_uri=local(source), src_queue="round", dest_uri=local(destination),
            dest_queue="round", dest_add_forward_headers=headers,
        )  # fmt: skip
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="start", dest_uri=local(places[0]),
        dest_queue="round", src_delete_after="queue-length",
    )  # fmt: skip
    node.wait_until(lambda: state(node, vhost) is None, "all are on their way")

    def has_gone_round():
        if headers:
            return f"shovel 's' in vhost '{places[0]}' {CAME_ROUND}" in node.log
        return node.get(f"shovels/vhost/{places[0]}/s")["forwarded"] > 3 * len(BODIES)

    node.wait_until(has_gone_round, "they have gone round")
    for place in places:
        assert node.delete(f"parameters/shovel/{place}/s").status == 204
        wait_for_state(node, place, None)
    for place in places:
        shovel(
            node, vhost, place, src_uri=local(place), src_queue="round", dest_uri=local(vhost),
            dest_queue="end",
        )  # fmt: skip
    node.wait_until(lambda: ready(node, vhost, "end") == len(BODIES), "all are there")
    assert sorted(take_all(channel, "end")) == sorted(BODIES)
    for place in places:
        node.wait_until(lambda place=place: ready(node, place, "round") == 0, "nothing is left")
    for place in places:
        node.delete(f"vhosts/{place}")


def test_an_exchange_that_leads_back_to_the_source_is_told(node, vhost, channel):
    channel.exchange_declare("back", "fanout")
    channel.queue_declare("from", durable=True)
    channel.queue_bind("from", "back")
    channel.basic_publish("", "from", b"round")
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=local(vhost),
        dest_exchange="back", dest_add_forward_headers=True,
    )  # fmt: skip
    told = f"shovel 's' in vhost '{vhost}' {CAME_ROUND}"
    node.wait_until(lambda: told in node.log, "it is told")
    assert node.delete(f"parameters/shovel/{vhost}/s").status == 204
    wait_for_state(node, vhost, None)
    node.wait_until(lambda: ready(node, vhost, "from") == 1, "the message is there, once")
    assert node.log.count(told) == 1
