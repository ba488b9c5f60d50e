"""The alerts in docker/ ask for metrics that a node has, and fire when they should."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ALERTS = Path(__file__).resolve().parents[2] / "docker" / "alerts.yml"


def test_each_metric_of_an_alert_is_one_of_a_node(node):
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    asked = {
        name
        for group in groups
        for rule in group["rules"]
        for name in re.findall(r"rabbitmq_\w+", rule["expr"])
    }
    types = re.findall(r"^# TYPE (\S+)", node.metrics(), re.MULTILINE)
    assert asked
    assert asked <= set(types)


@pytest.mark.skipif(not shutil.which("promtool"), reason="Prometheus is not installed")
def test_alerts_of_streams_fire(tmp_path):
    for file in (ALERTS, Path(__file__).with_name("alerts_test.yml")):
        shutil.copy(file, tmp_path)
    done = subprocess.run(
        ("promtool", "test", "rules", tmp_path / "alerts_test.yml"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
