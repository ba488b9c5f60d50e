"""Connections of the LDAP backend to a real slapd: reused, lost, refused, with TLS."""

import asyncio
import contextlib

import pytest

from leveret.broker.auth.identity import BackendUnavailable
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.feature.slapd import BASE, HIDDEN, NEEDS_SLAPD, Slapd, log_in

pytestmark = NEEDS_SLAPD


class Doorway:
    """A port that forwards to slapd's, counts connections, and can be closed."""

    def __init__(self, port):
        self.port_behind = port
        self.count = 0
        self.writers = []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.let_in, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        self.slam()

    def slam(self):
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    async def let_in(self, reader, writer):
        self.count += 1
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.port_behind)
        self.writers += [writer, inner_writer]
        await asyncio.gather(
            self.carry(reader, inner_writer), self.carry(inner_reader, writer)
        )  # fmt: skip

    async def carry(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()


class TestConnections:
    async def test_one_is_used_again_and_again(self, make, slapd):
        async with Doorway(slapd.port) as door:
            backend = make(f"port = {door.port}", 'tag_queries.a = {exists, "${user_dn}"}')
            for name in ("anna", "bert", "anna"):
                assert (await log_in(backend, name)).tags == ("a",)
            assert await log_in(backend, password="wrong") is None
            assert door.count == 1

    async def test_a_connection_keeps_no_rights_of_the_last_user(self, make):
        """A connection of an earlier user is bound again, or not used."""
        backend = make(
            f'vhost_access_query = {{in_group, "cn=club,{HIDDEN}"}}', "other_bind = anon"
        )
        node = make(f"user_dn_pattern = cn=${{username}},{BASE}")
        node._servers = backend._servers
        identity = await log_in(backend)
        assert await log_in(node, "node", "nodepw")
        assert await backend.may_use_vhost(identity, "/", "127.0.0.1") is False

    async def test_one_that_was_closed_is_opened_again(self, make, slapd):
        async with Doorway(slapd.port) as door:
            backend = make(f"port = {door.port}")
            for count in (1, 2, 3):
                assert await log_in(backend)
                assert door.count == count
                door.slam()

    async def test_one_that_was_idle_for_too_long_is_not_used(self, make, slapd):
        clock = VirtualClock()
        async with Doorway(slapd.port) as door:
            backend = make(f"port = {door.port}", "idle_timeout = 5000", clock=clock)
            for count in (1, 2):
                await log_in(backend)
                clock.advance(5)
                await log_in(backend)
                assert door.count == count
                clock.advance(5.001)

    async def test_none_is_kept_if_none_may_be(self, make, slapd):
        async with Doorway(slapd.port) as door:
            backend = make(f"port = {door.port}", "idle_timeout = 0")
            await log_in(backend)
            await log_in(backend)
            assert door.count == 2

    async def test_the_next_server_is_asked_if_one_is_down(self, make):
        assert await log_in(make("servers.1 = 127.0.0.2", "servers.2 = 127.0.0.1"))

    async def test_all_are_down(self, make):
        backend = make("port = 1")
        with pytest.raises(BackendUnavailable, match="LDAP: 127.0.0.1: "):
            await log_in(backend)

    async def test_a_server_that_does_not_answer(self, make):
        async def be_silent(reader, _writer):
            await reader.read()

        server = await asyncio.start_server(be_silent, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(BackendUnavailable):
                await log_in(make(f"port = {port}", "timeout = 1000"))

    async def test_a_server_that_starts_again(self, make, tmp_path):
        slapd = Slapd(tmp_path)
        slapd.start()
        try:
            backend = make(f"port = {slapd.port}")
            assert await log_in(backend)
            slapd.stop()
            with pytest.raises(BackendUnavailable):
                await log_in(backend)
            slapd.start()
            assert await log_in(backend)
        finally:
            slapd.stop()


class TestTls:
    async def test_from_the_beginning(self, make, slapd):
        trusted = f"ssl_options.cacertfile = {slapd.cacertfile}"
        assert await log_in(make("use_ssl = true", f"port = {slapd.tls_port}", trusted))

    async def test_on_a_plain_connection(self, make, slapd):
        trusted = f"ssl_options.cacertfile = {slapd.cacertfile}"
        backend = make("use_starttls = true", trusted)
        assert await log_in(backend)
        assert await log_in(backend, password="wrong") is None

    @pytest.mark.parametrize("settings", [("use_ssl = true",), ("use_starttls = true",)])
    async def test_a_certificate_without_a_trusted_authority(self, make, slapd, settings):
        if "use_ssl = true" in settings:
            settings = (*settings, f"port = {slapd.tls_port}")
        with pytest.raises(BackendUnavailable, match="certificate verify failed"):
            await log_in(make(*settings))
        assert await log_in(make(*settings, "ssl_options.verify = verify_none"))

    async def test_a_certificate_for_another_name(self, make, slapd):
        settings = ("use_ssl = true", "servers.1 = 127.0.0.2",
                    f"ssl_options.cacertfile = {slapd.cacertfile}")  # fmt: skip
        server = await asyncio.start_server(Doorway(slapd.tls_port).let_in, "127.0.0.2", 0)
        async with server:
            port = f"port = {server.sockets[0].getsockname()[1]}"
            with pytest.raises(BackendUnavailable, match="doesn't match"):
                await log_in(make(*settings, port))
            assert await log_in(make(*settings, port, "ssl_options.sni = localhost"))

    async def test_a_server_without_tls_is_told_no_password(self, make, slapd):
        told = []

        async def refuse_tls(reader, writer):
            told.append(await reader.read(65536))
            # The message's number, whatever its length, and "protocol error".
            answer = told[0][2 : 4 + told[0][3]] + b"\x78\x07\x0a\x01\x02\x04\x00\x04\x00"
            writer.write(bytes((0x30, len(answer))) + answer)
            told.append(await reader.read())
            writer.close()

        server = await asyncio.start_server(refuse_tls, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(BackendUnavailable, match="startTLS failed - protocolError"):
                await log_in(make("use_starttls = true", f"port = {port}"))
        assert b"secret" not in b"".join(told)
