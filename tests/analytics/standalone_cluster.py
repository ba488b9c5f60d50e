"""A standalone cluster of Spark on this machine: a master and workers, each in a process."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from leveret.analytics.job.java import find_java
from tests.patience import LOOK_SECONDS, PATIENCE_SECONDS
from tests.ports import free_ports

HOST = "127.0.0.1"
SMALL = {
    "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}  # fmt: skip
PROGRAMS = Path(pyspark.__file__).parent / "bin"


@contextmanager
def standalone_cluster(directory, workers):
    """Start a cluster of workers with a processor each; its URL."""
    find_java()
    port, page, *others = free_ports(2 + 2 * workers)
    url = f"spark://{HOST}:{port}"
    with ExitStack() as running:
        started = [_start(running, directory / "master", "master.Master", port, page)]
        for number in range(workers):
            place = directory / f"worker-{number}"
            ports = others[2 * number : 2 * number + 2]
            own = ["--cores", "1", "--memory", "1g", "--work-dir", place, url]
            started.append(_start(running, place, "worker.Worker", *ports, *own))
        _wait_for(workers, page, started)
        yield url


def _start(running, directory, name, port, page, *words):
    """Start one of Spark's programs, which ends with `running`; its process."""
    where = ["--host", HOST, "--port", str(port), "--webui-port", str(page)]
    return running.enter_context(_program(directory, name, *where, *words))


@contextmanager
def _program(directory, name, *words):
    directory.mkdir(parents=True)
    command = [PROGRAMS / "spark-class", f"org.apache.spark.deploy.{name}", *words]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **SMALL}, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _wait_for(workers, page, started):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _alive(page) < workers:
        assert all(one.poll() is None for one in started), [one.args for one in started]
        assert time.monotonic() < deadline, f"{workers} workers are not there"
        time.sleep(LOOK_SECONDS)


def _alive(page):
    try:
        with urllib.request.urlopen(f"http://{HOST}:{page}/json/") as answer:
            return json.load(answer)["aliveworkers"]
    except (urllib.error.URLError, ConnectionError, json.JSONDecodeError):
        # While it starts, it answers with another page.
        return 0
