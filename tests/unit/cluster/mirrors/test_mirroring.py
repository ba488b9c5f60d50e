"""Which nodes a policy wants a queue on."""

import pytest

from leveret.cluster.mirrors.planning import (
    NOT_MIRRORED,
    Mirroring,
    NodesInView,
    NodesOfQueue,
    place,
    read_mirroring,
)

CLUSTER = frozenset("abcd")


def placed(definition, leader, mirrors="", synchronised="", running=CLUSTER, maintained=""):
    """Where the queue is to be. Of several nodes the last one is chosen."""
    return place(
        read_mirroring(definition), leader, tuple(mirrors), frozenset(synchronised),
        NodesInView(frozenset(running), frozenset(maintained)), lambda count: count - 1,
    )  # fmt: skip


class TestAll:
    ALL = {"ha-mode": "all"}

    def test_every_running_node_has_the_queue(self):
        assert placed(self.ALL, "b") == NodesOfQueue("b", ("a", "c", "d"))

    def test_those_that_have_it_come_first(self):
        assert placed(self.ALL, "a", "dc") == NodesOfQueue("a", ("d", "c", "b"))

    def test_a_node_alone(self):
        assert placed(self.ALL, "a", running="a") == NodesOfQueue("a", ())


class TestExactly:
    @staticmethod
    def exactly(count):
        return {"ha-mode": "exactly", "ha-params": count}

    def test_others_are_chosen(self):
        assert placed(self.exactly(3), "a") == NodesOfQueue("a", ("d", "c"))

    def test_another_is_chosen_for_one_that_is_gone(self):
        assert placed(self.exactly(3), "a", "b", running="abd") == NodesOfQueue("a", ("b", "d"))

    def test_fewer_nodes_than_asked_for(self):
        assert placed(self.exactly(5), "a", running="ab") == NodesOfQueue("a", ("b",))

    def test_of_too_many_the_synchronised_stay(self):
        assert placed(self.exactly(2), "a", "bcd", "c") == NodesOfQueue("a", ("c",))

    def test_of_too_many_synchronised_the_oldest_stay(self):
        assert placed(self.exactly(3), "a", "dcb", "dcb") == NodesOfQueue("a", ("d", "c"))

    def test_one_node_is_no_mirroring(self):
        assert read_mirroring(self.exactly(1)) == NOT_MIRRORED


class TestNodes:
    @staticmethod
    def named(*nodes):
        return {"ha-mode": "nodes", "ha-params": list(nodes)}

    def test_those_that_run(self):
        assert placed(self.named("a", "c", "x"), "a") == NodesOfQueue("a", ("c",))

    def test_the_leader_stays_until_a_named_mirror_is_synchronised(self):
        first = placed(self.named("c", "d"), "a", "b", "b")
        assert first == NodesOfQueue("a", ("c", "d"))
        still = placed(self.named("c", "d"), "a", first.mirrors)
        assert still == NodesOfQueue("a", ("c", "d"))
        then = placed(self.named("c", "d"), "a", first.mirrors, "d")
        assert then == NodesOfQueue("d", ("c",))

    def test_none_of_the_nodes_runs(self):
        assert placed(self.named("x", "y"), "a", "b", "b") == NodesOfQueue("a", ())

    def test_a_node_that_is_named_twice_counts_once(self):
        assert placed(self.named("c", "c", "a"), "a") == NodesOfQueue("a", ("c",))

    def test_a_mirror_that_is_named_stays(self):
        assert placed(self.named("d", "b", "a"), "a", "b") == NodesOfQueue("a", ("b", "d"))


class TestMaintenance:
    @pytest.mark.parametrize(
        ("definition", "expected"),
        [
            ({"ha-mode": "all"}, ("b", "c")),
            ({"ha-mode": "exactly", "ha-params": 4}, ("b", "c")),
            ({"ha-mode": "nodes", "ha-params": ["a", "b", "d"]}, ("b",)),
        ],
    )
    def test_a_node_gets_no_new_mirror_and_keeps_an_old_one(self, definition, expected):
        assert placed(definition, "a", "b", maintained="bd") == NodesOfQueue("a", expected)

    def test_it_hands_over_to_a_synchronised_mirror_and_stays_a_mirror(self):
        every = {"ha-mode": "all"}
        assert placed(every, "a", "bcd", "cd", maintained="ac") == NodesOfQueue(
            "d", ("a", "b", "c")
        )

    def test_it_leads_on_while_there_is_no_such_mirror(self):
        assert placed({"ha-mode": "all"}, "a", "b", maintained="a") == NodesOfQueue(
            "a", ("b", "c", "d")
        )


def test_a_policy_that_mirrors_nothing_takes_the_mirrors_away():
    assert placed({"max-length": 5}, "b", "ac", "ac") == NodesOfQueue("b", ())


@pytest.mark.parametrize(
    ("key", "value", "name", "expected"),
    [
        ("ha-sync-mode", "automatic", "is_automatic", True),
        ("ha-sync-batch-size", 50, "batch_size", 50),
        ("ha-promote-on-shutdown", "always", "on_shutdown", "always"),
        ("ha-promote-on-failure", "when-synced", "on_failure", "when-synced"),
    ],
)
def test_what_else_a_policy_says(key, value, name, expected):
    defaults = read_mirroring({"ha-mode": "all"})
    assert getattr(defaults, name) != expected
    assert getattr(read_mirroring({"ha-mode": "all", key: value}), name) == expected


def test_of_a_policy_without_a_mode_nothing_counts():
    assert read_mirroring({"ha-promote-on-failure": "when-synced"}) == NOT_MIRRORED


def test_the_choice_of_a_leader_depends_on_how_the_last_one_went():
    by_default = read_mirroring({"ha-mode": "all"})
    assert by_default.may_lead_unsynchronised(is_stopped=False)
    assert not by_default.may_lead_unsynchronised(is_stopped=True)
    other_way = Mirroring("all", on_shutdown="always", on_failure="when-synced")
    assert not other_way.may_lead_unsynchronised(is_stopped=False)
    assert other_way.may_lead_unsynchronised(is_stopped=True)


def test_the_configured_size_of_batches_counts_unless_the_policy_names_one():
    assert read_mirroring({"ha-mode": "all"}, 500).batch_size == 500
    assert read_mirroring({"ha-mode": "all", "ha-sync-batch-size": 7}, 500).batch_size == 7
