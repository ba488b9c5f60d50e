"""Destinations, both ways, and the names of queues that are made of them."""

import pytest

from leveret.broker.protocols.stomp.destinations import (
    AMQ_QUEUE,
    EXCHANGE,
    QUEUE,
    REPLY_QUEUE,
    TEMP_QUEUE,
    TOPIC,
    format_destination,
    format_reply_to,
    parse_destination,
)
from leveret.broker.protocols.stomp.errors import StompError


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("/queue/a%2Fb", (QUEUE, "", "a/b")),
        ("bare", (QUEUE, "", "bare")),
        ("/amq/queue/a", (AMQ_QUEUE, "", "a")),
        ("/topic/a.*", (TOPIC, "topics", "a.*")),
        ("/exchange/e", (EXCHANGE, "e", "")),
        ("/exchange/e/k%2Fl", (EXCHANGE, "e", "k/l")),
        ("/temp-queue/x", (TEMP_QUEUE, "", "x")),
        ("/reply-queue/a/b", (REPLY_QUEUE, "", "a/b")),
    ],
)
def test_parsed(text, parsed):
    assert parse_destination(text, "topics") == parsed


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("/queue", "'' is not a valid queue destination\n"),
        ("/queue/", "'/' is not a valid queue destination\n"),
        ("/topic/a/b", "'/a/b' is not a valid topic destination\n"),
        ("/exchange//k", "'//k' is not a valid exchange destination\n"),
        ("/amq/queue", "'' is not a valid amqqueue destination\n"),
        ("/temp-queue/a/b", "'/a/b' is not a valid temp_queue destination\n"),
    ],
)
def test_refused(text, detail):
    with pytest.raises(StompError) as refused:
        parse_destination(text, "amq.topic")
    assert refused.value.detail == detail


def test_formatted():
    assert format_destination("", "a/b%") == "/queue/a%2Fb%25"
    assert format_destination("amq.topic", "a.b") == "/topic/a.b"
    assert format_destination("e", "") == "/exchange/e"
    assert format_destination("e", "é") == "/exchange/e/%C3%A9"
    assert format_reply_to("answers") == "/reply-queue/answers"
    assert format_reply_to("/topic/answers") == "/topic/answers"
