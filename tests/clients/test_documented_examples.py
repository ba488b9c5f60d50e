"""The examples of docs/start and of the README work as they are printed.

Each is a file in a new directory, run with nothing but the installed packages: no settings of this
repository, no options. Those for pytest share one run, since most of its time is its start.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pika
import pytest

from leveret.testing import EmbeddedBroker
from tests.patience import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[2]
PYTEST = (
    "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "no:anyio",
    "-p", "no:hypothesispytest", "-p", "no:xdist",
)  # fmt: skip
"""Without plugins that these tests need for themselves: they take half of a start."""
AUTO_MODE = "[pytest]\nasyncio_mode = auto\n"
WITHOUT_A_MARK = """
async def test_url(async_amqp_broker, async_amqp_virtual_clock_broker):
    async_amqp_virtual_clock_broker.advance(1)
    assert async_amqp_broker.url != async_amqp_virtual_clock_broker.url
"""


def examples():
    """The page's examples, with a name of heading and position each."""
    text = (ROOT / "docs" / "start" / "testing-your-app.md").read_text()
    for section in text.split("\n## ")[1:]:
        heading = section.partition("\n")[0]
        blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        for number, block in enumerate(blocks, start=1):
            yield f"{heading} {number}", block


def is_for_pytest(example):
    return re.search(r"^(async )?def test_", example, re.MULTILINE) is not None


SCRIPTS = [pytest.param(block, id=name) for name, block in examples() if not is_for_pytest(block)]


def run(*command, cwd):
    """Run a command of a project that knows nothing of this repository; returns its output."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST", "LEVERET"))
    }
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, cwd=cwd,
        env=inherited,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("example", SCRIPTS)
def test_an_example_that_is_a_program(example, tmp_path):
    if "rstream" in example:
        pytest.importorskip("rstream", reason="the extra [test] is not fully installed")
    (tmp_path / "example.py").write_text(example)
    output = run("example.py", cwd=tmp_path)
    if "unittest.main()" in example:
        assert "Ran 1 test" in output


@pytest.mark.parametrize("settings", ["", AUTO_MODE], ids=["strict mode", "auto mode"])
def test_the_examples_for_pytest(settings, tmp_path):
    blocks = [block for _, block in examples() if is_for_pytest(block)]
    if settings:
        (tmp_path / "pytest.ini").write_text(settings)
        blocks.append(WITHOUT_A_MARK)
    for number, block in enumerate(blocks):
        directory = tmp_path / f"project{number}"
        directory.mkdir()
        (directory / f"test_orders_{number}.py").write_text(block)
    assert len(blocks) >= 3
    output = run(*PYTEST, cwd=tmp_path)
    assert re.search(f"asyncio: mode=.*{'auto' if settings else 'strict'}", output, re.IGNORECASE)
    assert f" {5 if settings else 4} passed" in output


def test_the_celery_example(tmp_path):
    text = (ROOT / "docs" / "start" / "from-celery.md").read_text()
    application, test = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "shop.py").write_text(application)
    (tmp_path / "test_shop.py").write_text(test)
    assert " 1 passed" in run(*PYTEST, cwd=tmp_path)


@pytest.fixture(scope="module")
def page_for_beginners():
    return (ROOT / "docs" / "start" / "from-nothing.md").read_text()


@pytest.fixture
def beginners_broker(page_for_beginners):
    """A broker with the policy of the page for beginners, with shorter delays."""
    command = re.search(r"set_policy orders \"(.*?)\" \\\n +'(.*?)'", page_for_beginners, re.DOTALL)
    pattern, definition = command.groups()
    definition = {**json.loads(definition), "delayed-retry-min": 1}
    policy = {"name": "orders", "vhost": "/", "pattern": pattern, "definition": definition}
    with EmbeddedBroker.in_thread(definitions={"policies": [policy]}) as broker:
        yield broker


@pytest.fixture
def beginners_programs(page_for_beginners, beginners_broker, tmp_path):
    """Returns a function that starts a program of the page, which works without pauses."""
    blocks = re.findall(r"```python\n(.*?)```", page_for_beginners, re.DOTALL)
    for name, block in zip(("send", "work", "listen", "announce"), blocks, strict=True):
        program = block.replace("localhost:5672", f"localhost:{beginners_broker.port}")
        (tmp_path / f"{name}.py").write_text(program.replace("time.sleep(2)", "time.sleep(0)"))
    started = []

    def start(name, *arguments):
        command = [sys.executable, f"{name}.py", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def output_of(process):
    """The output of a program that ends by itself."""
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    return output


def test_a_beginner_sees_what_happens_to_orders(beginners_broker, beginners_programs):
    assert output_of(beginners_programs("send", "gold", "tea")) == "sent gold\nsent tea\n"
    assert beginners_broker.queue_length("orders") == 2
    worker = beginners_programs("work")
    packed = [worker.stdout.readline() for _ in range(7)]
    assert packed.count("packing gold\n") == packed.count("cannot pack gold\n") == 3
    assert packed.count("packing tea\n") == 1
    asyncio.run(until(lambda: beginners_broker.queue_length("orders.failed") == 1))
    assert beginners_broker.queue_length("orders") == 0


def test_a_beginner_tells_several_programs(beginners_broker, beginners_programs):
    listener = beginners_programs("listen", "order.#")
    with pika.BlockingConnection(pika.URLParameters(beginners_broker.url)) as connection:
        channel = connection.channel()
        channel.exchange_declare("events", "topic", durable=True)
        channel.confirm_delivery()

        def listens():
            try:
                channel.basic_publish("events", "order.first", b"0", mandatory=True)
            except pika.exceptions.UnroutableError:
                return False
            return True

        asyncio.run(until(listens))
    output_of(beginners_programs("announce", "stock.empty", "tea"))
    output_of(beginners_programs("announce", "order.paid", "17"))
    assert [listener.stdout.readline() for _ in range(2)] == ["order.first 0\n", "order.paid 17\n"]


def test_the_readme_example(amqp_broker):
    text = (ROOT / "README.md").read_text()
    example = re.findall(r"```python\n(import pika.*?)```", text, re.DOTALL)[0]
    example = example.replace("localhost:5672", f"{amqp_broker.host}:{amqp_broker.port}")
    run = subprocess.run(
        [sys.executable, "-c", example],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
    )  # fmt: skip
    assert run.stdout == "b'hello'\n"
