"""Celery, with a real worker process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from celery import Celery, chain, group
from celery.exceptions import TaskRevokedError

from leveret.testing import EmbeddedBroker
from tests.patience import PATIENCE_SECONDS

APPLICATION_FOLDER = Path(__file__).parent / "celery_app"


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker.in_thread() as broker:
        yield broker


@pytest.fixture(scope="module")
def application(broker):
    """The application with a running worker, which all tests share."""
    environment = os.environ | {"TEST_BROKER_URL": broker.url}
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "sums", "worker",
         "--pool", "solo", "--loglevel", "WARNING", "--without-gossip"],
        cwd=APPLICATION_FOLDER, env=environment,
    )  # fmt: skip
    application = Celery("sums", broker=broker.url, backend="rpc://")
    try:
        wait_for_worker(application)
        yield application
    finally:
        application.close()
        worker.terminate()
        worker.wait(PATIENCE_SECONDS)


def wait_for_worker(application):
    """A worker accepts tasks first and remote control later; earlier calls are lost."""
    for _ in range(PATIENCE_SECONDS):
        if application.control.ping(timeout=1, limit=1):
            return
    raise AssertionError(f"the worker did not answer in {PATIENCE_SECONDS} s")


def task(application, name, *arguments):
    return application.signature(f"sums.{name}", args=arguments)


def test_tasks_give_results(application):
    results = [task(application, "add", number, 1).apply_async() for number in range(20)]
    assert [result.get(timeout=PATIENCE_SECONDS) for result in results] == list(range(1, 21))


def test_a_chain_and_a_group(application):
    chained = chain(task(application, "add", 1, 1), task(application, "add", 10)).apply_async()
    assert chained.get(timeout=PATIENCE_SECONDS) == 12
    grouped = group(task(application, "add", number, number) for number in range(3)).apply_async()
    assert grouped.get(timeout=PATIENCE_SECONDS) == [0, 2, 4]


def test_a_task_is_tried_again(application):
    result = task(application, "succeed_the_second_time").apply_async()
    assert result.get(timeout=PATIENCE_SECONDS) == 1


def test_an_error_reaches_the_caller(application):
    with pytest.raises(ValueError, match="it failed"):
        task(application, "fail").apply_async().get(timeout=PATIENCE_SECONDS)


def test_the_worker_answers_remote_control(application):
    (answer,) = application.control.ping(timeout=PATIENCE_SECONDS, limit=1)
    assert list(answer.values()) == [{"ok": "pong"}]


def test_a_task_that_waits_is_revoked(application):
    """The worker acknowledges the revocation long before the task is due."""
    result = task(application, "add", 1, 1).apply_async(countdown=3)
    (answer,) = application.control.revoke(result.id, reply=True, timeout=PATIENCE_SECONDS, limit=1)
    assert "ok" in next(iter(answer.values()))
    with pytest.raises(TaskRevokedError):
        result.get(timeout=PATIENCE_SECONDS)
