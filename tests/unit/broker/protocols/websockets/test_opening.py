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


@pytest.mark.parametrize(
    ("extensions", "is_compressed"),
    [
        ("permessage-deflate", True),
        ("permessage-deflate; client_max_window_bits", True),
        ("permessage-deflate; server_max_window_bits=10, permessage-deflate", True),
        ("permessage-deflate; server_max_window_bits=10", False),
        ("permessage-deflate; unknown", False),
        ("x-webkit-deflate-frame", False),
        (None, False),
    ],
)
def test_compression_is_accepted_as_it_is_offered(extensions, is_compressed):
    data = request(extensions=extensions)
    opened = open_web_socket(data, STOMP._replace(compresses=True))
    assert opened.is_compressed == is_compressed
    assert (b"sec-websocket-extensions: permessage-deflate; " in opened.answer) == is_compressed
    assert not open_web_socket(data, STOMP).is_compressed


@pytest.mark.parametrize("authorization", ["Bearer x", "Basic", "Basic ???", "Basic eA=="])
def test_credentials_that_cannot_be_read(authorization):
    offer = STOMP._replace(uses_http_auth=True)
    assert refused(request(authorization=authorization), offer) == 400
    assert open_web_socket(request(authorization=authorization), STOMP).credentials is None


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
