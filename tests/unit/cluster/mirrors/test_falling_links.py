"""Progress: when the network is whole, every publish is confirmed or refused, without another one.

`LEVERET_FALLING_LINKS_SEEDS=20000` runs that many seeds.
"""

import contextlib
import os

import pytest

from tests.unit.cluster.mirrors.falling_links import Life, Lost

SEEDS = int(os.environ.get("LEVERET_FALLING_LINKS_SEEDS", "60"))
AT_ONCE = 20


def run(seed):
    life = Life(seed)
    with contextlib.suppress(Lost):
        life.run()
        for name, publisher in life.publishers.items():
            assert not publisher.owed, f"seed {seed}: {name} waits for {publisher.owed}"


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_nothing_waits_when_links_have_returned(first):
    for seed in range(first, first + AT_ONCE):
        run(seed)
