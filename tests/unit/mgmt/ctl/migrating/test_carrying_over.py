"""What of definitions is imported, and what is left out and why."""

import pytest

from leveret.mgmt.ctl.migrating.carrying_over import Held, select, take_out


def parameter(component, name):
    return {"component": component, "vhost": "/", "name": name, "value": {}}


def queue(name, **arguments):
    return {"vhost": "/", "name": name, "arguments": arguments}


def test_shovels_and_upstreams_are_held_back_but_not_links_of_a_migration():
    shovels = [parameter("shovel", "mine"), parameter("shovel", "migration orders")]
    limits = parameter("vhost-limits", "limits")
    chosen = select({"parameters": [*shovels, parameter("federation-upstream", "up"), limits]})
    assert chosen.held == [Held("shovel", "/", "mine"), Held("federation-upstream", "/", "up")]
    assert chosen.definitions["parameters"] == [limits]


def test_the_identity_of_the_cluster_stays():
    names = ["cluster_name", "internal_cluster_id", "leveret_migration", "mqtt_port_to_vhost"]
    chosen = select({"global_parameters": [{"name": name, "value": 1} for name in names]})
    assert [one["name"] for one in chosen.definitions["global_parameters"]] == [names[-1]]
    assert [one.what for one in chosen.left_out] == [
        "global parameter 'cluster_name'", "global parameter 'internal_cluster_id'"
    ]  # fmt: skip


def test_queues_of_federation_links_stay_with_their_bindings():
    binding = {"vhost": "/", "source": "x", "destination": "f", "destination_type": "queue"}
    chosen = select({
        "queues": [queue("f", **{"x-internal-purpose": "federation"}), queue("q")],
        "bindings": [binding, binding | {"destination": "q"}],
    })  # fmt: skip
    assert [one["name"] for one in chosen.definitions["queues"]] == ["q"]
    assert [one["destination"] for one in chosen.definitions["bindings"]] == ["q"]


def test_an_argument_is_left_out_before_its_queue():
    definitions = {"queues": [queue("a"), queue("b", **{"x-max-length": "many", "x-expires": 1})]}
    path = "queues[1].arguments.x-max-length"
    left_out = take_out(definitions, [{"path": path, "reason": "invalid arg"}])
    assert definitions["queues"][1]["arguments"] == {"x-expires": 1}
    assert [str(one) for one in left_out] == [
        "x-max-length of queue 'b' in vhost '/': invalid arg (nearest: the queue without it)"
    ]  # fmt: skip


def test_an_unknown_type_of_queue_becomes_a_classic_one():
    definitions = {"queues": [queue("a", **{"x-queue-type": "jms"})]}
    path = "queues[0].arguments.x-queue-type"
    (left_out,) = take_out(definitions, [{"path": path, "reason": "invalid"}])
    assert definitions["queues"][0]["arguments"] == {}
    assert left_out.nearest == "a classic queue, which is declared instead"


def test_keys_of_a_policy_that_the_reason_names_are_left_out():
    policy = {"vhost": "/", "name": "p", "pattern": ".*"}
    reason = 'Validation failed\n\n[{<<"lenght">>,1}] are not recognised policy settings\n'
    both, one = {"lenght": 1, "max-length": 2}, {"lenght": 1}
    definitions = {"policies": [policy | {"definition": found} for found in (both, one)]}
    problems = [{"path": f"policies[{n}].definition", "reason": reason} for n in range(2)]
    left_out = take_out(definitions, problems)
    assert [one["definition"] for one in definitions["policies"]] == [{"max-length": 2}]
    assert [one.what for one in left_out] == [
        "lenght of policy 'p' in vhost '/'", "policy 'p' in vhost '/'"
    ]  # fmt: skip


def test_an_object_that_cannot_be_imported_at_all():
    definitions = {"exchanges": [{"vhost": "/", "name": "x", "type": "x-jms-topic"}]}
    problem = {"path": "exchanges[0].type", "reason": "invalid exchange type"}
    (left_out,) = take_out(definitions, [problem])
    assert definitions["exchanges"] == []
    assert "direct, fanout, topic or headers" in left_out.nearest


def test_a_problem_of_no_object_is_not_passed_over():
    with pytest.raises(ValueError, match="too large"):
        take_out({}, [{"path": "", "reason": "too large"}])
