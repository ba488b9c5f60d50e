"""What all tests have in common.

No example of hypothesis has a time limit. Nodes that tests start have no links to others unless
they say so: they run side by side, and their ports would be taken.
"""

import os
import signal

import pytest
from hypothesis import settings

os.environ.setdefault("LEVERET_CLUSTER_PORT", "0")

settings.register_profile("leveret", deadline=None)
settings.load_profile("leveret")


@pytest.fixture
def interrupts():
    """SIGINT interrupts what the test starts, also where the tests run in the background of a
    shell, which has them ignore it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
