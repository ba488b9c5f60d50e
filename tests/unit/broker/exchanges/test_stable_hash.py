"""The hash function of distributing exchanges."""

from leveret.broker.exchanges.stable_hash import stable_hash


def test_it_never_changes() -> None:
    """The nodes of a cluster, and versions before and after an upgrade, must agree on it."""
    assert stable_hash("order.42") == 0xDE3CAB324FF0EA87
    assert stable_hash(("I", 42)) == 0x1D38F00065D32BDF


def test_types_and_values_are_told_apart() -> None:
    values = [None, "1", 1, ("I", 1), ("l", 1), ("S", "1"), ("x", b"1"), "\udcff", ""]
    assert len({stable_hash(value) for value in values}) == len(values)
