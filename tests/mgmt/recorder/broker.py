"""An HTTP client for any broker with RabbitMQ's API, which sends requests unmodified.

Requests are sent as written in a scenario: paths percent-encoded by hand, bodies that are not JSON,
methods that are not allowed. One connection is reused, since a run has a thousand requests.
"""

import base64
import http.client
import json
import time
from typing import Any, NamedTuple

ANSWER_SECONDS = 30
SETTLE_SECONDS = 30
CHOSEN_HEADERS = ("Allow", "Cache-Control", "Content-Type", "Location", "WWW-Authenticate")


class Answer(NamedTuple):
    """A response. body: the decoded JSON, or the text if it is not JSON; None if it is empty."""

    status: int
    headers: dict[str, str]
    body: Any


class Broker:
    """The addresses of a broker's AMQP and HTTP listeners, and its node's name."""

    def __init__(self, amqp_port: int, http_port: int) -> None:
        self.amqp_port = amqp_port
        self.http_port = http_port
        self._connection = http.client.HTTPConnection("127.0.0.1", http_port, ANSWER_SECONDS)
        self.node: str = self.ask("GET", "overview").body["node"]

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        user: str | None = "guest:guest",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send a request. path: below /api, or absolute if it begins with a slash."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        if user is not None:
            sent["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        whole = path if path.startswith("/") else f"/api/{path}"
        try:
            return self._exchanged(method, whole, data, sent)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # A server may close an idle connection, and after some errors.
            self._connection.close()
            return self._exchanged(method, whole, data, sent)

    def _exchanged(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> Answer:
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        raw = response.read()
        chosen = {name: value for name in CHOSEN_HEADERS if (value := response.getheader(name))}
        return Answer(response.status, chosen, _parsed(raw))

    def wait_until(self, condition: Any, what: str) -> None:
        """Wait for a condition; the error names it."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {SETTLE_SECONDS} s until {what}; it did not happen")
            time.sleep(0.05)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _parsed(raw: bytes) -> Any:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")
