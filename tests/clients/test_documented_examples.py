"""The examples of docs/testing-your-app.md and of the README work unchanged."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 60
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--asyncio-mode=auto"]


def examples():
    """The page's examples, identified by heading and position."""
    found = []
    text = (ROOT / "docs" / "testing-your-app.md").read_text()
    for section in text.split("\n## ")[1:]:
        heading = section.partition("\n")[0]
        blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        for number, block in enumerate(blocks, start=1):
            found.append(pytest.param(block, id=f"{heading} {number}"))
    return found


@pytest.mark.parametrize("example", examples())
def test_an_example_of_the_page(example, tmp_path):
    """An example that defines tests is run by pytest."""
    file = tmp_path / "test_example.py"
    file.write_text(example)
    command = PYTEST if "def test_" in example else [sys.executable]
    run = subprocess.run(
        [*command, file],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_readme_example(amqp_broker):
    text = (ROOT / "README.md").read_text()
    example = re.findall(r"```python\n(import pika.*?)```", text, re.DOTALL)[0]
    example = example.replace("localhost:5672", f"{amqp_broker.host}:{amqp_broker.port}")
    run = subprocess.run(
        [sys.executable, "-c", example],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
    )  # fmt: skip
    assert run.stdout == "b'hello'\n"
