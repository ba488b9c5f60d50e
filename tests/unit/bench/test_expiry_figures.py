"""The figures of messages that expire: what is measured has happened to each message."""

import asyncio

import pytest

from tests.bench.expiry_figures import CASES, Meter, measured

BY_NAME = {case.name: case for case in CASES}
OWN = BY_NAME["own times, on time"]


@pytest.mark.parametrize(
    ("case", "way"),
    [(BY_NAME["none"], "kept"), (OWN, "kept"), (OWN, "later"), (OWN, "expired")],
    ids=["none", "kept", "later", "expired"],
)
def test_all_messages_are_consumed_or_expire(case, way):
    """Otherwise it does not end."""
    assert asyncio.run(measured(case, 300, Meter(), is_persistent=True, way=way)) > 0
