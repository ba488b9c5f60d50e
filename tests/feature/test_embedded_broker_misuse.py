"""A wrong use of the embedded broker is an error that says what was asked, and what to do."""

import asyncio

import pytest

from leveret.testing import EmbeddedBroker
from leveret.testing.loop_thread import LoopThread

QUESTIONS = [
    "url", "port", "broker", "queue_length('q')", "advance(1)", "drop_connections()",
    "drop_after_frames(1)", "hold_confirms()", "release_confirms()", "block_publishers()",
    "unblock_publishers()", "wait_for(1)", "wait_for_delivered(1)", "publish(b'', 'q')",
]  # fmt: skip


async def ask(broker, question):
    """Evaluate an expression on a broker."""
    answer = eval(f"broker.{question}", {"broker": broker})
    return await answer if asyncio.iscoroutine(answer) else answer


@pytest.mark.parametrize("question", QUESTIONS)
async def test_before_the_start_and_after_the_stop(question):
    broker = EmbeddedBroker(virtual_clock=True)
    asked = question.partition("(")[0]
    with pytest.raises(RuntimeError, match=f"`{asked}` was asked .* was not started: start it with "
                       "`async with EmbeddedBroker"):  # fmt: skip
        await ask(broker, question)
    await broker.start()
    await broker.stop()
    with pytest.raises(RuntimeError, match=f"`{asked}` was asked .* was stopped: use it inside"):
        await ask(broker, question)
    assert broker.published == broker.delivered == []


@pytest.mark.parametrize("question", [one for one in QUESTIONS if one != "broker"])
def test_in_a_thread_before_the_start_and_after_the_stop(question):
    broker = EmbeddedBroker.in_thread(virtual_clock=True)
    with pytest.raises(RuntimeError, match="not started: start it with `with EmbeddedBroker.in"):
        eval(f"broker.{question}")
    with broker:
        pass
    with pytest.raises(RuntimeError, match="was stopped: use it inside"):
        eval(f"broker.{question}")
    assert broker.published == broker.delivered == []


def test_a_given_port_is_known_before_the_start():
    assert EmbeddedBroker(port=5672).url == "amqp://guest:guest@127.0.0.1:5672/"
    assert EmbeddedBroker.in_thread(port=5672).port == 5672


def test_with_instead_of_async_with():
    with pytest.raises(TypeError, match="`async with EmbeddedBroker.* no event loop, with `with"):
        with EmbeddedBroker():
            pass


async def test_async_with_instead_of_with():
    with pytest.raises(TypeError, match="`with EmbeddedBroker.in_thread.*`async with Embedded"):
        async with EmbeddedBroker.in_thread():
            pass


async def test_starting_twice():
    async with EmbeddedBroker() as broker:
        with pytest.raises(RuntimeError, match="started twice"):
            await broker.start()
    with EmbeddedBroker.in_thread() as threaded:
        with pytest.raises(RuntimeError, match="started twice"):
            threaded.start()


async def test_stopping_twice_does_nothing():
    async with EmbeddedBroker() as broker:
        await broker.stop()
    with EmbeddedBroker.in_thread() as threaded:
        threaded.stop()


@pytest.mark.parametrize(
    ("seconds", "error", "text"),
    [
        (-1, ValueError, r"advance\(-1\): the clock goes forward, by 0 seconds or more"),
        (float("nan"), ValueError, r"advance\(nan\)"),
        (float("inf"), ValueError, r"advance\(inf\)"),
        ("1h", TypeError, r"advance\('1h'\): the clock is advanced by a number of seconds"),
        (True, TypeError, r"advance\(True\)"),
        (None, TypeError, r"advance\(None\)"),
    ],
)
async def test_a_wrong_time_to_advance_by(seconds, error, text):
    async with EmbeddedBroker(virtual_clock=True) as broker:
        before = broker.broker.services.clock.now_ms()
        with pytest.raises(error, match=text):
            broker.advance(seconds)
        assert broker.broker.services.clock.now_ms() == before


@pytest.mark.parametrize("frames", [-1, "2", 1.5])
async def test_a_wrong_number_of_frames(frames):
    async with EmbeddedBroker() as broker:
        with pytest.raises(ValueError, match="drop_after_frames takes a number of frames from 0"):
            broker.drop_after_frames(frames)


async def test_names_that_do_not_exist():
    async with EmbeddedBroker() as broker:
        with pytest.raises(KeyError, match="there is no queue 'q' in vhost '/'"):
            broker.queue_length("q")
        with pytest.raises(KeyError, match="there is no vhost 'shop', only /"):
            broker.queue_length("q", vhost="shop")
        with pytest.raises(LookupError, match="no exchange 'x' in vhost '/'"):
            await broker.publish(b"", "k", exchange="x")
        with pytest.raises(LookupError, match="routing key 'q' .* reached no queue; declare"):
            await broker.publish(b"", "q")
        with pytest.raises(RuntimeError, match="create it with management_port=0"):
            _ = broker.management_url
        with pytest.raises(RuntimeError, match="create it with streams=True"):
            _ = broker.stream_port


def test_a_port_instead_of_a_configuration():
    with pytest.raises(TypeError, match="not 5672: a port is given as port=5672"):
        EmbeddedBroker(5672)


def test_another_event_loop():
    """pytest-asyncio has a fixture and a test in two loops, if their scopes differ."""
    broker = EmbeddedBroker()
    first = asyncio.new_event_loop()
    first.run_until_complete(broker.start())

    async def in_another():
        return broker.url

    with pytest.raises(RuntimeError, match="in another event loop .* one loop scope"):
        asyncio.run(in_another())
    first.run_until_complete(broker.stop())
    first.close()


def test_a_method_of_the_threaded_broker_in_its_own_thread():
    with EmbeddedBroker.in_thread() as broker:
        with pytest.raises(RuntimeError, match="use the EmbeddedBroker that the function"):
            broker.call(lambda _: broker.drop_connections())


def test_a_thread_that_does_not_answer():
    thread = LoopThread()
    try:
        with pytest.raises(TimeoutError, match="not answered within 0.01 seconds: it is held up"):
            thread.run(asyncio.Event().wait(), timeout=0.01)
    finally:
        thread.end()
