"""Analyses of trace logs over the API: who may start them, and what is refused with which reason.

tests/browser/test_trace_analysis.py runs them.
"""

import pytest

from tests.mgmt.test_traces import LOG, add

PATHS = ("trace-analysis", "trace-findings")


@pytest.fixture
def monitor(node):
    node.put("users/watcher", {"password": "secret", "tags": "monitoring"})
    yield "watcher:secret"
    node.delete("users/watcher")


def test_only_administrators_see_and_start_analyses(node, monitor):
    refused = [
        node.request(method, path, user=monitor).status
        for path in PATHS for method in ("GET", "PUT", "DELETE")
    ]  # fmt: skip
    refused += [node.request("GET", "trace-analysis/report", user=monitor).status]
    refused += [node.request("POST", "trace-analysis/report/link", user=monitor).status]
    assert refused == [401] * 8


def test_without_an_analysis_there_is_nothing_to_show(node):
    found = node.get("trace-analysis")
    assert (found["state"], found["progress"], found["has_report"]) == ("none", None, False)
    assert node.get("trace-findings")["findings"] == []
    for method, path in (
        ("DELETE", "trace-analysis"), ("DELETE", "trace-findings"),
        ("GET", "trace-analysis/report"), ("POST", "trace-analysis/report/link"),
        ("GET", "trace-analysis/report/guessed"),
    ):  # fmt: skip
        assert node.request(method, path).status == 404


@pytest.mark.parametrize(("body", "reason"), [
    ({"from": "yesterday"}, "write 2026-03-01"),
    ({"from": 7}, "from should be a text"),
    ({"vhost": ["/"]}, "vhost should be a text"),
    ({"from": "2026-01-02", "to": "2026-01-01"}, "from should be before to"),
    ({"from": "1999-01-01", "to": "1999-01-02"}, "there are no trace logs of this time"),
])  # fmt: skip
def test_what_cannot_be_analysed_is_refused_with_a_reason(node, vhost, body, reason):
    add(node, vhost, "all", LOG)
    answer = node.put("trace-analysis", body)
    assert (answer.status, reason in answer.body["reason"]) == (400, True), answer
    assert node.get("trace-analysis")["state"] == "none"
    assert node.delete(f"traces/{vhost}/all").status == 204
