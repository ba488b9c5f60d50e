"""Starts the Spark session of the job."""

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

from leveret.analytics.java import find_java

_WORKERS_NEED = (
    "leveret/__init__.py", "leveret/broker/__init__.py", "leveret/broker/tracing/__init__.py",
    "leveret/broker/tracing/record.py", "leveret/broker/erlang/__init__.py",
    "leveret/broker/erlang/parser.py", "leveret/broker/erlang/terms.py",
)  # fmt: skip

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
    session.sparkContext.addPyFile(str(_packed_code()))
    return session


def _packed_code() -> Path:
    """Pack the modules that workers need into a zip file for Spark, and return its path."""
    # Not resolved: in a checkout `leveret/analytics` is a link that leads out of `leveret`.
    root = Path(__file__).absolute().parents[2]
    ours = [f"leveret/analytics/{path.name}" for path in root.glob("leveret/analytics/*.py")]
    directory = tempfile.mkdtemp(prefix="leveret-code-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    packed = Path(directory) / "leveret_analytics.zip"
    with zipfile.ZipFile(packed, "w") as file:
        for name in (*_WORKERS_NEED, *ours):
            file.write(root / name, name)
    return packed
