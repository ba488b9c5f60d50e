"""Each kind of object leaves nothing in memory, however often it is declared, used and deleted.

`python -m tests.churn.run --cycles 10000` does the same for longer, and prints figures.
"""

import json
import subprocess
import sys

import pytest

from tests.churn import run
from tests.churn.measuring import Left
from tests.patience import PATIENCE_SECONDS

CYCLES, WARM_UP = 40, 15
FAMILIES = list(run.FAMILIES)


def measured(kinds):
    """What is left of kinds of objects: in a process of its own, which counts nothing of pytest."""
    command = [
        sys.executable, "-m", "tests.churn.run", "--json", "--cycles", str(CYCLES),
        "--warm-up", str(WARM_UP), "--kinds", *kinds,
    ]  # fmt: skip
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=6 * PATIENCE_SECONDS
    )
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(rows) == len(kinds), ran.stderr
    return {kind: Left(*figures) for kind, *figures in rows}


@pytest.mark.parametrize("families", [FAMILIES[::2], FAMILIES[1::2]], ids=" ".join)
def test_memory_is_flat(families):
    """In two processes: one takes a processor longer to start than several kinds to be measured."""
    left = measured([kind for family in families for kind in run.FAMILIES[family]])
    grown = {kind: str(one) for kind, one in left.items() if not one.is_flat}
    assert grown == {}
