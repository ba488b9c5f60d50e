"""A feature is enabled when all nodes of the cluster have it."""

from leveret.cluster.node_status.feature_flags import NAMES, states


def test_a_node_without_others_has_all_its_features():
    assert set(states([]).values()) == {"enabled"}
    assert states([]).keys() == NAMES


def test_what_one_node_lacks_is_unavailable():
    found = states([NAMES, NAMES - {"user_limits"}, NAMES | {"later_feature"}])
    assert found.pop("user_limits") == "unavailable"
    assert set(found.values()) == {"enabled"}
