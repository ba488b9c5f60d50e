"""A user of an HTTP backend that only one node has uses the management of another node."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cluster.clustered_nodes import declare
from tests.cluster.managed_nodes import ManagedNode

ANNA = "anna:secret"


class AuthServer(BaseHTTPRequestHandler):
    """Knows anna, who may read the queue `jobs` and write to the default exchange."""

    def do_GET(self):
        asked = urlsplit(self.path)
        fields = {name: values[0] for name, values in parse_qs(asked.query).items()}
        content = self._answer(asked.path, fields).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @staticmethod
    def _answer(path, fields):
        if path == "/user":
            is_anna = (fields["username"], fields.get("password")) == ("anna", "secret")
            return "allow management" if is_anna else "deny"
        if path == "/resource":
            asked = (fields["name"], fields["permission"])
            return "allow" if asked in (("jobs", "read"), ("amq.default", "write")) else "deny"
        return "allow"

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def auth_url():
    with ThreadingHTTPServer(("127.0.0.1", 0), AuthServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def nodes(tmp_path, auth_url):
    """The node whose users are anna and the cluster's own, and another one with a queue."""
    settings = ["auth_backends.1 = internal", "auth_backends.2 = http"]
    settings += [
        f"auth_http.{name}_path = {auth_url}/{name}"
        for name in ("user", "vhost", "resource", "topic")
    ]
    nodes = [ManagedNode(tmp_path, "a", *settings), ManagedNode(tmp_path, "b")]
    try:
        nodes[1].join(nodes[0])
        for queue in ("jobs", "payroll"):
            declare(nodes[1], queue)
        yield nodes
    finally:
        for node in nodes:
            node.stop()


def test_her_backend_decides_on_requests_at_another_node(nodes):
    a, b = nodes
    assert b.request("GET", "whoami", user=ANNA).status == 401
    asked = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    for queue, statuses in (("jobs", (200, 200, 204)), ("payroll", (401, 401, 401))):
        assert b.publish("/", queue, "hello")
        where = f"queues/%2F/{queue}"
        got = a.post(f"{where}/get", asked, user=ANNA)
        listed = a.request("GET", f"{where}/messages", user=ANNA)
        purged = a.delete(f"{where}/contents", user=ANNA)
        assert (got.status, listed.status, purged.status) == statuses
        if queue == "jobs":
            assert [one["payload"] for one in got.body] == ["hello"]
            assert [one["payload"] for one in listed.body["messages"]] == ["hello"]
