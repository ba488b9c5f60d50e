"""Starts the Spark session of the job."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from leveret.analytics.job.java import find_java
from leveret.analytics.job.packed_code import packed_code

LOGGING = Path(__file__).absolute().with_name("log4j2.properties").as_uri()
"""Only errors are logged; without it Spark prints warnings and its own settings at each start."""

DRIVER_MEMORY = "4g"
"""Heap of a local run; spark-submit has its own option."""

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # The aggregation state of percentiles is small, and sorting would be expensive.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "20000",
    # A syntax error makes one corrupt line, and does not end the job.
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.ansi.enabled": "false",
}


def start_session(
    master: str | None = None,
    shuffle_partitions: int | None = None,
    settings: dict[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or use the session of spark-submit. settings: further Spark settings."""
    find_java()
    # Workers must use the Python that runs this, not the first one on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("leveret analyze")
    if master is not None:
        builder = builder.master(master).config("spark.driver.memory", DRIVER_MEMORY)
        builder = builder.config("spark.ui.enabled", "false")
        options = f"-Dlog4j2.configurationFile={LOGGING}"
        builder = builder.config("spark.driver.defaultJavaOptions", options)
    if shuffle_partitions is not None:
        builder = builder.config("spark.sql.shuffle.partitions", str(shuffle_partitions))
    for name, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.addPyFile(str(packed_code()))
    return session
