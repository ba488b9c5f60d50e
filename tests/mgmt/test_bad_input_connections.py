"""Clients that misbehave below the level of requests: slow, many, invalid, or of other origins."""

import base64
import re
import socket
import time

import pytest

from tests.mgmt.served_node import ServedNode
from tests.patience import PATIENCE_SECONDS

REQUEST_TIMEOUT_MS = 500
BODY_TIMEOUT_MS = 700
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
CLOSE = "Connection: close\r\n"
PUT = (
    "PUT /api/global-parameters/raw HTTP/1.1\r\nHost: localhost\r\n"
    f"Authorization: {LOGIN}\r\nContent-Type: application/json\r\n"
)  # fmt: skip


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A node that waits for slow clients as long as a test."""
    served = ServedNode(
        tmp_path_factory.mktemp("node"),
        f"management.tcp.request_timeout = {REQUEST_TIMEOUT_MS}\n"
        f"management.tcp.inactivity_timeout = {BODY_TIMEOUT_MS}\n"
        "management.http.max_body_size = 1000000",
    )
    yield served
    served.stop()


@pytest.fixture(autouse=True)
def unharmed(node):
    yield
    assert node.get("whoami")["name"] == "guest"
    assert "internal_server_error" not in node.log
    assert " failed\nTraceback" not in node.log, node.log[-3000:]


def connect(node, source="127.0.0.1"):
    return socket.create_connection(
        ("127.0.0.1", node.http_port), timeout=PATIENCE_SECONDS, source_address=(source, 0)
    )


def exchange(node, raw, source="127.0.0.1"):
    """Send bytes, and return the answer until the node closes the connection or is silent."""
    with connect(node, source) as one:
        one.sendall(raw.encode("latin-1") if isinstance(raw, str) else raw)
        return read_to_end(one)


def read_to_end(one):
    answer = b""
    try:
        while got := one.recv(65_536):
            answer += got
    except ConnectionResetError:
        # Closed with unread data, which is acceptable.
        pass
    return answer.decode("latin-1")


def statuses(answer):
    """Return the statuses of all answers."""
    return [int(status) for status in re.findall(r"HTTP/1\.[01] (\d{3}) ", answer)]


# Slow clients


def dribble(one, raw):
    """Send byte by byte until the other end closes; returns the duration and the answer."""
    began = time.monotonic()
    answer = b""
    one.settimeout(0.05)
    for byte in raw:
        try:
            one.sendall(bytes([byte]))
            answer += (got := one.recv(65_536))
        except TimeoutError:
            continue
        except OSError:
            break
        if not got:
            break
        assert time.monotonic() - began < PATIENCE_SECONDS
    return time.monotonic() - began, answer.decode("latin-1")


def test_headers_that_dribble_in_are_not_waited_for(node):
    with connect(node) as one:
        seconds, answer = dribble(one, (PUT + "X-Slow: " + "x" * 5000).encode())
    assert REQUEST_TIMEOUT_MS / 1000 - TIMER_SECONDS <= seconds < PATIENCE_SECONDS
    assert answer == ""


def test_a_body_that_dribbles_in_is_not_waited_for(node):
    with connect(node) as one:
        one.sendall((PUT + "Content-Length: 5000\r\n\r\n").encode())
        seconds, answer = dribble(one, b'{"value": "' + b"x" * 4000)
    assert BODY_TIMEOUT_MS / 1000 - TIMER_SECONDS <= seconds < PATIENCE_SECONDS
    assert statuses(answer) == [408]
    assert "management.tcp.inactivity_timeout" in answer


TIMER_SECONDS = 0.01
"""A timer of the event loop, which counts milliseconds, may be early by this much."""


def test_a_silent_client_is_not_waited_for(node):
    began = time.monotonic()
    with connect(node) as one:
        assert one.recv(1) == b""
    took = time.monotonic() - began
    assert REQUEST_TIMEOUT_MS / 1000 - TIMER_SECONDS <= took < PATIENCE_SECONDS


def test_very_many_slow_and_idle_clients_hold_no_other_client_up(node):
    slow = [connect(node) for _ in range(150)]
    try:
        for number, one in enumerate(slow):
            one.sendall((PUT if number % 2 else PUT + "Content-Length: 9\r\n\r\n{").encode())
        assert all(node.get("whoami")["name"] == "guest" for _ in range(10))
        # All of them are closed.
        for one in slow:
            read_to_end(one)
    finally:
        for one in slow:
            one.close()


def test_a_connection_may_be_used_again_and_again(node):
    request = f"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: {LOGIN}\r\n\r\n"
    # The node ends the connection after REQUEST_TIMEOUT_MS without a request.
    assert statuses(exchange(node, 20 * request)) == 20 * [200]


# HTTP syntax


def chunked(*pieces):
    """A body in chunks."""
    return "".join(f"{len(piece):x}\r\n{piece}\r\n" for piece in pieces) + "0\r\n\r\n"


def test_a_body_may_come_in_chunks(node):
    raw = PUT + "Transfer-Encoding: chunked\r\n\r\n" + chunked('{"val', 'ue": 5', "}")
    assert statuses(exchange(node, raw))[0] in (201, 204)
    assert node.get("global-parameters/raw")["value"] == 5


def test_chunks_over_the_limit_are_refused(node):
    pieces = ["x" * 10_000] * 110
    raw = PUT + "Transfer-Encoding: chunked\r\n\r\n" + chunked(*pieces)
    assert statuses(exchange(node, raw)) == [400]


SMUGGLED = "GET /api/overview HTTP/1.1\r\nHost: localhost\r\nX: "
AMBIGUOUS = {
    "both lengths": "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": "Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}" + SMUGGLED,
    "a list of lengths": "Content-Length: 2, 40\r\n\r\n{}" + SMUGGLED,
    "a signed length": "Content-Length: +2\r\n\r\n{}" + SMUGGLED,
    "a negative length": "Content-Length: -2\r\n\r\n{}" + SMUGGLED,
    "a length of letters": "Content-Length: 0x2\r\n\r\n{}" + SMUGGLED,
    "another coding": "Transfer-Encoding: xchunked\r\n\r\n{}" + SMUGGLED,
    "chunked twice": "Transfer-Encoding: chunked, chunked\r\n\r\n" + chunked("{}") + SMUGGLED,
    "a folded line": "Transfer-Encoding:\r\n chunked\r\nContent-Length: 2\r\n\r\n{}" + SMUGGLED,
    "a space before a colon": "Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n" + SMUGGLED,
    "a bad chunk": "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "a NUL in a header": "X-Nul: a\0b\r\nContent-Length: 2\r\n\r\n{}" + SMUGGLED,
}  # fmt: skip


@pytest.mark.parametrize("rest", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_a_request_with_two_ends_is_refused_and_nothing_after_it_is_read(rest, node):
    # The smuggled request has a login of its own, so that its answer would be 200.
    answer = exchange(node, PUT + rest + f"\r\nAuthorization: {LOGIN}\r\n\r\n")
    assert statuses(answer) == [400], answer


HUGE = {
    "a long line": "GET /api/" + "a" * 20_000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long header": PUT + "X-Long: " + "a" * 20_000 + "\r\n\r\n",
    "many headers": PUT + "".join(f"X-{number}: a\r\n" for number in range(2000)) + "\r\n",
    "no HTTP": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "\0" * 300 + "\r\n\r\n",
    "AMQP": "AMQP\x00\x00\x09\x01\r\n\r\n",
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("raw", HUGE.values(), ids=HUGE)
def test_bytes_that_are_not_a_request_are_refused(raw, node):
    assert all(status in (400, 404, 405, 505) for status in statuses(exchange(node, raw)))


@pytest.mark.parametrize("method", ["TRACE", "PATCH", "CONNECT", "PROPFIND", "BREW", "get"])
def test_methods_that_are_not_there_are_refused(method, node):
    head = f"{method} /api/overview HTTP/1.1\r\nHost: localhost\r\nAuthorization: {LOGIN}\r\n\r\n"
    answer = exchange(node, head)
    assert statuses(answer)[0] in (400, 404, 405), answer
    assert "cluster_name" not in answer


PATHS = (
    "/ui/../../pyproject.toml", "/ui/%2e%2e/%2e%2e/pyproject.toml", "/ui/..%2f..%2fpyproject.toml",
    "/ui//etc/passwd", "//etc/passwd", "/ui/%00", "/ui/..%5c..%5cpyproject.toml",
    "/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/../../etc/passwd", "/api//whoami",
    "//api/whoami", "/api/./whoami/..", "/api/%77hoami%00", "/api/whoami%20", "/api/whoami;x",
    "/api/node/stop", "/api/%6eode/stop", "http://other/api/node/stop", "*", "/api/queues/%", "/?%",
    f"/ui/{'a' * 4000}", f"/ui/{'a/' * 2000}", "/ui/%ff", "/ui", "/ui/",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_tricks_with_paths_lead_nowhere(path, node):
    for login in ("", f"Authorization: {LOGIN}\r\n"):
        answer = exchange(node, f"GET {path} HTTP/1.1\r\nHost: x\r\n{CLOSE}{login}\r\n")
        assert statuses(answer), path
        assert statuses(answer)[0] < 500, (path, answer)
        assert "[project]" not in answer
        assert "root:" not in answer
        assert login or '"guest"' not in answer


# Browsers


def test_no_cookie_is_set_and_none_is_looked_at(node):
    answer = node.request("GET", "whoami")
    assert answer.headers["Set-Cookie"] is None
    cookies = {"Cookie": f"auth={LOGIN.partition(' ')[2]}; m=2258:{LOGIN}"}
    assert node.request("GET", "whoami", user=None, headers=cookies).status == 401


FORM_TYPES = (
    "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
    "TEXT/PLAIN; charset=utf-8",
)  # fmt: skip


@pytest.mark.parametrize("sent_type", FORM_TYPES)
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://["]
)
def test_a_form_of_another_site_is_refused(origin, sent_type, node):
    node.put("queues/%2F/kept")
    for path in ("definitions", "users/bulk-delete", "queues/%2F/kept/messages/delete", "login"):
        headers = {"Origin": origin, "Content-Type": sent_type}
        answer = node.request("POST", path, raw=b'{"users": ["guest"], "all": true}',
                              headers=headers)  # fmt: skip
        assert answer.status == 403, (path, answer)
        assert "management.cors.allow_origins" in answer.body["reason"]
        assert answer.headers["Access-Control-Allow-Origin"] is None


def test_another_site_gets_no_leave_to_send_more(node):
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "DELETE"}
    answer = node.request("OPTIONS", "queues/%2F/kept", user=None, headers=headers)
    assert answer.headers["Access-Control-Allow-Origin"] is None
    assert answer.headers["Access-Control-Allow-Methods"] is None


def test_the_pages_own_requests_and_those_of_programs_are_taken(node):
    own = f"http://127.0.0.1:{node.http_port}"
    for headers in ({"Origin": own}, {"Origin": own, "Content-Type": "text/plain"}, {},
                    {"Origin": "https://behind.a.proxy"}):  # fmt: skip
        answer = node.request("POST", "definitions", {}, headers=headers)
        assert answer.status == 204, (headers, answer)


# Logins


def test_a_login_loop_ends_for_its_address_and_name_only(tmp_path):
    served = ServedNode(tmp_path, "auth_failures_per_minute = 5")
    try:
        for number in range(20):
            assert served.request("GET", "whoami", user=f"guest:{number}").status == 401
        # From here on even the right password is refused, with the same answer.
        right = served.request("GET", "whoami", user="guest:guest")
        wrong = served.request("GET", "whoami", user="guest:wrong")
        assert (right.status, right.body) == (wrong.status, wrong.body)
        raw = f"GET /api/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: {LOGIN}\r\n{CLOSE}\r\n"
        assert statuses(exchange(served, raw, source="127.0.0.2")) == [200]
        assert served.log.count("wrong user name or password") == 5
        with_other_name = served.request("GET", "whoami", user="other:wrong")
        assert with_other_name.status == 401
        assert "wrong user name or password for 'other'" in served.log
    finally:
        served.stop()


# Regular expressions


TRAPS = ("(a+)+$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$")
NAME = "a" * 120 + "!"


def test_a_trap_of_an_expression_does_not_hold_the_node_up(node):
    """Without a bound, each of these would take longer than the universe exists.

    tests/unit/broker/runtime/test_patterns.py shows how the time of a match is bounded.
    """
    node.put(f"queues/%2F/{NAME}")
    node.publish("/", NAME, NAME)
    for trap in TRAPS:
        quoted = trap.replace("+", "%2B").replace("^", "%5E")
        answer = node.request("GET", f"queues?page=1&use_regex=true&name={quoted}")
        assert answer.status in (200, 400)
        answer = node.request("GET", f"queues/%2F/{NAME}/messages?body={quoted}")
        assert answer.status in (200, 400)
        policy = {"pattern": trap, "definition": {"max-length": 5}}
        assert node.put("policies/%2F/trap", policy).status in (201, 204)
        permission = {"configure": trap, "write": trap, "read": trap}
        node.put("users/trapped", {"password": "p", "tags": "administrator"})
        assert node.put("permissions/%2F/trapped", permission).status in (201, 204)
        assert node.put(f"queues/%2F/{NAME}2", user="trapped:p").status == 401
    node.delete("policies/%2F/trap")
