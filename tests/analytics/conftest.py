"""One Spark session for all tests of a process: it takes seconds to start."""

import pytest

from analytics.session import start_session


@pytest.fixture(scope="session")
def spark():
    session = start_session("local[2]")
    yield session
    session.stop()
