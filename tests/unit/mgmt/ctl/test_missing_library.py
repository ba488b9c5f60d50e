"""Commands with patterns say in a sentence that PCRE2 is missing, and what to install."""

import subprocess
import sys

import pytest

from leveret.broker.runtime import pcre2
from leveret.mgmt.ctl import leveretctl
from tests.patience import PATIENCE_SECONDS

WITHOUT_LIBRARIES = """
import ctypes, ctypes.util, sys

def no_library(*arguments):
    raise OSError("no such file")

ctypes.PyDLL = no_library
ctypes.util.find_library = lambda name: None

from leveret.mgmt.ctl.leveretctl import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", ["list_policies_that_match q", "consume_event_stream"])
def test_it_is_a_sentence_and_no_traceback(command):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARIES, *command.split()],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.stderr == f"Error: {pcre2.MISSING}\n"
    assert done.returncode == 70


def test_another_missing_module_is_an_error_of_the_program(monkeypatch):
    def fail(*arguments):
        raise ImportError("no module", name="json")

    monkeypatch.setattr(leveretctl, "run", fail)
    with pytest.raises(ImportError):
        leveretctl.main(["status"])
