"""Paths of one machine are refused on a cluster of several; nothing private of PySpark is used."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.analytics.analyze import EXIT_USAGE
from leveret.analytics.job.cluster import is_one_machine, refuse_local_paths
from leveret.analytics.job.engines import EngineError
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
PRIVATE = re.compile(r"\._(j[a-z]+|sc|gateway|spark)\b")


class Session:
    """A session of a cluster: only its master is asked for."""

    def __init__(self, master):
        self.conf = {"spark.master": master}


@pytest.mark.parametrize("master", ["spark://one:7077", "yarn", "k8s://https://one:443"])
@pytest.mark.parametrize("path", ["/data/trace", "file:///data/trace"])
def test_a_local_path_is_refused_on_several_machines(master, path):
    with pytest.raises(EngineError) as refused:
        refuse_local_paths(Session(master), ("s3a://traces", path))
    assert path in str(refused.value)
    assert "--shared-paths" in str(refused.value)


@pytest.mark.parametrize("master", ["local", "local[*]", "local-cluster[2,1,1024]"])
def test_a_local_path_is_right_on_one_machine(master):
    assert is_one_machine(Session(master))
    refuse_local_paths(Session(master), ("/data/trace",))


def test_urls_are_for_all_machines():
    refuse_local_paths(Session("yarn"), ("hdfs://traces", "s3a://tables"))


def test_private_members_of_pyspark_are_not_used():
    files = [*(ROOT / "analytics").rglob("*.py"), *(ROOT / "tests/analytics").rglob("*.py")]
    found = {
        f"{path.name}: {line.strip()}"
        for path in files
        for line in path.read_text().splitlines()
        if PRIVATE.search(line)
    }
    assert not found


def test_spark_does_not_start_with_a_master_that_there_is_not(tmp_path):
    (tmp_path / "trace").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "leveret.analytics.analyze", str(tmp_path / "trace"),
         "--out", str(tmp_path / "out"), "--master", "nonsense"],
        capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == EXIT_USAGE
    assert "Traceback" not in done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith("leveret analyze: Spark does not start with the master nonsense (")
