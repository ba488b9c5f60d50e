"""Passwords, tokens and hashes are never logged, whatever clients send."""

import base64
import contextlib
import socket

import pytest

from leveret.mgmt.api.errors import bad_request
from tests.patience import PATIENCE_SECONDS

SECRET = "open-sesame"
LOGIN = base64.b64encode(f"anna:{SECRET}".encode()).decode()
GOOD = b"GET /api/auth HTTP/1.1\r\nHost: x\r\n\r\n"


@contextlib.contextmanager
def http_client(node):
    with socket.create_connection(
        ("127.0.0.1", node.http_port), timeout=PATIENCE_SECONDS
    ) as client:
        client.sendall(GOOD)
        client.recv(65536)
        yield client


def answer_to(client, request):
    client.sendall(request.encode("latin-1") + b"\r\nHost: x\r\n\r\n")
    return client.makefile("rb").read()


@pytest.mark.parametrize(
    "request_text",
    [
        f"GET /api/whoami HTTP/1.1\r\nAuthorization: Basic {LOGIN}\x01",
        f"GET /api/whoami HTTP/1.1\r\nAuthorization: Bearer {LOGIN}{'A' * 10_000}",
        f"GET /api/definitions?auth={LOGIN}\x01 HTTP/1.1",
    ],
    ids=["header", "too long", "query"],
)
def test_a_request_that_cannot_be_read_is_not_repeated(node, request_text):
    before = node.log.count("the request cannot be read")
    with http_client(node) as client:
        assert b" 400 " in answer_to(client, request_text).split(b"\r\n")[0]
    node.wait_until(lambda: node.log.count("the request cannot be read") > before)
    assert LOGIN not in node.log
    assert "Error handling request from 127.0.0.1" in node.log


def test_what_a_client_sent_is_in_its_answer_and_not_in_the_text_of_an_exception():
    error = bad_request(["not_base64", SECRET])
    assert error.reason == ["not_base64", SECRET]
    assert SECRET not in f"{error} {error!r}"
