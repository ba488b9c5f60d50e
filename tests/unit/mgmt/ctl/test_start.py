"""A command starts fast, since scripts run thousands of them: it imports few modules."""

import subprocess
import sys

from tests.patience import PATIENCE_SECONDS

SLOW = ("aiohttp", "asyncio", "cryptography", "inspect", "msgspec", "pamqp", "rich", "typer")


def test_nothing_slow_is_imported():
    program = "import sys, leveret.mgmt.ctl.leveretctl; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    imported = set(done.stdout.split())
    assert not set(SLOW) & imported
    assert "leveret.mgmt.ctl.checks" not in imported
