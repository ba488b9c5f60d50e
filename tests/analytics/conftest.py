"""One Spark session for all tests of a process: it takes seconds to start."""

import pytest

from analytics.session import start_session

_FOR_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
"""Compiling queries takes longer than to run them on so little."""


@pytest.fixture(scope="session")
def spark():
    session = start_session("local[2]", settings=_FOR_FEW_ROWS)
    yield session
    session.stop()
