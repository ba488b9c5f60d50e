"""The zip file for Spark's workers has all that they import of Leveret."""

import os
import subprocess
import sys

import pytest

from leveret.analytics.job.packed_code import packed_code

READ_A_LOG = """
import sys
sys.path.insert(0, sys.argv[1])
import leveret.analytics.job.reading
[path] = leveret.__path__
assert path.startswith(sys.argv[1]), path
"""


@pytest.mark.parametrize("pure", ["", "1"])
def test_a_worker_needs_no_installed_leveret(tmp_path, pure):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["LEVERET_PURE"] = pure
    command = [sys.executable, "-c", READ_A_LOG, str(packed_code())]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
