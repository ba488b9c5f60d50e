"""The formats of RabbitMQ's tracing plugin, compared with the output of RabbitMQ 3.10.8."""

import json

from leveret.broker.tracing.plugin_sink import Event, as_json, as_text, gap_as_json, gap_as_text

PROPERTIES = {
    "content_type": "text/plain",
    "headers": {
        "a": ("I", 1), "s": ("S", 'str"q'), "b": ("t", True),
        "l": ("A", [("I", 1), ("S", "x")]), "t": ("F", {"n": ("V", None)}), "big": ("l", 2**40),
        "bin": ("x", b"\xff\0"), "dec": ("D", (1, 15)),
    },
    "delivery_mode": 2, "timestamp": 1700000000,
}  # fmt: skip
TEXT = """
================================================================================
2026-11-21T09:11:25.050+00:00: Message published

Node:         leveret@host
Connection:   127.0.0.1:46726 -> 127.0.0.1:5792
Virtual host: /
User:         guest
Channel:      1
Exchange:     fx
Routing keys: [<<"some key \\"q\\" é">>]
Routed queues: [<<"q1">>,<<"q2">>]
Properties:   [{<<"timestamp">>,signedint,1700000000},
               {<<"delivery_mode">>,signedint,2},
               {<<"headers">>,table,
                [{<<"a">>,signedint,1},
                 {<<"s">>,longstr,<<"str\\"q">>},
                 {<<"b">>,bool,true},
                 {<<"l">>,array,[{signedint,1},{longstr,<<"x">>}]},
                 {<<"t">>,table,[{<<"n">>,void,undefined}]},
                 {<<"big">>,long,1099511627776},
                 {<<"bin">>,binary,<<255,0>>},
                 {<<"dec">>,decimal,{1,15}}]},
               {<<"content_type">>,longstr,<<"text/plain">>}]
Payload:\x20
\0\udcff bin
"""


def event(**changes):
    known = Event(
        1795252285050000, "leveret@host", "/", "127.0.0.1:46726 -> 127.0.0.1:5792", "guest", 1,
        "fx", None, ['some key "q" é'], ["q1", "q2"], PROPERTIES, b"\0\xff bin",
    )  # fmt: skip
    return known._replace(**changes)


def test_a_publish_as_text():
    assert as_text(event()) == TEXT


def test_a_delivery_as_text_has_a_queue_rather_than_queues():
    text = as_text(event(queue="q1", routed_queues=None, properties={}, payload=b""))
    assert ": Message received\n" in text
    assert '\nRouting keys: [<<"some key \\"q\\" é">>]\nQueue:        q1\n' in text
    assert text.endswith("\nProperties:   []\nPayload: \n\n")


def test_a_publish_as_json():
    line = as_json(event())
    assert list(json.loads(line)) == sorted(json.loads(line))
    assert json.loads(line) == {
        "channel": 1, "connection": "127.0.0.1:46726 -> 127.0.0.1:5792", "exchange": "fx",
        "node": "leveret@host", "payload": "AP8gYmlu",
        "properties": {
            "content_type": "text/plain", "delivery_mode": 2, "timestamp": 1700000000,
            "headers": {
                "a": 1, "b": True, "big": 2**40, "bin": "Not UTF-8, base64 is: /wA=", "dec": 1.5,
                "l": [1, "x"], "s": 'str"q', "t": {"n": "undefined"},
            },
        },
        "queue": "none", "routed_queues": ["q1", "q2"], "routing_keys": ['some key "q" é'],
        "timestamp": "2026-11-21T09:11:25.050+00:00", "type": "published", "user": "guest",
        "vhost": "/",
    }  # fmt: skip


def test_a_delivery_as_json_has_no_queues_that_it_was_routed_to():
    line = json.loads(as_json(event(queue="q1", routed_queues=None)))
    assert (line["type"], line["queue"], line["routed_queues"]) == ("received", "q1", "none")


def test_gaps():
    assert "5 messages lost until 2026-11-21T09:11:25.050+00:00" in gap_as_text(
        1795252284000000, 1795252285050000, 5
    )
    assert json.loads(gap_as_json(0, 1, 5))["lost"] == 5
