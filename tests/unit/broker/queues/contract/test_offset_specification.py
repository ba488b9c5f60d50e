"""Where a consumer of a log begins to read, as `x-stream-offset` says it."""

import pytest

from leveret.broker.queues.contract.offset_specification import (
    FIRST,
    LAST,
    NEXT,
    OFFSET,
    TIMESTAMP,
    OffsetSpecification,
    read_offset,
)

NOW_S = 40 * 86_400.0


@pytest.mark.parametrize(
    ("field", "specification"),
    [
        (("S", "first"), FIRST),
        (("S", "last"), LAST),
        (("S", "next"), NEXT),
        (("I", 0), OffsetSpecification(OFFSET, 0)),
        (("l", 5_000_000_000), OffsetSpecification(OFFSET, 5_000_000_000)),
        (("l", -1), OffsetSpecification(OFFSET, 0)),
        (("T", 1_000), OffsetSpecification(TIMESTAMP, 1_000_000)),
        (("S", "10s"), OffsetSpecification(TIMESTAMP, 3_455_990_000)),
        (("S", "2m"), OffsetSpecification(TIMESTAMP, 3_455_880_000)),
        (("S", "1h"), OffsetSpecification(TIMESTAMP, 3_452_400_000)),
        (("S", "1D"), OffsetSpecification(TIMESTAMP, 39 * 86_400_000)),
        (("S", "1M"), OffsetSpecification(TIMESTAMP, 10 * 86_400_000)),
        (("S", "1Y"), OffsetSpecification(TIMESTAMP, 0)),
        (("S", "9" * 18 + "s"), OffsetSpecification(TIMESTAMP, 0)),
        (("S", "9" * 400 + "s"), OffsetSpecification(TIMESTAMP, 0)),
        (("S", "9" * 5_000 + "Y"), OffsetSpecification(TIMESTAMP, 0)),
        (("T", 2**64 - 1), OffsetSpecification(TIMESTAMP, 2**63 - 1)),
    ],
)
def test_specifications(field, specification):
    assert read_offset(field, NOW_S) == specification


@pytest.mark.parametrize(
    "field",
    [
        ("S", ""), ("S", "First"), ("S", "10"), ("S", "1x"), ("S", "-1h"), ("S", "0h"),
        ("S", "1.5h"), ("t", True), ("d", 1.5), ("V", None), ("A", [("S", "first")]),
    ],
)  # fmt: skip
def test_what_is_no_specification(field):
    assert read_offset(field, NOW_S) is None
