"""The HTTP backend against real servers: correct, faulty, and missing ones."""

import asyncio
import contextlib
import ssl

import pytest
from aiohttp import web

from leveret.broker.auth.backends.http import ANSWER_BYTES_MAX, HttpBackend
from leveret.broker.auth.identity import BackendUnavailable, Identity, LoginAttempt
from leveret.broker.config import load_config
from tests.feature.certificate_authority import CertificateAuthority
from tests.feature.served import serving

ANNA = Identity("anna", ("administrator", "monitoring"))
PATHS = ("user", "vhost", "resource", "topic")


class AuthServer:
    """Answers every request with `answer`, and records it."""

    def __init__(self):
        self.answer, self.status, self.delay_s = "allow", 200, 0.0
        self.asked = []
        self.url = ""
        self.context = None
        self.headers, self.is_once = {}, False

    def redirect(self, status, location, once=False):
        self.status, self.headers, self.is_once = status, {"Location": location}, once

    async def handle(self, request):
        fields = dict(request.query) | dict(await request.post())
        self.asked.append((request.method, request.path, fields))
        await asyncio.sleep(self.delay_s)
        status, headers = self.status, self.headers
        if self.is_once:
            self.status, self.headers = 200, {}
        return web.Response(text=self.answer, status=status, headers=headers)

    @contextlib.asynccontextmanager
    async def running(self, context=None):
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.handle)
        async with serving(application, context) as self.url:
            yield self


@pytest.fixture
async def server():
    async with AuthServer().running() as server:
        yield server


@pytest.fixture
async def make(tmp_path):
    """Creates backends, given a server's address and settings."""
    made = []

    def make(url, *settings):
        file = tmp_path / "rabbitmq.conf"
        paths = [f"auth_http.{name}_path = {url}/{name}" for name in PATHS]
        file.write_text("\n".join([*paths, *settings]) + "\n")
        made.append(HttpBackend(load_config(file, {}, {}).auth_http))
        return made[-1]

    yield make
    for backend in made:
        await backend.close()


def attempt(password="secret", name="anna"):
    return LoginAttempt(name, password, "192.0.2.1")


class TestQuestions:
    """The requests have RabbitMQ's parameters."""

    @pytest.mark.parametrize("method", ["get", "post"])
    async def test_all_of_them(self, server, make, method):
        backend = make(server.url, f"auth_http.http_method = {method}")
        await backend.authenticate(attempt())
        await backend.authenticate(attempt(None))
        await backend.may_use_vhost(ANNA, "/", "192.0.2.1")
        await backend.may_use(ANNA, "/", "queue", "jobs", "configure")
        await backend.may_use_topic(ANNA, "/", "logs", "app.error", "write")
        tags = {"tags": "administrator monitoring"}
        assert server.asked == [
            (method.upper(), "/user", {"username": "anna", "password": "secret"}),
            (method.upper(), "/user", {"username": "anna"}),
            (method.upper(), "/vhost",
             {"username": "anna", "vhost": "/", "ip": "192.0.2.1"} | tags),
            (method.upper(), "/resource",
             {"username": "anna", "vhost": "/", "resource": "queue", "name": "jobs",
              "permission": "configure"} | tags),
            (method.upper(), "/topic",
             {"username": "anna", "vhost": "/", "resource": "topic", "name": "logs",
              "permission": "write", "routing_key": "app.error",
              "variable_map.username": "anna", "variable_map.vhost": "/"} | tags),
        ]  # fmt: skip

    @pytest.mark.parametrize("method", ["get", "post"])
    @pytest.mark.parametrize("text", ["a&username=b", "ä ö+%41", "a=b;c#d?e/f", "\r\n", ""])
    async def test_every_text_arrives_as_it_is(self, server, make, method, text):
        backend = make(server.url, f"auth_http.http_method = {method}")
        await backend.authenticate(attempt(name=text, password=text))
        assert server.asked[0][2] == {"username": text, "password": text}

    async def test_a_name_that_is_not_utf_8_arrives_as_its_bytes(self, server, make):
        await make(server.url).may_use(ANNA, "/", "queue", "\udcff", "read")
        assert server.asked[0][2]["name"].encode("utf-8", "surrogateescape") in (
            b"\xff", "\N{REPLACEMENT CHARACTER}".encode(),
        )  # fmt: skip

    async def test_an_address_may_have_parameters_of_its_own(self, server, make):
        backend = make(server.url, f"auth_http.user_path = {server.url}/login?site=burrow")
        await backend.authenticate(attempt())
        assert server.asked[0][2] == {"site": "burrow", "username": "anna", "password": "secret"}

    async def test_one_connection_serves_many_questions(self, make):
        ports = set()

        async def handle(request):
            ports.add(request.transport.get_extra_info("peername")[1])
            return web.Response(text="allow")

        server = AuthServer()
        server.handle = handle
        async with server.running():
            backend = make(server.url)
            for _ in range(5):
                await backend.authenticate(attempt())
        assert len(ports) == 1


class TestRedirects:
    """Another address gets no password, and its answer does not count."""

    @pytest.fixture
    async def pair(self, make):
        """A backend, the server it asks, and another one that allows everything."""
        asked, other = AuthServer(), AuthServer()
        other.answer = "allow administrator"
        async with asked.running(), other.running():
            yield asked, other, lambda *settings: make(asked.url, *settings)

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    @pytest.mark.parametrize("method", ["get", "post"])
    async def test_none_is_followed_to_another_origin(self, pair, status, method):
        asked, other, make = pair
        asked.redirect(status, f"{other.url}/user?username=anna&password=secret")
        with pytest.raises(BackendUnavailable, match="another origin") as refusal:
            await make(f"auth_http.http_method = {method}").authenticate(attempt())
        assert other.asked == []
        assert other.url in str(refusal.value)
        assert "secret" not in str(refusal.value)

    async def test_nor_is_one_in_a_question_about_permissions(self, pair):
        asked, other, make = pair
        asked.redirect(307, f"{other.url}/vhost")
        with pytest.raises(BackendUnavailable):
            await make().may_use_vhost(ANNA, "/", "192.0.2.1")
        assert other.asked == []

    @pytest.mark.parametrize("method", ["get", "post"])
    async def test_one_to_the_same_origin_is(self, pair, method):
        asked, _, make = pair
        asked.redirect(307, "/user/?username=anna", once=True)
        asked.answer = "allow monitoring"
        identity = await make(f"auth_http.http_method = {method}").authenticate(attempt())
        assert identity.tags == ("monitoring",)
        assert [path for _, path, _ in asked.asked] == ["/user", "/user/"]

    async def test_a_post_is_not_repeated_without_its_fields(self, pair):
        asked, _, make = pair
        asked.redirect(302, "/user/")
        with pytest.raises(BackendUnavailable, match="without its fields"):
            await make("auth_http.http_method = post").authenticate(attempt())
        assert len(asked.asked) == 1

    @pytest.mark.parametrize("location", ["/user", "", "http://[", "//elsewhere.invalid/user"])
    async def test_they_end(self, pair, location):
        asked, _, make = pair
        asked.redirect(302, location)
        with pytest.raises(BackendUnavailable, match="redirect"):
            await make().authenticate(attempt())
        assert len(asked.asked) <= 6


class TestAnswers:
    @pytest.mark.parametrize(
        ("answer", "tags"),
        [
            ("allow", ()),
            ("ALLOW\n", ()),
            (" allow ", ()),
            ("allow administrator", ("administrator",)),
            ("allow  Administrator policymaker", ("administrator", "policymaker")),
        ],
    )
    async def test_a_user_is_let_in(self, server, make, answer, tags):
        server.answer = answer
        backend = make(server.url)
        identity = await backend.authenticate(attempt())
        assert (identity.name, identity.tags, identity.authorization) == ("anna", tags, backend)

    async def test_a_created_answer_is_an_answer(self, server, make):
        server.status = 201
        assert await make(server.url).authenticate(attempt())

    @pytest.mark.parametrize("answer", ["deny", "DENY", "deny\n"])
    async def test_a_user_is_refused(self, server, make, answer):
        server.answer = answer
        assert await make(server.url).authenticate(attempt()) is None

    @pytest.mark.parametrize(("answer", "is_allowed"), [("allow", True), ("Deny", False)])
    async def test_permissions(self, server, make, answer, is_allowed):
        server.answer = answer
        backend = make(server.url)
        assert await backend.may_use_vhost(ANNA, "/", "192.0.2.1") is is_allowed
        assert await backend.may_use(ANNA, "/", "queue", "q", "read") is is_allowed
        assert await backend.may_use_topic(ANNA, "/", "x", "k", "read") is is_allowed

    @pytest.mark.parametrize(
        "answer",
        ["", "maybe", "denied", "allowed", "<p>no: secret</p>"],
    )
    async def test_that_are_none(self, server, make, answer):
        """The server's answer is not logged: it may contain the password."""
        server.answer = answer
        backend = make(server.url)
        with pytest.raises(BackendUnavailable, match="answered neither allow nor deny") as caught:
            await backend.authenticate(attempt())
        assert "secret" not in str(caught.value)
        with pytest.raises(BackendUnavailable):
            await backend.may_use_vhost(ANNA, "/", "192.0.2.1")

    async def test_that_are_too_long(self, server, make):
        server.answer = "a" * 2 * ANSWER_BYTES_MAX
        with pytest.raises(BackendUnavailable, match="the answer of .* is too long"):
            await make(server.url).authenticate(attempt())

    async def test_tags_are_for_users_only(self, server, make):
        server.answer = "allow administrator"
        with pytest.raises(BackendUnavailable):
            await make(server.url).may_use_vhost(ANNA, "/", "192.0.2.1")

    @pytest.mark.parametrize("status", [204, 400, 401, 403, 404, 500, 503])
    async def test_a_status_that_is_no_success_is_a_problem(self, server, make, status):
        server.status = status
        with pytest.raises(BackendUnavailable, match=f"/user answered with status {status}"):
            await make(server.url).authenticate(attempt())

    async def test_renewing_is_a_login(self, server, make):
        backend = make(server.url)
        assert (await backend.renew(ANNA, "new")).name == "anna"
        assert server.asked[0][2] == {"username": "anna", "password": "new"}
        server.answer = "deny"
        assert await backend.renew(ANNA, "new") is None


class TestTrouble:
    async def test_no_server_listens(self, make):
        with pytest.raises(BackendUnavailable, match="http://127.0.0.1:1/user: ") as caught:
            await make("http://127.0.0.1:1").authenticate(attempt())
        assert "secret" not in str(caught.value)

    async def test_a_server_that_takes_too_long(self, server, make):
        server.delay_s = 30
        backend = make(server.url, "auth_http.request_timeout = 100")
        with pytest.raises(BackendUnavailable, match="does not answer in time"):
            await backend.authenticate(attempt())

    async def test_an_answer_that_is_not_http(self, make):
        async def answer(reader, writer):
            await reader.readline()
            writer.write(b"220 mail.example.org ESMTP\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(BackendUnavailable) as caught:
                await make(f"http://127.0.0.1:{port}").authenticate(attempt())
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize("method", ["get", "post"])
    async def test_a_connection_that_was_closed_is_opened_again(self, make, method):
        """The server keeps a connection open, but closes it when it is used again."""
        answered = []

        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nallow")
            answered.append(1)
            await reader.read(1)
            writer.transport.abort()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            backend = make(url, f"auth_http.http_method = {method}")
            for _ in range(3):
                assert await backend.may_use_vhost(ANNA, "/", "192.0.2.1")
            await backend.close()
        assert len(answered) == 3

    async def test_a_server_that_closes_every_connection(self, make):
        async def close(_reader, writer):
            writer.close()

        server = await asyncio.start_server(close, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(BackendUnavailable, match="it closes every connection"):
                await make(url).authenticate(attempt())


class TestTls:
    @pytest.fixture
    def authority(self, tmp_path):
        return CertificateAuthority(tmp_path)

    @pytest.fixture
    def context(self, authority):
        own = authority.issue("server", names=["127.0.0.1"])
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certfile)
        context.load_cert_chain(own.certfile, own.keyfile)
        return context

    async def test_the_certificate_of_the_server_is_checked(self, make, context, authority):
        async with AuthServer().running(context) as server:
            with pytest.raises(BackendUnavailable, match="certificate verify failed"):
                await make(server.url).authenticate(attempt())
            trusting = make(server.url, f"auth_http.ssl_options.cacertfile = {authority.certfile}")
            assert await trusting.authenticate(attempt())
            unchecked = make(server.url, "auth_http.ssl_options.verify = verify_none")
            assert await unchecked.authenticate(attempt())

    async def test_it_has_to_be_for_the_host_or_for_the_name_that_is_set(
        self, make, context, authority
    ):
        cacertfile = f"auth_http.ssl_options.cacertfile = {authority.certfile}"
        async with AuthServer().running(context) as server:
            other = make(server.url, cacertfile, "auth_http.ssl_options.sni = burrow.example")
            with pytest.raises(BackendUnavailable, match="certificate verify failed"):
                await other.authenticate(attempt())

    async def test_the_node_has_a_certificate_for_a_server_that_wants_one(
        self, make, context, authority
    ):
        context.verify_mode = ssl.CERT_REQUIRED
        own = authority.issue("node")
        cacertfile = f"auth_http.ssl_options.cacertfile = {authority.certfile}"
        async with AuthServer().running(context) as server:
            with pytest.raises(BackendUnavailable):
                await make(server.url, cacertfile).authenticate(attempt())
            backend = make(
                server.url, cacertfile,
                f"auth_http.ssl_options.certfile = {own.certfile}",
                f"auth_http.ssl_options.keyfile = {own.keyfile}",
            )  # fmt: skip
            assert await backend.authenticate(attempt())
