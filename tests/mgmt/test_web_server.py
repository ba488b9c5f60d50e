"""Serving the API and pages: over HTTPS, below a path prefix, and with security headers."""

import json
import re
import ssl
import urllib.error
import urllib.request

import pytest

from leveret.mgmt.api.page_files import UI_DIRECTORY, read_pages
from tests.feature.certificate_authority import CertificateAuthority
from tests.mgmt.served_node import ServedNode
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_ports

AUTHORIZATION = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}


@pytest.fixture
def start(tmp_path):
    """Start a node with settings."""
    started = []

    def make(*settings):
        started.append(ServedNode(tmp_path, "\n".join(settings)))
        return started[0]

    yield make
    for one in started:
        one.stop()


def ask(where, headers=AUTHORIZATION, method="GET", context=None):
    """Return status, headers and body."""
    request = urllib.request.Request(where, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=context) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


class TestHttps:
    def test_beside_http(self, start, tmp_path):
        authority = CertificateAuthority(tmp_path)
        server = authority.issue("server", names=["localhost", "127.0.0.1"])
        (port,) = free_ports(1)
        node = start(
            f"management.ssl.port = {port}",
            f"management.ssl.certfile = {server.certfile}",
            f"management.ssl.keyfile = {server.keyfile}",
        )
        trusting = ssl.create_default_context(cafile=authority.certfile)
        status, _, body = ask(f"https://127.0.0.1:{port}/api/whoami", context=trusting)
        assert (status, json.loads(body)["name"]) == (200, "guest")
        assert {one["protocol"] for one in node.get("overview")["listeners"]} >= {"http", "https"}

    def test_with_the_keys_of_older_files(self, start, tmp_path):
        authority = CertificateAuthority(tmp_path)
        server = authority.issue("server", names=["localhost", "127.0.0.1"])
        node = start(
            "management.listener.ssl = true",
            f"management.listener.ssl_opts.certfile = {server.certfile}",
            f"management.listener.ssl_opts.keyfile = {server.keyfile}",
        )
        trusting = ssl.create_default_context(cafile=authority.certfile)
        where = f"https://127.0.0.1:{node.http_port}/api/whoami"
        assert ask(where, context=trusting)[0] == 200


class TestPathPrefix:
    def test_everything_is_below_it(self, start):
        node = start("management.path_prefix = /broker")
        root = f"http://127.0.0.1:{node.http_port}"
        assert ask(f"{root}/broker/api/whoami")[0] == 200
        assert ask(f"{root}/broker/api/whoami/")[0] == 200
        assert ask(f"{root}/api/whoami")[0] == 404
        status, _, page = ask(f"{root}/broker/", headers={})
        assert status == 200
        assert "<html" in page
        # Without the trailing slash a page's relative addresses would be wrong.
        assert ask(f"{root}/broker", headers={})[2] == page


class Unfollowed(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_redirect):
        return None


@pytest.mark.parametrize(
    ("path", "status", "location"),
    [
        ("cli", 301, "/cli/index.html"), ("cli/", 301, "/cli/index.html"),
        ("api", 301, "/api/index.html"), ("api/", 301, "/api/index.html"),
        ("doc/stats.html", 301, "/api/index.html"),
    ],
)  # fmt: skip
def test_addresses_of_rabbitmqs_pages_lead_on(node, path, status, location):
    with pytest.raises(urllib.error.HTTPError) as redirect:
        opener = urllib.request.build_opener(Unfollowed)
        opener.open(f"http://127.0.0.1:{node.http_port}/{path}", timeout=PATIENCE_SECONDS)
    assert redirect.value.code == status
    assert redirect.value.headers["Location"].startswith(location)


def test_the_reference_of_the_api_lists_its_routes(node):
    status, headers, page = ask(f"http://127.0.0.1:{node.http_port}/api/index.html", headers={})
    assert (status, headers.get_content_type()) == (200, "text/html")
    assert "<code>/api/queues/{vhost}/{queue}</code>" in page
    assert "/api/node/status" not in page
    assert ask(f"http://127.0.0.1:{node.http_port}/cli/index.html", headers={})[0] == 200


def test_browsers_that_ask_for_an_icon_get_one(node):
    status, headers, _ = ask(f"http://127.0.0.1:{node.http_port}/favicon.ico", headers={})
    assert (status, headers["Content-Type"]) == (200, "image/svg+xml")


class TestFilesOfPages:
    def test_a_browser_keeps_those_of_this_version(self, node):
        root = f"http://127.0.0.1:{node.http_port}/"
        _, headers, page = ask(root, headers={})
        assert headers["Cache-Control"] == "no-cache"
        for name, kind in (("app.js", "javascript"), ("app.css", "css"), ("mark.svg", "svg")):
            (place,) = set(re.findall(rf'"(ui/v-\w+/{name})"', page))
            status, headers, content = ask(root + place, headers={})
            assert (status, headers["Cache-Control"]) == (200, "max-age=31536000, immutable")
            assert kind in headers["Content-Type"]
            assert content == (UI_DIRECTORY / name).read_text()
        module = place.replace("mark.svg", "pages/queue.js")
        assert "immutable" in ask(root + module, headers={})[1]["Cache-Control"]

    @pytest.mark.parametrize("version", ["", "v-0123/"])
    def test_a_file_without_this_version_is_asked_for_each_time(self, node, version):
        root = f"http://127.0.0.1:{node.http_port}/"
        ask(root, headers={})
        status, headers, content = ask(f"{root}ui/{version}pages/queue.js", headers={})
        assert (status, headers["Cache-Control"]) == (200, "no-cache")
        assert content == (UI_DIRECTORY / "pages/queue.js").read_text()

    def test_another_file_is_another_version(self, tmp_path):
        (tmp_path / "index.html").write_text("a page")
        versions = [read_pages(tmp_path).version]
        for name, text in (("index.html", "a pagE"), ("a", ""), ("b", "a"), ("a", "b")):
            (tmp_path / name).write_text(text)
            versions.append(read_pages(tmp_path).version)
        assert len({*versions}) == 5


class TestHeaders:
    def test_pages_may_not_be_framed_nor_run_foreign_scripts(self, node):
        for path in ("", "api/whoami", "api/nothing"):
            _, headers, _ = ask(f"http://127.0.0.1:{node.http_port}/{path}")
            assert headers["X-Frame-Options"] == "DENY"
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert "default-src 'self'" in headers["Content-Security-Policy"]

    def test_other_origins_get_nothing_unless_they_are_named(self, node):
        where = f"http://127.0.0.1:{node.http_port}/api/whoami"
        foreign = AUTHORIZATION | {"Origin": "http://elsewhere.example"}
        assert "Access-Control-Allow-Origin" not in ask(where, foreign)[1]
        assert "Access-Control-Allow-Origin" not in ask(where, foreign, "OPTIONS")[1]

    def test_origins_that_are_named(self, start):
        node = start(
            "management.cors.allow_origins.1 = http://friend.example",
            "management.cors.max_age = 60",
            "management.hsts.policy = max-age=31536000",
            "management.csp.policy = default-src 'none'",
        )
        where = f"http://127.0.0.1:{node.http_port}/api/whoami"
        friend = {"Origin": "http://friend.example"}
        status, headers, _ = ask(where, friend, "OPTIONS")
        assert status == 200
        assert headers["Access-Control-Allow-Origin"] == "http://friend.example"
        assert headers["Access-Control-Max-Age"] == "60"
        assert "Authorization" in headers["Access-Control-Allow-Headers"]
        assert headers["Strict-Transport-Security"] == "max-age=31536000"
        assert headers["Content-Security-Policy"] == "default-src 'none'"
        other = AUTHORIZATION | {"Origin": "http://elsewhere.example"}
        assert "Access-Control-Allow-Origin" not in ask(where, other)[1]

    def test_the_cookie_of_a_login_authenticates_no_request(self, node):
        where = f"http://127.0.0.1:{node.http_port}"
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        request = urllib.request.Request(
            f"{where}/api/login", b"username=guest&password=guest", form
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            cookie = answer.headers["Set-Cookie"]
        assert cookie.startswith("auth=Z3Vlc3Q6Z3Vlc3Q=; Version=1")
        assert "HttpOnly; SameSite=Strict" in cookie
        assert ask(f"{where}/api/whoami", {"Cookie": cookie})[0] == 401
        assert ask(f"{where}/")[1]["Set-Cookie"] is None

    def test_vary_is_as_in_rabbitmq(self, node):
        _, headers, _ = ask(f"http://127.0.0.1:{node.http_port}/api/whoami")
        assert headers["Vary"] == "accept, accept-encoding, origin"
