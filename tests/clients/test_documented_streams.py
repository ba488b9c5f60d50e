"""The examples of docs/operate/streams.md work as they are printed, but for the ports."""

import re
from pathlib import Path

import pytest

from leveret.testing import EmbeddedBroker

pytest.importorskip("rstream", reason="the extra [test] is not fully installed")

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "streams.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example(example):
    with EmbeddedBroker.in_thread(streams=True) as broker:
        own = example.replace("localhost:5672", f"{broker.host}:{broker.port}")
        own = own.replace('"localhost"', f'"{broker.host}"')
        own = own.replace("5552", str(broker.stream_port))
        exec(compile(own, PAGE.name, "exec"), {"__name__": "__main__"})
