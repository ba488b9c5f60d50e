"""Whether Spark runs on this machine only, and paths that all machines of a cluster can open."""

from collections.abc import Iterable

from pyspark.sql import SparkSession

from leveret.analytics.job.engines import EngineError
from leveret.analytics.traces.local_files import is_local


def is_one_machine(session: SparkSession) -> bool:
    """Tell whether all workers run on the machine of the driver."""
    # Spark's own cluster of processes on one machine is `local-cluster[...]`.
    return (session.conf.get("spark.master") or "").startswith("local")


def refuse_local_paths(session: SparkSession, paths: Iterable[str]) -> None:
    """Raise EngineError if a path is on the driver's disk, and other machines are to open it."""
    if is_one_machine(session):
        return
    for path in filter(is_local, paths):
        raise EngineError(
            f"{path} is a path of this machine, and the workers of the cluster"
            f" {session.conf.get('spark.master')} run on others: give a URL that all of them can"
            " open, such as hdfs://... or s3a://..., or add --shared-paths if the directory is"
            " mounted at this path on every machine"
        )
