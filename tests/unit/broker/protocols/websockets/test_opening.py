"""The opening of a WebSocket: what is accepted, and with which status others are refused."""

import pytest

from leveret.broker.protocols.websockets.opening import (
    REQUEST_BYTES_MAX,
    Offer,
    OpeningRefused,
    open_web_socket,
)
from tests.protocol.web_socket_peer import request

STOMP = Offer("/ws", ("v12.stomp", "v11.stomp"), needs_subprotocol=False)
MQTT = Offer("/ws", ("mqtt",), needs_subprotocol=True)


def refused(data, offer=STOMP):
    with pytest.raises(OpeningRefused) as refusal:
        open_web_socket(data, offer)
    return int(refusal.value.answer.split()[1])


def test_the_key_of_the_standard():
    opened = open_web_socket(request(key="dGhlIHNhbXBsZSBub25jZQ==") + b"rest", STOMP)
    assert b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in opened.answer
    assert opened.rest == b"rest"


def test_the_best_subprotocol_is_chosen():
    opened = open_web_socket(request(subprotocol="v11.stomp, v12.stomp"), STOMP)
    assert b"sec-websocket-protocol: v12.stomp\r\n" in opened.answer
    for subprotocol in (None, "chat"):
        answer = open_web_socket(request(subprotocol=subprotocol), STOMP).answer
        assert b"sec-websocket-protocol" not in answer
        assert refused(request(subprotocol=subprotocol), MQTT) == 400


@pytest.mark.parametrize("path", ["/ws/", "/ws?token=x"])
def test_paths(path):
    assert open_web_socket(request(path), STOMP) is not None


def test_an_incomplete_request():
    whole = request()
    assert open_web_socket(whole[:-1], STOMP) is None


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("/other"), 404),
        (request(method="POST"), 405),
        (request(version="12"), 400),
        (request(key="short"), 400),
        (b"GET /ws HTTP/1.1\r\nHost: x\r\n\r\n", 426),
        (b"GET /ws HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"SEND\n\n\0\r\n\r\n", 400),
        ((REQUEST_BYTES_MAX + 1) * b"x", 431),
    ],
)
def test_refused(data, status):
    assert refused(data) == status
