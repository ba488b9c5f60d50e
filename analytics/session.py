"""The Spark session that the job runs in."""

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

from analytics.java import find_java

_WORKERS_NEED = ("broker/__init__.py", "broker/tracing/__init__.py", "broker/tracing/record.py")

DRIVER_MEMORY = "4g"
"""The heap of a local run; spark-submit has its own option."""

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # The aggregates of percentiles are small, and sorting for them is not.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "20000",
    # A misplaced comma is one corrupt line, never the end of the job.
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.ansi.enabled": "false",
}


def start_session(
    master: str | None = None,
    shuffle_partitions: int | None = None,
    settings: dict[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or join the session that spark-submit has started. settings: more of Spark's."""
    find_java()
    # The workers are to be the Python that runs this, not any that is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("leveret analyze")
    if master is not None:
        builder = builder.master(master).config("spark.driver.memory", DRIVER_MEMORY)
        builder = builder.config("spark.ui.enabled", "false")
        builder = builder.config("spark.log.level", "ERROR")
    if shuffle_partitions is not None:
        builder = builder.config("spark.sql.shuffle.partitions", str(shuffle_partitions))
    for name, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.addPyFile(str(_packed_code()))
    return session


def _packed_code() -> Path:
    """The modules that workers need, in a file that Spark takes to them."""
    root = Path(__file__).resolve().parents[1]
    ours = [f"analytics/{path.name}" for path in root.glob("analytics/*.py")]
    directory = tempfile.mkdtemp(prefix="leveret-code-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    packed = Path(directory) / "leveret_analytics.zip"
    with zipfile.ZipFile(packed, "w") as file:
        for name in (*_WORKERS_NEED, *ours):
            file.write(root / name, name)
    return packed
