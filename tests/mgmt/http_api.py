"""Requests to the HTTP API of a node, for tests."""

import base64
import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.patience import PATIENCE_SECONDS


class Answer(NamedTuple):
    """A response of the HTTP API. body: the decoded JSON; None if there is none."""

    status: int
    body: Any
    headers: Any


class HttpApi:
    """What has a port of the HTTP API: http_port."""

    def request(self, method, path, body=None, user="guest:guest", raw=None, headers=None):
        """Send a request to the API. path: below /api."""
        status, content, headers = self.fetch(path, method, body, user, raw, headers)
        return _answer(status, content, headers)

    def fetch(self, path, method="GET", body=None, user="guest:guest", raw=None, headers=None):
        """Send a request to the API; the status, the content as bytes and the headers."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        if user:
            sent["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http_port}/api/{path}", data, sent, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
                return response.status, response.read(), response.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers

    def get(self, path, **options):
        """Get a resource that must exist."""
        answer = self.request("GET", path, **options)
        assert answer.status == 200, answer
        return answer.body

    def put(self, path, body=None, **options):
        return self.request("PUT", path, {} if body is None else body, **options)

    def post(self, path, body=None, **options):
        return self.request("POST", path, {} if body is None else body, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def acts(self, **fields):
        """Lines of the audit log that have these fields, the newest first.

        A node has several tests' links and vhosts, which may still be deleting what they declared.
        """
        lines = self.get("audit?count=1000")
        return [line for line in lines if fields.items() <= line.items()]

    def publish(self, vhost, queue, payload, properties=None, exchange="amq.default"):
        """Publish a message through the API."""
        body = {"routing_key": queue, "payload": payload, "payload_encoding": "string",
                "properties": properties or {}}  # fmt: skip
        answer = self.post(f"exchanges/{quote(vhost, safe='')}/{exchange}/publish", body)
        assert answer.status == 200, answer
        return answer.body["routed"]


def _answer(status, raw, headers):
    try:
        body = json.loads(raw) if raw else None
    except json.JSONDecodeError:
        body = raw.decode()
    return Answer(status, body, headers)
