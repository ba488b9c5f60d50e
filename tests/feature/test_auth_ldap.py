"""The LDAP backend against a real slapd: login, lookup of users, queries."""

import asyncio
import contextlib

import pytest

from leveret.broker.auth.identity import BackendUnavailable
from tests.feature.slapd import (
    BASE,
    GROUPS,
    HIDDEN,
    NEEDS_SLAPD,
    NODE,
    PEOPLE,
    log_in,
)

pytestmark = NEEDS_SLAPD


class TestLoggingIn:
    async def test_with_the_password_of_the_directory(self, make):
        backend = make()
        identity = await log_in(backend)
        assert (identity.name, identity.tags) == ("anna", ())
        assert identity.authorization is backend
        assert identity.state.dn == f"uid=anna,{PEOPLE}"
        assert "secret" not in repr(identity.state)

    async def test_names_and_passwords_are_utf_8(self, make):
        assert await log_in(make(), "jürgen", "geheim ü ﬁ")
        assert await log_in(make(), "jürgen", "geheim ü fi") is None

    @pytest.mark.parametrize(
        ("name", "password"),
        [
            ("anna", "wrong"),
            ("anna", "secret "),
            ("anna", "\0"),
            ("anna", "\udcff"),
            ("nobody", "secret"),
            ("", "secret"),
            ("*", "secret"),
            (f"anna,{PEOPLE}", "secret"),
            ("anna+cn=anna", "secret"),
            ("anna)(uid=*", "secret"),
            ("anna\\", "secret"),
        ],
    )
    async def test_wrong_credentials(self, make, name, password):
        assert await log_in(make(), name, password) is None

    @pytest.mark.parametrize("name", ["anna", "nobody", ""])
    async def test_an_empty_password_is_refused_before_any_query(self, make, name):
        """The directory would treat it as an anonymous bind, which succeeds."""
        assert await log_in(make(), name, "") is None
        assert await log_in(make("port = 1"), name, "") is None

    async def test_no_password_is_ever_logged(self, make, caplog):
        caplog.set_level("DEBUG")
        backend = make("log = network_unsafe", "tag_queries.a = {constant, true}")
        await log_in(backend, password="hunter2-is-wrong")
        identity = await log_in(backend)
        await backend.may_use_vhost(identity, "/", "127.0.0.1")
        assert "LDAP: 'anna' logs in as uid=anna" in caplog.text
        assert "LDAP: 'anna' is allowed (vhost): vhost '/'" in caplog.text
        assert "hunter2" not in caplog.text
        assert "secret" not in caplog.text

    async def test_renewing_is_a_login(self, make):
        backend = make()
        identity = await log_in(backend)
        assert (await backend.renew(identity, "secret")).name == "anna"
        assert await backend.renew(identity, "wrong") is None

    async def test_many_at_once_with_few_connections(self, make):
        backend = make("connection_pool_size = 2")
        passwords = ["secret", "wrong"] * 10
        identities = await asyncio.gather(*(log_in(backend, password=one) for one in passwords))
        assert [identity is not None for identity in identities] == [True, False] * 10


class TestLookingUp:
    by_mail = ("user_dn_pattern = ${username}@example.com", "dn_lookup_attribute = mail",
               f"dn_lookup_base = {BASE}")  # fmt: skip
    as_node = (f"dn_lookup_bind.user_dn = {NODE}", "dn_lookup_bind.password = nodepw")

    @pytest.mark.parametrize("settings", [("dn_lookup_bind = anon",), as_node])
    async def test_before_the_bind(self, make, settings):
        backend = make(*self.by_mail, *settings)
        assert (await log_in(backend)).state.dn == f"uid=anna,{PEOPLE}"
        assert await log_in(backend, password="wrong") is None
        for name in ("nobody", "*", "anna)(uid=*", "ann*"):
            assert await log_in(backend, name) is None

    async def test_after_the_bind(self, make):
        backend = make(*self.by_mail, f"user_bind_pattern = uid=${{username}},{PEOPLE}")
        assert (await log_in(backend)).state.dn == f"uid=anna,{PEOPLE}"
        assert await log_in(backend, password="wrong") is None

    async def test_one_of_several_is_none(self, make, caplog):
        backend = make(*self.by_mail, "dn_lookup_bind = anon")
        assert await log_in(backend, "shared") is None
        assert "2 entries have mail = 'shared@example.com' instead of one" in caplog.text

    async def test_a_wrong_password_for_looking_up_users(self, make):
        backend = make(*self.by_mail, *self.as_node, "dn_lookup_bind.password = wrong")
        with pytest.raises(
            BackendUnavailable, match="refuses the credentials for looking up users"
        ):
            await log_in(backend)


class TestWithoutAPassword:
    """The user was authenticated by other means, such as a certificate."""

    async def test_another_user_sends_the_queries(self, make):
        backend = make(
            f"other_bind.user_dn = {NODE}", "other_bind.password = nodepw",
            f'tag_queries.administrator = {{in_group, "cn=club,{HIDDEN}"}}',
        )  # fmt: skip
        assert (await log_in(backend, password=None)).tags == ("administrator",)

    async def test_the_user_cannot(self, make):
        with pytest.raises(BackendUnavailable, match=r"set auth_ldap\.other_bind\.user_dn"):
            await log_in(make(), password=None)


class TestQueries:
    async def test_tags(self, make):
        backend = make(
            f'tag_queries.administrator = {{in_group, "cn=admins,{GROUPS}"}}',
            'tag_queries.monitoring = {equals, "${username}", "bert"}',
            "tag_queries.management = {constant, true}",
        )
        assert (await log_in(backend)).tags == ("administrator", "management")
        assert (await log_in(backend, "bert")).tags == ("monitoring", "management")

    @pytest.mark.parametrize(
        ("query", "vhost", "is_allowed"),
        [
            ("{constant, true}", "/", True),
            ("{constant, false}", "/", False),
            (f'{{exists, "cn=${{vhost}},{GROUPS}"}}', "admins", True),
            (f'{{exists, "cn=${{vhost}},{GROUPS}"}}', "nothing", False),
            (f'{{in_group, "cn=${{vhost}},{GROUPS}"}}', "admins", True),
            (f'{{in_group, "cn=${{vhost}},{GROUPS}"}}', "all", False),
            (f'{{in_group, "cn=${{vhost}},{GROUPS}"}}', "a,b", False),
            (f'{{in_group_nested, "cn=${{vhost}},{GROUPS}"}}', "all", True),
            (f'{{in_group_nested, "cn=${{vhost}},{GROUPS}"}}', "a,b", False),
            ('{equals, "${vhost}", {attribute, "${user_dn}", "description"}}', "field", True),
            ('{equals, "${vhost}", {attribute, "${user_dn}", "DESCRIPTION"}}', "field", True),
            ('{equals, "${vhost}", {attribute, "${user_dn}", "description"}}', "wood", False),
            ('{equals, "${vhost}", {attribute, "${user_dn}", "nothing"}}', "wood", False),
            ('{match, "${vhost}", "^${username}(-|$)"}', "anna-x", True),
            ("{'not', {in_group, \"cn=${vhost},ou=groups,dc=example,dc=com\"}}", "x", True),
            # A user who may not read the group is not a member.
            (f'{{in_group, "cn=club,{HIDDEN}"}}', "/", False),
        ],
    )
    async def test_vhosts(self, make, query, vhost, is_allowed):
        backend = make(f"vhost_access_query = {query}")
        identity = await log_in(backend)
        assert await backend.may_use_vhost(identity, vhost, "127.0.0.1") is is_allowed

    @pytest.mark.parametrize(
        "vhost", [f"admins,{GROUPS}", "*", "a\0", "admins+cn=admins", "\udcff"]
    )
    async def test_a_vhost_is_no_way_into_another_group(self, make, vhost):
        backend = make(f'vhost_access_query = {{in_group, "cn=${{vhost}},{GROUPS}"}}')
        identity = await log_in(backend)
        with contextlib.suppress(BackendUnavailable):
            assert await backend.may_use_vhost(identity, vhost, "127.0.0.1") is False

    async def test_a_group_with_a_comma_in_its_name(self, make):
        backend = make(f'vhost_access_query = {{in_group, "cn=${{vhost}},{GROUPS}"}}')
        identity = await log_in(backend, "bert")
        assert await backend.may_use_vhost(identity, "a,b", "127.0.0.1") is True

    async def test_resources_and_topics(self, make):
        backend = make(
            'resource_access_query = {for, [{permission, configure, {match, "${name}", '
            '"^${username}-"}}, {permission, write, {constant, true}}, {permission, read, '
            "{for, [{resource, queue, {constant, true}}, {resource, exchange, "
            "{constant, false}}]}}]}",
            'topic_access_query = {match, "${routing_key}", "^${variable_map.username}[.]"}',
        )
        identity = await log_in(backend)
        assert await backend.may_use(identity, "/", "queue", "anna-1", "configure")
        assert not await backend.may_use(identity, "/", "queue", "bert-1", "configure")
        assert await backend.may_use(identity, "/", "exchange", "x", "write")
        assert await backend.may_use(identity, "/", "queue", "x", "read")
        assert not await backend.may_use(identity, "/", "exchange", "x", "read")
        assert await backend.may_use_topic(identity, "/", "x", "anna.1", "write")
        assert not await backend.may_use_topic(identity, "/", "x", "bert.1", "write")

    async def test_a_query_without_an_answer_is_a_refusal(self, make, caplog):
        backend = make("resource_access_query = {'not', {for, []}}")
        identity = await log_in(backend)
        assert not await backend.may_use(identity, "/", "queue", "q", "read")
        assert "the query resource failed for 'anna': no case of a for" in caplog.text

    @pytest.mark.parametrize(
        ("settings", "is_allowed"),
        [
            (("other_bind = as_user",), False),
            (("other_bind = anon",), False),
            ((f"other_bind.user_dn = {NODE}", "other_bind.password = nodepw"), True),
        ],
    )
    async def test_the_user_of_the_queries(self, make, settings, is_allowed):
        backend = make(f'vhost_access_query = {{in_group, "cn=club,{HIDDEN}"}}', *settings)
        identity = await log_in(backend)
        assert await backend.may_use_vhost(identity, "/", "127.0.0.1") is is_allowed

    async def test_a_wrong_password_for_queries(self, make):
        backend = make(f"other_bind.user_dn = {NODE}", "other_bind.password = wrong")
        identity = await log_in(backend)
        with pytest.raises(BackendUnavailable, match="refuses the credentials for queries"):
            await backend.may_use_vhost(identity, "/", "127.0.0.1")

    async def test_groups_of_another_base(self, make):
        query = f'vhost_access_query = {{in_group_nested, "cn=all,{GROUPS}"}}'
        for base, is_allowed in ((GROUPS, True), (HIDDEN, False)):
            backend = make(query, f"group_lookup_base = {base}")
            identity = await log_in(backend)
            assert await backend.may_use_vhost(identity, "/", "127.0.0.1") is is_allowed

    async def test_an_error_is_no_answer(self, make):
        """An error does not make a negation true."""
        backend = make("vhost_access_query = {'not', {exists, \"no name\"}}")
        identity = await log_in(backend)
        with pytest.raises(BackendUnavailable, match="invalidDNSyntax"):
            await backend.may_use_vhost(identity, "/", "127.0.0.1")
