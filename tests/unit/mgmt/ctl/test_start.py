"""A command line tool that scripts run by the thousand starts fast: what it imports counts."""

import subprocess
import sys

SLOW = ("aiohttp", "asyncio", "cryptography", "inspect", "msgspec", "pamqp", "rich", "typer")


def test_nothing_slow_is_imported():
    program = "import sys, mgmt.ctl.main; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    imported = set(done.stdout.split())
    assert not set(SLOW) & imported
    assert "mgmt.ctl.checks" not in imported
