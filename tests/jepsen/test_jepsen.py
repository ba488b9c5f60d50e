"""Short runs with mirrored queues under faults. `make jepsen` makes longer ones, with any seed."""

import pytest

from tests.cluster.namespaces import why_not
from tests.jepsen.plan import PAUSE_IF_ALL_DOWN, PAUSE_MINORITY, plan
from tests.jepsen.run import Run, run

WHY_NOT = why_not()
SECONDS = 20.0


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
@pytest.mark.parametrize(
    "wanted",
    [Run(1, PAUSE_MINORITY, 3, SECONDS, 1), Run(3, PAUSE_IF_ALL_DOWN, 3, SECONDS, 1)],
    ids=lambda wanted: wanted.mode,
)
def test_nothing_that_was_confirmed_is_lost(tmp_path, wanted):
    lines = []
    outcome = run(wanted, tmp_path, lines.append)
    assert not outcome.problems, "\n".join([str(wanted), *lines, *outcome.figures])


def test_a_plan_follows_from_its_seed():
    def planned(seed):
        return plan(seed, "abc", 60, PAUSE_MINORITY, 2)

    assert planned(1) == planned(1)
    assert planned(1) != planned(2)
