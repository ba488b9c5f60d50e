"""Celery, with a real worker process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from celery import Celery, chain

APPLICATION_FOLDER = Path(__file__).parent / "celery_app"
SECONDS_MAX = 40


@pytest.fixture
def application(amqp_url):
    environment = os.environ | {"TEST_BROKER_URL": amqp_url}
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "sums", "worker",
         "--pool", "solo", "--loglevel", "WARNING", "--without-gossip"],
        cwd=APPLICATION_FOLDER, env=environment,
    )  # fmt: skip
    application = Celery("sums", broker=amqp_url, backend="rpc://")
    yield application
    worker.terminate()
    worker.wait(SECONDS_MAX)
    application.close()


def task(application, name, *arguments):
    return application.signature(f"sums.{name}", args=arguments)


@pytest.mark.timeout(90)
def test_a_worker_runs_tasks(application):
    result = task(application, "add", 2, 3).apply_async()
    assert result.get(timeout=SECONDS_MAX) == 5
    results = [task(application, "add", number, 1).apply_async() for number in range(20)]
    assert [result.get(timeout=SECONDS_MAX) for result in results] == list(range(1, 21))
    chained = chain(task(application, "add", 1, 1), task(application, "add", 10)).apply_async()
    assert chained.get(timeout=SECONDS_MAX) == 12
    assert task(application, "succeed_the_second_time").apply_async().get(SECONDS_MAX) == 1
    assert list(application.control.ping(timeout=5)[0].values()) == [{"ok": "pong"}]
