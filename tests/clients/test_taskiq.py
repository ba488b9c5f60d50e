"""taskiq, whose queues are quorum queues: tasks, retries and delays, in one process."""

import asyncio

import pytest

pytest.importorskip("taskiq_aio_pika", reason="the extra [test] is not fully installed")

from taskiq import SimpleRetryMiddleware
from taskiq.api import run_receiver_task
from taskiq_aio_pika import AioPikaBroker, Queue

from leveret.testing import EmbeddedBroker
from tests.patience import PATIENCE_SECONDS


class Application:
    """A taskiq application. done: what its tasks did, in order."""

    def __init__(self, url):
        self.tasks = AioPikaBroker(url, delay_queue=Queue(name="taskiq.delay"))
        self.tasks.add_middlewares(SimpleRetryMiddleware())
        self.done = done = asyncio.Queue()
        tries = []

        @self.tasks.task
        async def add(x: int, y: int) -> None:
            await done.put(x + y)

        @self.tasks.task(retry_on_error=True, max_retries=2)
        async def flaky() -> None:
            tries.append(1)
            if len(tries) == 1:
                raise ValueError("it fails the first time")
            await done.put(f"try {len(tries)}")

        self.add, self.flaky = add, flaky

    async def next(self):
        return await asyncio.wait_for(self.done.get(), PATIENCE_SECONDS)


@pytest.fixture
async def broker():
    async with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
async def application(broker):
    application = Application(broker.url)
    application.tasks.is_worker_process = True
    await application.tasks.startup()
    worker = asyncio.create_task(run_receiver_task(application.tasks))
    yield application
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await application.tasks.shutdown()


async def test_tasks_go_through_quorum_queues(application, broker):
    for number in range(10):
        await application.add.kiq(number, 1)
    assert [await application.next() for _ in range(10)] == list(range(1, 11))
    kinds = {queue.kind.name for queue in broker.broker.services.vhosts["/"].queues.values()}
    assert kinds == {"quorum"}


async def test_a_task_that_fails_is_tried_again(application):
    await application.flaky.kiq()
    assert await application.next() == "try 2"


async def test_a_delayed_task_comes_back_from_the_delay_queue(application, broker):
    await application.add.kicker().with_labels(delay=0.05).kiq(20, 3)
    assert await application.next() == 23
    assert broker.broker.services.counts.dead_lettered["quorum", "expired"] == 1
