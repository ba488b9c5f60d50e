"""What differs between a standby's definitions and those of its upstream, and in which order."""

import copy

import pytest

from leveret.broker.policies.schema_replication import KINDS, parse_upstream
from leveret.mgmt.standby.comparing import difference
from leveret.mgmt.standby.safety import deletes_much, digest_of, held_reason

DEFINITIONS = {
    "vhosts": [{"name": "/", "description": "Default", "tags": [], "metadata": {"tags": []}}],
    "users": [{"name": "ann", "password_hash": "aGFzaA==", "hashing_algorithm": "sha256",
               "tags": ["administrator"], "limits": {}}],
    "permissions": [{"vhost": "/", "user": "ann", "configure": "", "write": ".*", "read": ".*"}],
    "topic_permissions": [
        {"vhost": "/", "user": "ann", "exchange": "t", "write": "a", "read": "b"}],
    "global_parameters": [{"name": "colour", "value": {"r": 1}}],
    "parameters": [{"vhost": "/", "component": "federation-upstream", "name": "up",
                    "value": {"uri": "amqp://far"}}],
    "policies": [{"vhost": "/", "name": "p", "pattern": "^q", "apply-to": "queues",
                  "definition": {"max-length": 5}, "priority": 1}],
    "exchanges": [{"vhost": "/", "name": "x", "type": "topic", "durable": True,
                   "auto_delete": False, "internal": False, "arguments": {}}],
    "queues": [{"vhost": "/", "name": "q", "durable": True, "auto_delete": False,
                "arguments": {"x-max-priority": 3}}],
    "bindings": [{"vhost": "/", "source": "x", "destination": "q", "destination_type": "queue",
                  "routing_key": "k", "arguments": {}}],
}  # fmt: skip
CHANGES = {
    "vhosts": {"description": "another"}, "users": {"tags": ["monitoring"]},
    "permissions": {"configure": "^a"}, "topic_permissions": {"read": "c"},
    "global_parameters": {"value": {"r": True}}, "parameters": {"value": {"uri": "amqp://near"}},
    "policies": {"definition": {"max-length": 6}}, "exchanges": {"type": "direct"},
    "queues": {"arguments": {}},
}  # fmt: skip


async def go_on():
    """Give way: nothing else runs."""


async def compare(own, wanted, **setting):
    given = {"endpoints": ["far"], "username": "u", "password": "p", **setting}
    return await difference(own, wanted, parse_upstream(given), go_on)


def names(items):
    return [(one.kind, one.key) for one in items]


def with_item(kind, **changes):
    """The definitions with one changed item of a kind."""
    changed = copy.deepcopy(DEFINITIONS)
    changed[kind][0].update(changes)
    return changed


def with_items(**lists):
    """The definitions with other lists of some kinds."""
    return {**DEFINITIONS, **lists}


async def test_equal_definitions_do_not_differ():
    found = await compare(DEFINITIONS, copy.deepcopy(DEFINITIONS))
    assert found.is_empty
    assert found.own_count == len(KINDS)


async def test_additions_come_in_the_order_of_their_dependencies():
    found = await compare({}, DEFINITIONS)
    assert [one.kind for one in found.puts] == list(KINDS)
    assert not found.deletions
    assert not any(one.is_change for one in found.puts)


async def test_deletions_come_in_the_reverse_order():
    found = await compare(DEFINITIONS, with_items(**{kind: [] for kind in KINDS[1:]}))
    assert [one.kind for one in found.deletions] == list(reversed(KINDS[1:]))
    assert not found.puts


async def test_the_contents_of_a_vhost_go_with_it_except_for_its_queues():
    found = await compare(DEFINITIONS, {})
    kinds = [one.kind for one in found.deletions]
    assert kinds == ["queues", "global_parameters", "users", "vhosts"]
    assert found.lacked_count == len(KINDS)


@pytest.mark.parametrize("kind", list(CHANGES))
async def test_a_changed_item_is_put(kind):
    found = await compare(DEFINITIONS, with_item(kind, **CHANGES[kind]))
    (one, *rest) = found.puts
    assert (one.kind, one.is_change) == (kind, True)
    assert not found.deletions
    if kind in ("queues", "exchanges"):
        # They cannot be changed: they are deleted and declared again, and lose their bindings.
        assert names(found.replaced) == [(kind, one.key)]
        assert [other.kind for other in rest] == ["bindings"]
    else:
        assert not found.replaced
        assert not rest


async def test_a_binding_with_other_arguments_is_another_one():
    found = await compare(DEFINITIONS, with_item("bindings", arguments={"a": 1}))
    assert [one.item["arguments"] for one in found.puts] == [{"a": 1}]
    assert [one.item["arguments"] for one in found.deletions] == [{}]


@pytest.mark.parametrize(("own", "wanted"), [(1, True), (1, 1.0), ("1", 1)])
async def test_values_of_other_types_differ(own, wanted):
    here = with_item("queues", arguments={"x": own})
    found = await compare(here, with_item("queues", arguments={"x": wanted}))
    assert len(found.replaced) == 1


async def test_the_order_of_keys_and_omitted_defaults_make_no_difference():
    there = copy.deepcopy(DEFINITIONS)
    there["vhosts"] = [{"name": "/"}]
    there["users"][0].update(tags="administrator", limits=[])
    there["queues"][0].pop("auto_delete")
    there["exchanges"] = [{"vhost": "/", "name": "x", "type": "topic"}]
    there["bindings"][0].pop("destination_type")
    there["bindings"][0].pop("arguments")
    there["policies"][0] = dict(reversed(there["policies"][0].items()))
    assert (await compare(DEFINITIONS, there)).is_empty


async def test_names_may_have_any_letters():
    name = "größe/日本 %2F\u0000 queue"
    there = with_items(
        queues=[*DEFINITIONS["queues"], {"vhost": "/", "name": name, "arguments": {"ü": "é"}}]
    )
    found = await compare(DEFINITIONS, there)
    assert names(found.puts) == [("queues", ("/", name))]
    assert (await compare(there, copy.deepcopy(there))).is_empty


@pytest.mark.parametrize(
    "queue",
    [
        {"name": "transient", "durable": False}, {"name": "leaving", "auto_delete": True},
        {"name": "amq.gen-1"},
    ],
)  # fmt: skip
async def test_queues_that_do_not_stay_are_not_followed_on_either_side(queue):
    binding = {"vhost": "/", "source": "x", "destination": queue["name"]}
    there = with_items(
        queues=[*DEFINITIONS["queues"], {"vhost": "/", **queue}],
        bindings=[*DEFINITIONS["bindings"], binding],
    )
    assert (await compare(DEFINITIONS, there)).is_empty
    assert (await compare(there, DEFINITIONS)).is_empty


async def test_bindings_of_exchanges_that_do_not_stay_are_not_followed():
    there = with_items(
        exchanges=[*DEFINITIONS["exchanges"],
                   {"vhost": "/", "name": "leaving", "type": "fanout", "auto_delete": True}],
        bindings=[*DEFINITIONS["bindings"],
                  {"vhost": "/", "source": "leaving", "destination": "q"},
                  {"vhost": "/", "source": "x", "destination": "leaving",
                   "destination_type": "exchange"}],
    )  # fmt: skip
    assert (await compare(DEFINITIONS, there)).is_empty


async def test_bindings_between_predeclared_exchanges_are_followed():
    binding = {"vhost": "/", "source": "amq.topic", "destination": "amq.fanout",
               "destination_type": "exchange"}  # fmt: skip
    there = with_items(bindings=[*DEFINITIONS["bindings"], binding])
    assert [one.item for one in (await compare(DEFINITIONS, there)).puts] == [binding]


async def test_the_cluster_keeps_its_name_and_id():
    own = [{"name": "cluster_name", "value": "a"}, {"name": "internal_cluster_id", "value": "1"}]
    theirs = [{"name": "cluster_name", "value": "b"}, {"name": "internal_cluster_id", "value": "2"}]
    parameters = DEFINITIONS["global_parameters"]
    found = await compare(
        with_items(global_parameters=[*parameters, *own]),
        with_items(global_parameters=[*parameters, *theirs]),
    )
    assert found.is_empty


async def test_local_users_and_their_permissions_are_left_alone():
    others = {kind: [] for kind in ("users", "permissions", "topic_permissions")}
    there = with_items(**others)
    assert (await compare(DEFINITIONS, there, local_users=["ann"])).is_empty
    assert len((await compare(DEFINITIONS, there)).deletions) == 3


async def test_only_the_vhosts_that_are_named_are_followed():
    there = with_items(
        vhosts=[*DEFINITIONS["vhosts"], {"name": "other"}],
        queues=[{"vhost": "other", "name": "q"}],
    )
    found = await compare({}, there, vhosts=["other"])
    assert names(found.puts)[0] == ("vhosts", ("other",))
    assert ("queues", ("other", "q")) in names(found.puts)
    assert not [one for one in found.puts if one.item.get("vhost") == "/"]


async def test_only_the_kinds_that_are_named_are_followed():
    found = await compare({}, DEFINITIONS, kinds=["vhosts", "queues"])
    assert [one.kind for one in found.puts] == ["vhosts", "queues"]


async def test_items_without_a_name_are_left_out():
    there = with_items(queues=[*DEFINITIONS["queues"], {"vhost": "/"}, {"name": 5, "vhost": "/"}])
    assert (await compare(DEFINITIONS, there)).is_empty


# What an operator has to accept


def queues(count):
    return [{"vhost": "/", "name": f"q{number}"} for number in range(count)]


@pytest.mark.parametrize(("left", "is_much"), [(0, True), (5, True), (6, False), (10, False)])
async def test_more_than_half_is_much(left, is_much):
    found = await compare({"queues": queues(11)}, {"queues": queues(left)})
    assert deletes_much(found) is is_much


async def test_a_few_deletions_are_not_much():
    found = await compare({"queues": queues(4)}, {})
    assert not deletes_much(found)


async def test_the_reason_says_how_much_is_lacked():
    reason = held_reason(await compare({"queues": queues(9)}, {"queues": queues(1)}))
    assert "lacks 8 of the 9 objects" in reason
    assert "accept_schema_replication" in reason


async def test_the_digest_depends_on_the_objects_of_the_upstream_alone():
    first = await digest_of(await compare({}, {"queues": queues(3)}), go_on)
    shuffled = await compare({"queues": queues(9)}, {"queues": queues(3)[::-1]})
    assert await digest_of(shuffled, go_on) == first
    assert await digest_of(await compare({}, {"queues": queues(2)}), go_on) != first
