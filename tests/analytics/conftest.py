"""One Spark session for the few tests of Spark in a process, since starting one takes seconds."""

import pytest

from leveret.analytics.session import start_session
from tests.analytics.known_trace import write_known_trace
from tests.analytics.running import analyze_quickly

_FOR_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
"""Compiling queries takes longer than running them on so little data."""


@pytest.fixture(scope="session")
def spark():
    session = start_session("local[2]", settings=_FOR_FEW_ROWS)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def known_tables(tmp_path_factory):
    """The directory of the tables of known_trace.py."""
    directory = tmp_path_factory.mktemp("known")
    write_known_trace(directory / "trace")
    analyze_quickly(directory / "trace", directory / "out")
    return str(directory / "out")
