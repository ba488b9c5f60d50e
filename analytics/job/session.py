"""Starts the Spark session of the job."""

import os
import sys
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from leveret.analytics.job.engines import EngineError
from leveret.analytics.job.files import cause
from leveret.analytics.job.java import find_java
from leveret.analytics.job.packed_code import packed_code
from leveret.broker.resources.available_memory import available_bytes

LOGGING = Path(__file__).absolute().with_name("log4j2.properties").as_uri()
"""Only errors are logged; without it Spark prints warnings and its own settings at each start."""

HEAP_MB_MAX = 4096
"""Heap of a local run, or half of the memory of the machine or container if that is less: the
workers of Python and what Java has beside its heap need the rest. spark-submit has an option.
"""

_OF_LOCAL_RUN = {
    "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={LOGGING}",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""How Spark starts if this job starts it; spark-submit decides itself."""

_NEEDED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A value that does not fit ends the job: it would become a wrong number in a table.
    "spark.sql.ansi.enabled": "true",
}
"""The tables depend on these."""

_PREFERRED = {
    "spark.sql.parquet.compression.codec": "zstd",
    # The aggregation state of percentiles is small, and sorting would be expensive.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "20000",
}
"""Set unless the configuration of Spark sets them."""


def start_session(
    master: str | None = None,
    shuffle_partitions: int | None = None,
    settings: dict[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or use the session of spark-submit. settings: further Spark settings.

    Raises JavaMissingError, and EngineError if Spark does not start.
    """
    find_java()
    builder = SparkSession.builder.appName("leveret analyze")
    if master is not None:
        # Workers must use the Python that runs this, not the first one on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.master(master)
        heap = {"spark.driver.memory": f"{heap_mb(available_bytes())}m"}
        settings = {**_OF_LOCAL_RUN, **heap, **(settings or {})}
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (Py4JError, PySparkException) as error:
        raise EngineError(
            f"Spark does not start with the master {master or 'of spark-submit'}"
            f" ({cause(error)}): check its address, and that this machine can reach it"
        ) from None
    if shuffle_partitions is not None:
        session.conf.set("spark.sql.shuffle.partitions", shuffle_partitions)
    for name, value in _NEEDED.items():
        session.conf.set(name, value)
    for name, value in _PREFERRED.items():
        if session.conf.get(name, None) is None:
            session.conf.set(name, value)
    session.addArtifacts(str(packed_code()), pyfile=True)
    return session


def heap_mb(memory_bytes: int) -> int:
    """Return the heap, in MB, of a local run on a machine with this much memory."""
    return min(HEAP_MB_MAX, memory_bytes // 2 >> 20)
