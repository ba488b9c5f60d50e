"""Which bindings an upstream has because of those of a federated exchange."""

import pytest

from leveret.broker.moving.federation.upstream_bindings import (
    BOUND_FROM,
    Bound,
    FederatedBinding,
    UpstreamBindings,
)


def bindings(max_hops=1, upstream="up"):
    return UpstreamBindings(max_hops, "here", "/", "/:x A", upstream, "/")


def binding(queue="q", key="k", **arguments):
    return FederatedBinding(("queue", queue), key, arguments)


def place(cluster, hops, exchange="/:x A"):
    return "F", {
        "cluster-name": ("S", cluster), "vhost": ("S", "/"), "exchange": ("S", exchange),
        "hops": ("s", hops),
    }  # fmt: skip


def bound_from(*places):
    return {BOUND_FROM: ("A", list(places))}


def test_a_binding_says_where_it_comes_from_and_keeps_its_arguments():
    bound = bindings(max_hops=3).added(binding(a=("I", 1)))
    assert bound == Bound("k", {"a": ("I", 1), **bound_from(place("here", 3))})


def test_a_binding_that_several_queues_have_is_there_once():
    it = bindings()
    first = it.added(binding("q1"))
    assert it.added(binding("q2")) is None
    assert it.removed(binding("q1")) is None
    assert it.removed(binding("q2")) == first
    assert it.removed(binding("q2")) is None


def test_bindings_differ_by_key_and_arguments():
    it = bindings()
    added = [it.added(binding(key=key, **more)) for key in "ab" for more in ({}, {"a": ("I", 1)})]
    assert None not in added
    assert len({(one.routing_key, len(one.arguments)) for one in added}) == 4


@pytest.mark.parametrize(
    ("max_hops", "before", "hops"), [(2, 2, 1), (1, 3, 1), (3, 3, 2), (5, 1, None), (5, 0, None)]
)
def test_a_binding_goes_as_many_hops_as_messages_come(max_hops, before, hops):
    bound = bindings(max_hops).added(binding(**bound_from(place("down", before))))
    expected = bound_from(place("here", hops), place("down", before))
    assert bound == (None if hops is None else Bound("k", expected))


def test_a_binding_does_not_go_where_it_was():
    came = bound_from(place("down", 5), place("up", 5))
    assert bindings(5).added(binding(**came)) is None
    assert bindings(5, upstream="other").added(binding(**came)) is not None
    assert bindings(5, upstream=None).added(binding(**came)) is not None
