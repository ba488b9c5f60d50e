"""The versions of tables on another file system, where Spark makes no links (tables/versions.py).

The directory `published` in the tables of a run has one row with the number of the run. It is
written when all tables are, as one file, which appears at once. Readers take the tables with the
highest number. A run first removes the number of the tables that it overwrites.
"""

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from leveret.analytics.job.files import clear_directory, escaped, refused
from leveret.analytics.tables.versions import SLOTS, MissingTablesError

_NUMBER = "number bigint"


def begin(session: SparkSession, out: str) -> str:
    """Return a directory for the tables of a new run."""
    numbers = _numbers(session, out)
    where = min(numbers, key=lambda slot: numbers[slot])
    clear_directory(session, f"{where}/published")
    return where


def publish(session: SparkSession, out: str, where: str) -> None:
    """Have readers use the tables in `where`, one of the directories below `out`."""
    number = max(_numbers(session, out).values()) + 1
    row = session.createDataFrame([(number,)], _NUMBER)
    row.coalesce(1).write.mode("overwrite").parquet(f"{where}/published")


def published(session: SparkSession, out: str) -> str:
    """Return the directory of the tables of the last complete run.

    Raises MissingTablesError, and OSError if the directory cannot be read.
    """
    numbers = _numbers(session, out)
    where = max(numbers, key=lambda slot: numbers[slot])
    if not numbers[where]:
        raise MissingTablesError(f"no tables in {out}: {where}/published does not exist")
    return where


def _numbers(session: SparkSession, out: str) -> dict[str, int]:
    """Return the number of each directory of tables; 0 if it has no complete ones."""
    return {f"{out}/{slot}": _number(session, f"{out}/{slot}/published") for slot in SLOTS}


def _number(session: SparkSession, path: str) -> int:
    with refused(path):
        try:
            rows = session.read.schema(_NUMBER).parquet(escaped(path)).collect()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return 0
    return max((row["number"] or 0 for row in rows), default=0)
