"""The examples of docs/testing-your-app.md and of the README run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 60


def examples():
    text = (ROOT / "docs" / "testing-your-app.md").read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("number", range(len(examples())))
def test_an_example_of_the_page(number):
    run = subprocess.run(
        [sys.executable, "-c", examples()[number]],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=False, cwd=ROOT,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def test_the_readme_example(amqp_broker):
    text = (ROOT / "README.md").read_text()
    example = re.findall(r"```python\n(import pika.*?)```", text, re.DOTALL)[0]
    example = example.replace("localhost:5672", f"{amqp_broker.host}:{amqp_broker.port}")
    run = subprocess.run(
        [sys.executable, "-c", example],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
    )  # fmt: skip
    assert run.stdout == "b'hello'\n"
