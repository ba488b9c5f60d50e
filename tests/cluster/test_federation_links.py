"""A federation link of a cluster is listed and restarted from each of its nodes."""

from leveret.broker.moving.federation.link_definition import LinkPlace
from leveret.broker.moving.transfers.placement_by_hash import chosen

LINKS = "federation-links"


def federate(node):
    """Have exchange `fx` get the messages published to `there` in another vhost of the node."""
    assert node.put("vhosts/upstream").status == 201
    assert node.put("exchanges/%2F/fx", {"type": "fanout"}).status == 201
    upstream = {"uri": f"amqp://127.0.0.1:{node.port}/upstream", "exchange": "there"}
    assert node.put("parameters/federation-upstream/%2F/up", {"value": upstream}).status == 201
    policy = {"pattern": "^fx$", "definition": {"federation-upstream": "up"}}
    assert node.put("policies/%2F/p", policy).status == 201


def test_a_link_is_seen_and_restarted_from_each_node(nodes):
    by_name = {node.name: node for node in nodes}
    place = LinkPlace("exchange", "/", "fx", "up", "there")
    runner = by_name.pop(chosen(place, by_name))
    (other,) = by_name.values()
    federate(other)

    def seen(node):
        """The status and connection of the link, as a node lists it."""
        found = node.get(f"{LINKS}/%2F")
        assert [one["id"] for one in found] in ([], [place.link_id])
        return [(one["node"], one["status"], one.get("local_connection")) for one in found]

    def connection():
        return next((name for _, status, name in seen(other) if status == "running"), None)

    other.wait_until(connection, "the link runs")
    first = connection()
    assert seen(other) == seen(runner) == [(runner.name, "running", first)]
    (shown,) = other.get(LINKS)
    assert shown["local_channel"]["node"] == runner.name
    assert other.get(f"{LINKS}/state/down") == []
    path = f"{LINKS}/vhost/%2F/{place.link_id}/{runner.name}/restart"
    assert other.delete(path).status == 204
    other.wait_until(lambda: connection() not in (first, None), "it runs again")
    elsewhere = f"{LINKS}/vhost/%2F/{place.link_id}/{other.name}/restart"
    assert runner.delete(elsewhere).status == 404
