"""The worker's thread: the order of jobs and their results (rule T1)."""

import asyncio
import threading

import pytest

from leveret.storage.disk.worker import Worker


@pytest.fixture
async def worker():
    worker = Worker(asyncio.get_running_loop(), "test-worker")
    yield worker
    await asyncio.to_thread(worker.stop)


async def test_a_job_runs_in_the_thread_and_its_result_comes_back(worker):
    assert await worker.run(lambda: threading.current_thread().name) == "test-worker"


async def test_an_error_comes_back(worker):
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 / 0)


async def test_t1_jobs_run_in_order(worker):
    done = []
    for number in range(100):
        worker.submit(lambda number=number: done.append(number), lambda result, error: None)
    await worker.run(lambda: None)
    assert done == list(range(100))


async def test_results_are_delivered_in_the_loop(worker):
    found = asyncio.get_running_loop().create_future()
    worker.submit(
        lambda: 5,
        lambda result, error: found.set_result((result, error, threading.current_thread())),
    )
    assert await found == (5, None, threading.current_thread())


async def test_a_caller_that_was_cancelled_is_not_called_back(worker):
    begin = threading.Event()
    task = asyncio.ensure_future(worker.run(begin.wait))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    begin.set()
    assert await worker.run(lambda: "next") == "next"


async def test_t1_stop_ends_after_what_was_submitted():
    worker = Worker(asyncio.get_running_loop(), "test-worker")
    done = []
    for number in range(3):
        worker.submit(lambda number=number: done.append(number), lambda result, error: None)
    await asyncio.to_thread(worker.stop)
    assert done == [0, 1, 2]
