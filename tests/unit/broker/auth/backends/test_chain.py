"""The chain of backends in a configuration, and the order of queries."""

from dataclasses import replace

import pytest

from leveret.broker.auth.backends.cache import CachedBackend
from leveret.broker.auth.backends.chain import (
    MAKERS,
    BackendError,
    Chain,
    ChainStep,
    build_chain,
)
from leveret.broker.auth.backends.internal import InternalBackend
from leveret.broker.auth.backends.pair import Pair
from leveret.broker.auth.identity import BackendUnavailable, Identity, LoginAttempt
from leveret.broker.auth.permissions import PermissionTable
from leveret.broker.auth.users import UserDirectory
from leveret.broker.config import AuthenticationSettings, load_config
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.installed_package import install_in

ATTEMPT = LoginAttempt("anna", "secret", "127.0.0.1")


class FakeBackend:
    """Knows some users by name and password; a password of None counts as authenticated."""

    def __init__(self, *names, tags=(), password="secret", problem=None, state=None, ends=None):
        self.names, self.tags, self.password, self.problem = names, tags, password, problem
        self.state, self.ends = state, ends
        self.attempts = []
        self.is_closed = False

    async def authenticate(self, attempt):
        self.attempts.append(attempt)
        if self.problem:
            raise BackendUnavailable(self.problem)
        if attempt.name not in self.names or attempt.password not in (None, self.password):
            return None
        return Identity(attempt.name, self.tags, self, self.state, self.ends)

    async def renew(self, identity, secret):
        return replace(identity, state=secret) if secret == "new" else None

    def may_use_vhost(self, identity, vhost, peer_host):
        return vhost == self.state

    async def close(self):
        self.is_closed = True


def chain_of(*pairs):
    return Chain(
        [ChainStep(f"auth_backends.{number}", pair) for number, pair in enumerate(pairs, 1)]
    )


def alone(backend, name="http"):
    return Pair(backend, backend, name)


class TestAsking:
    async def test_the_first_that_knows_the_credentials_counts(self):
        first, second, third = FakeBackend(), FakeBackend("anna", tags=("a",)), FakeBackend("anna")
        identity = await chain_of(*map(alone, (first, second, third))).authenticate(ATTEMPT)
        assert (identity.tags, identity.authorization) == (("a",), second)
        assert (len(first.attempts), len(third.attempts)) == (1, 0)

    async def test_no_backend_knows_the_user(self):
        assert (
            await chain_of(alone(FakeBackend()), alone(FakeBackend())).authenticate(ATTEMPT) is None
        )
        assert await chain_of().authenticate(ATTEMPT) is None

    async def test_an_unavailable_backend_locks_no_user_out_and_is_in_the_log(self, caplog):
        chain = chain_of(alone(FakeBackend(problem="http://x is down")), alone(FakeBackend("anna")))
        assert (await chain.authenticate(ATTEMPT)).name == "anna"
        assert (
            "auth_backends.1 cannot check the credentials of 'anna': http://x is down"
            in caplog.text
        )
        assert "secret" not in caplog.text

    async def test_all_are_closed_once(self):
        first, second = FakeBackend(), FakeBackend()
        await chain_of(alone(first), Pair(first, second, "http")).close()
        assert first.is_closed
        assert second.is_closed


class TestPairs:
    """One backend for authentication, and another for authorization."""

    async def test_the_second_is_asked_about_the_user_and_decides(self):
        first = FakeBackend("anna", tags=("one",), state="first", ends=5)
        second = FakeBackend("anna", tags=("two", "one"), state="burrow", ends=9)
        identity = await chain_of(Pair(first, second, "ldap")).authenticate(ATTEMPT)
        assert identity == Identity("anna", ("one", "two"), expires_at_s=9)
        assert (identity.authorization, identity.state) == (second, "burrow")
        assert identity.authorization.may_use_vhost(identity, "burrow", "") is True

    async def test_tags_of_http_and_tokens_do_not_count_there(self):
        first, second = FakeBackend("anna", tags=("one",)), FakeBackend("anna", tags=("two",))
        for name in ("http", "oauth2"):
            identity = await chain_of(Pair(first, second, name)).authenticate(ATTEMPT)
            assert identity.tags == ("one",)

    async def test_internal_users_need_no_password_of_their_own(self):
        first, second = FakeBackend("anna"), FakeBackend("anna", password="another")
        assert await chain_of(Pair(first, second, "internal")).authenticate(ATTEMPT)
        assert second.attempts == [replace(ATTEMPT, password=None)]
        assert await chain_of(Pair(first, second, "http")).authenticate(ATTEMPT) is None

    async def test_whom_the_second_does_not_know_the_next_may(self, caplog):
        first, second, third = FakeBackend("anna"), FakeBackend(), FakeBackend("anna")
        chain = chain_of(Pair(first, second, "internal"), alone(third))
        assert (await chain.authenticate(ATTEMPT)).authorization is third
        assert "user 'anna' is unknown to the authorization backend internal" in caplog.text

    async def test_the_second_is_down(self):
        first, second = FakeBackend("anna"), FakeBackend(problem="down")
        assert await chain_of(Pair(first, second, "ldap")).authenticate(ATTEMPT) is None


class TestRenewing:
    async def test_the_backend_of_the_permissions_judges(self):
        first, second = FakeBackend("anna", tags=("t",)), FakeBackend("anna", state="old")
        chain = chain_of(alone(FakeBackend()), Pair(first, second, "ldap"))
        identity = await chain.authenticate(ATTEMPT)
        renewed = await chain.renew(identity, "new")
        assert (renewed.state, renewed.tags, renewed.authorization) == ("new", ("t",), second)
        assert await chain.renew(identity, "bad") is None

    async def test_a_user_of_another_chain_is_refused(self):
        identity = Identity("anna", authorization=FakeBackend())
        assert await chain_of(alone(FakeBackend("anna"))).renew(identity, "new") is None


GUESTS = """
class Guests:
    def __init__(self, config, clock):
        pass

make_guests = Guests
"""


class TestBuilding:
    @pytest.fixture
    def build(self, tmp_path):
        def build_from(text):
            file = tmp_path / "rabbitmq.conf"
            file.write_text(text)
            internal = InternalBackend(UserDirectory(), PermissionTable())
            return build_chain(load_config(file, {}, {}), VirtualClock(), internal)

        return build_from

    def kinds(self, chain):
        names = []
        for step in chain._steps:
            pair = step.pair
            names.append((type(pair.authentication).__name__, type(pair.authorization).__name__))
        return names

    def test_in_the_order_of_the_numbers(self, build):
        chain = build(
            "auth_backends.10 = http\nauth_backends.2.authn = http\n"
            "auth_backends.2.authz = internal\nauth_backends.1 = internal\n"
        )
        assert self.kinds(chain) == [
            ("InternalBackend", "InternalBackend"),
            ("HttpBackend", "InternalBackend"),
            ("HttpBackend", "HttpBackend"),
        ]

    def test_one_of_a_kind_is_enough(self, build):
        chain = build("auth_backends.1 = http\nauth_backends.2 = rabbit_auth_backend_http\n")
        assert chain._steps[0].pair.authentication is chain._steps[1].pair.authentication

    def test_the_modules_of_rabbitmq(self, build):
        chain = build(
            "auth_backends.1.authn = rabbit_auth_backend_ldap\n"
            "auth_backends.1.authz = rabbit_auth_backend_internal\n"
            "auth_backends.2 = rabbit_auth_backend_cache\n"
            "auth_cache.cached_backend = rabbit_auth_backend_http\n"
            "auth_ldap.servers.1 = localhost\n"
        )
        assert self.kinds(chain) == [
            ("LdapBackend", "InternalBackend"), ("CachedBackend", "CachedBackend"),
        ]  # fmt: skip

    def test_a_number_that_has_both_and_one_of_its_own(self, build):
        chain = build("auth_backends.1 = http\nauth_backends.1.authz = internal\n")
        assert self.kinds(chain) == [("HttpBackend", "InternalBackend")]

    def test_the_cache_has_a_pair_behind_it(self, build):
        chain = build(
            "auth_backends.1 = cache\nauth_cache.cached_backend.authn = http\n"
            "auth_cache.cached_backend.authz = internal\n"
        )
        cached = chain._steps[0].pair.authentication
        assert isinstance(cached, CachedBackend)
        assert type(cached._inner.authentication).__name__ == "HttpBackend"
        assert isinstance(cached._inner.authorization, InternalBackend)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            (
                "auth_backends.1 = nis",
                "auth_backends.1: there is no backend 'nis'; backends are internal, http, ldap, "
                "oauth2, cache",
            ),
            (
                "auth_backends.1.authn = http",
                "auth_backends.1.authz is not set: set both authn and authz, or auth_backends.1 "
                "for both",
            ),
            ("auth_backends.7.authz = http", "auth_backends.7.authn is not set"),
            (
                "auth_backends.1 = ldap",
                "auth_backends.1: the backend ldap cannot be set up: auth_ldap.servers.1 must",
            ),
            (
                "auth_backends.1 = ldap\nauth_ldap.servers.1 = x\n"
                "auth_ldap.vhost_access_query = {in_group}",
                "auth_ldap.vhost_access_query: {in_group} is not a query",
            ),
            (
                "auth_backends.1 = ldap\nauth_ldap.servers.1 = x\n"
                "auth_ldap.tag_queries.administrator = {constant}",
                "auth_ldap.tag_queries.administrator: {constant} is not a query",
            ),
            (
                "auth_backends.1 = ldap\nauth_ldap.servers.1 = x\n"
                "auth_ldap.dn_lookup_attribute = uid",
                "auth_ldap.dn_lookup_attribute needs auth_ldap.dn_lookup_base",
            ),
            (
                "auth_backends.1 = ldap\nauth_ldap.servers.1 = x\n"
                "auth_ldap.other_bind.user_dn = cn=node",
                "auth_ldap.other_bind.user_dn needs auth_ldap.other_bind.password",
            ),
            (
                "auth_backends.1 = ldap\nauth_ldap.servers.1 = x\n"
                "auth_ldap.use_ssl = true\nauth_ldap.use_starttls = true",
                "only one of auth_ldap.use_ssl and auth_ldap.use_starttls can be true",
            ),
            (
                "auth_backends.1 = http\nauth_http.user_path = localhost/user",
                "auth_http.user_path = 'localhost/user' is not a URL",
            ),
            (
                "auth_backends.1 = http\nauth_http.ssl_options.cacertfile = /nowhere.pem",
                "no authorities can be read from /nowhere.pem",
            ),
            ("auth_backends.1 = oauth2", "auth_oauth2.resource_server_id must be set"),
            (
                "auth_backends.1 = oauth2\nauth_oauth2.resource_server_id = rabbit",
                "there are no keys: set auth_oauth2.signing_keys, auth_oauth2.jwks_url or",
            ),
            (
                "auth_backends.1 = oauth2\nauth_oauth2.resource_server_id = rabbit\n"
                "auth_oauth2.signing_keys.a = /nowhere.pem",
                "/nowhere.pem",
            ),
            (
                "auth_backends.1 = oauth2\nauth_oauth2.resource_server_id = rabbit\n"
                "auth_oauth2.issuer = https://x\nauth_oauth2.algorithms.1 = none",
                "auth_oauth2.algorithms: 'none' is unknown",
            ),
            (
                "auth_backends.1 = cache\nauth_cache.cached_backend = cache",
                "the cache cannot cache itself",
            ),
            (
                "auth_backends.1 = cache\nauth_cache.cached_backend = nis",
                "auth_cache.cached_backend: there is no backend 'nis'",
            ),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, build, text, problem):
        with pytest.raises(BackendError) as caught:
            build(text)
        assert problem in str(caught.value)

    def test_permissions_only_count_as_a_backend_that_is_set(self):
        assert AuthenticationSettings(backends_authorization=(("1", "http"),)).has_backends

    def test_a_backend_of_an_installed_package(self, build, monkeypatch, tmp_path):
        install_in(monkeypatch, tmp_path, (MAKERS,), "guests", GUESTS, "make_guests")
        assert self.kinds(build("auth_backends.1 = guests\n")) == [("Guests", "Guests")]
        with pytest.raises(BackendError, match="backends are internal, http.*, cache, guests$"):
            build("auth_backends.1 = friends\n")
