"""The dashboards in docker/ ask for metrics that a node has."""

import json
import re
from pathlib import Path

import pytest

DASHBOARDS = Path(__file__).resolve().parents[2] / "docker" / "grafana" / "dashboards"


@pytest.mark.parametrize("file", sorted(DASHBOARDS.glob("*.json")), ids=lambda file: file.stem)
def test_each_metric_of_a_dashboard_is_one_of_a_node(node, channel, file):
    channel.queue_declare("ready")
    channel.basic_publish("", "ready", b"")
    panels = json.loads(file.read_text(encoding="utf-8"))["panels"]
    asked = {
        name
        for panel in panels
        for target in panel["targets"]
        for name in re.findall(r"rabbitmq_\w+", target["expr"])
    }
    types = re.findall(r"^# TYPE (\S+)", node.metrics(), re.MULTILINE)
    assert asked
    assert asked <= set(types)
