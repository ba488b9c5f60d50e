"""Celery with quorum queues, and a real worker process.

A task with a countdown waits in quorum queues with a time to live, whose dead letters are published
at least once ("native delayed delivery").
"""

import importlib
import os
import subprocess
import sys

import pytest

from leveret.testing import EmbeddedBroker
from tests.clients.test_celery import APPLICATION_FOLDER, wait_for_worker
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker.in_thread() as broker:
        yield broker


@pytest.fixture(scope="module")
def application(broker):
    """The application with a running worker, which all tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEST_BROKER_URL", broker.url)
        patch.syspath_prepend(APPLICATION_FOLDER)
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "quorum_sums", "worker",
             "--pool", "solo", "--loglevel", "WARNING", "--without-gossip", "--without-mingle"],
            cwd=APPLICATION_FOLDER, env=dict(os.environ),
        )  # fmt: skip
        quorum_sums = importlib.import_module("quorum_sums")
        try:
            wait_for_worker(quorum_sums.app)
            yield quorum_sums
        finally:
            quorum_sums.app.close()
            worker.terminate()
            worker.wait(PATIENCE_SECONDS)


def queue_of(broker, name):
    return broker.call(lambda embedded: embedded.broker.services.vhosts["/"].queues[name])


def test_tasks_are_in_a_quorum_queue(application, broker):
    results = [application.add.delay(number, 1) for number in range(10)]
    assert [result.get(timeout=PATIENCE_SECONDS) for result in results] == list(range(1, 11))
    assert queue_of(broker, "celery").kind.name == "quorum"


def test_a_countdown_goes_by_queues_that_keep_dead_letters(application, broker):
    delayed = [application.add.apply_async((number, 1), countdown=1) for number in range(3)]
    tried_again = application.succeed_the_second_time.delay()
    assert [result.get(timeout=PATIENCE_SECONDS) for result in delayed] == [1, 2, 3]
    assert tried_again.get(timeout=PATIENCE_SECONDS) == 1
    first = queue_of(broker, "celery_delayed_0")
    assert first.options.keeps_dead_letters
    assert broker.call(lambda it: it.broker.services.counts.kept_confirmed["quorum"]) >= 4
    assert first.figures.counts().messages == 0
