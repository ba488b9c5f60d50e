"""Validation of the options of a trace."""

import pytest

from leveret.broker.tracing.trace import TraceError, of_json

GOOD = {"format": "json", "pattern": "#"}


def test_a_trace_is_shown_as_it_was_asked_for():
    body = {**GOOD, "max_payload_bytes": 5, "tracer_connection_username": "guest"}
    assert of_json("/", "t", body).to_json() == {"vhost": "/", "name": "t", **body}


def test_a_log_has_a_sample_and_says_whether_it_has_bodies():
    shown = of_json("/", "t", {"format": "log", "pattern": "#"}).to_json()
    assert (shown["sample"], shown["payload"]) == (1, "none")
    body = {"format": "log", "pattern": "#", "sample": 10, "payload": "base64"}
    assert of_json("/", "t", body).to_json() == {"vhost": "/", "name": "t", **body}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": "xml"}, "format not json or text"),
        ({"max_payload_bytes": "10"}, "max_payload_bytes not integer"),
        ({"max_payload_bytes": True}, "max_payload_bytes not integer"),
        ({"max_payload_bytes": -1}, "0 or more"),
        ({"pattern": 5}, "pattern must be a string"),
        ({"tracer_connection_username": 5}, "must be a string"),
        ({"sample": 2}, "for traces of the format log"),
        ({"payload": "base64"}, "for traces of the format log"),
        ({"format": "log", "sample": 0}, "from 1 to 1000000"),
        ({"format": "log", "sample": "2"}, "from 1 to 1000000"),
        ({"format": "log", "payload": "all"}, "none or base64"),
    ],
)
def test_what_cannot_be_is_refused(change, problem):
    with pytest.raises(TraceError, match=problem):
        of_json("/", "t", GOOD | change)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\0", "a\n", "x" * 201, ".hidden"])
def test_a_name_has_to_be_one_for_a_file(name):
    with pytest.raises(TraceError, match="name"):
        of_json("/", name, GOOD)
