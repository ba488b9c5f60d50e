"""Progress: when the network is whole, every publish is confirmed or refused, without another one,
and every subscription is answered.

`LEVERET_FALLING_LINKS_SEEDS=20000` runs that many seeds.
"""

import os

import pytest

from tests.unit.cluster.mirrors.falling_links import Life, Lost

SEEDS = int(os.environ.get("LEVERET_FALLING_LINKS_SEEDS", "60"))
AT_ONCE = 20


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_nothing_waits_when_links_have_returned(first):
    for seed in range(first, first + AT_ONCE):
        life = Life(seed)
        try:
            life.run()
            life.check()
        except Lost:
            continue
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
