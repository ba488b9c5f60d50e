"""Scopes of tokens: where they are found, and what they match."""

import pytest

from leveret.broker.auth.backends.oauth2_scopes import (
    ScopeRules,
    allows,
    allows_topic,
    allows_vhost,
    filled_in,
    matches,
    tags_of,
)

RULES = ScopeRules("rabbit", "rabbit.")


class TestPatterns:
    @pytest.mark.parametrize(
        ("pattern", "name"),
        [
            ("*", ""),
            ("*", "anything"),
            ("name", "name"),
            ("name*", "name"),
            ("na*me", "na-and-me"),
            ("*.log", "a.log"),
            ("a*b*c", "a-b-c"),
            ("**", "a"),
            ("", ""),
            ("%2F", "/"),
            ("a%2Ab", "a*b"),
            ("a+b", "a b"),
            ("%C3%A4*", "ä-queue"),
            ("%FF", "\udcff"),
        ],
    )
    def test_that_match(self, pattern, name):
        assert matches(pattern, name)

    @pytest.mark.parametrize(
        ("pattern", "name"),
        [
            ("name", "names"),
            ("name", "a name"),
            ("name", "NAME"),
            ("", "a"),
            ("*a", "b"),
            ("a*b", "a"),
            ("a%2Ab", "a-b"),
            ("*.log", "a.log.log"),  # the first .log matches, as in RabbitMQ
            ("%2", "%2"),
            ("%zz*", "%zz"),
            ("a.b", "axb"),
            ("[ab]", "a"),
        ],
    )
    def test_that_do_not(self, pattern, name):
        assert not matches(pattern, name)


class TestPermissions:
    scopes = ("read:burrow/jobs-*", "write:*/*", "configure:burrow/a/b", "tag:management", "junk")

    def test_a_vhost_is_open_to_users_with_any_scope_in_it(self):
        assert allows_vhost(self.scopes, "anything")
        assert allows_vhost(("read:burrow/nothing",), "burrow")
        assert not allows_vhost(("read:burrow/nothing",), "other")
        assert not allows_vhost(("tag:administrator", "read:burrow", "delete:*/*"), "burrow")
        assert not allows_vhost((), "burrow")

    def test_names(self):
        assert allows(self.scopes, "burrow", "jobs-1", "read")
        assert not allows(self.scopes, "burrow", "others", "read")
        assert not allows(self.scopes, "other", "jobs-1", "read")
        assert allows(self.scopes, "other", "amq.default", "write")
        assert allows(self.scopes, "burrow", "a", "configure")
        assert not allows(("read:a/b/c/d", "READ:*/*"), "a", "b", "read")

    def test_topics_need_a_scope_with_a_routing_key(self):
        scopes = ("write:*/logs/app.*", "read:*/*")
        assert allows_topic(scopes, "burrow", "logs", "app.error", "write")
        assert not allows_topic(scopes, "burrow", "logs", "db.error", "write")
        assert not allows_topic(scopes, "burrow", "other", "app.error", "write")
        assert not allows_topic(scopes, "burrow", "logs", "app.error", "read")

    def test_a_scope_can_have_the_vhost_and_claims_in_it(self):
        scopes = filled_in(("write:{vhost}/x/{sub}.{what}",), {"vhost": "/", "sub": "anna"})
        assert allows_topic(scopes, "/", "x", "anna.what", "write")

    def test_a_user_named_like_a_wildcard_is_none(self):
        scopes = filled_in(("write:*/*/{sub}",), {"sub": "*"})
        assert not allows_topic(scopes, "/", "x", "anything", "write")
        assert allows_topic(scopes, "/", "x", "*", "write")

    def test_tags(self):
        scopes = ("tag:policymaker", "read:a/b", "tag:administrator", "tags:x")
        assert tags_of(scopes) == ("administrator", "policymaker")


class TestWhereScopesAre:
    def test_those_with_the_prefix_count(self):
        claims = {"scope": "rabbit.read:*/* openid other.write:*/*  rabbit.tag:management"}
        assert RULES.scopes_of(claims) == ("read:*/*", "tag:management")
        assert RULES.scopes_of({"scope": ["rabbit.read:*/*", 5, "x"]}) == ("read:*/*",)

    @pytest.mark.parametrize("claims", [{}, {"scope": None}, {"scope": 5}, {"scope": {"a": "b"}}])
    def test_none(self, claims):
        assert RULES.scopes_of(claims) == ()

    def test_the_prefix_may_be_another_or_none(self):
        claims = {"scope": "api/read:*/* write:*/*"}
        assert ScopeRules("rabbit", "api/").scopes_of(claims) == ("read:*/*",)
        assert ScopeRules("rabbit", "").scopes_of(claims) == ("api/read:*/*", "write:*/*")

    @pytest.mark.parametrize(
        "claims",
        [
            {"roles": "rabbit.read:*/*"},
            {"roles": ["rabbit.read:*/*"]},
            {"roles": {"rabbit": "read:*/*"}},
            {"roles": {"rabbit": ["read:*/*"], "other": ["write:*/*"]}},
            {"realm": {"access": {"roles": ["rabbit.read:*/*"]}}},
            {"https://example.org/scopes": ["rabbit.read:*/*"]},
        ],
    )
    def test_other_claims(self, claims):
        paths = ("roles", "realm.access.roles", "https://example.org/scopes")
        assert ScopeRules("rabbit", "rabbit.", paths).scopes_of(claims) == ("read:*/*",)
        assert RULES.scopes_of(claims) == ()

    def test_keycloak(self):
        permissions = [{"scopes": ["rabbit.read:*/*"]}, {"rsid": 1}, "x", {"scopes": "rabbit.a"}]
        claims = {"scope": "email", "authorization": {"permissions": permissions}}
        assert RULES.scopes_of(claims) == ("read:*/*", "a")

    def test_aliases(self):
        rules = ScopeRules(
            "rabbit", "rabbit.", ("roles",),
            {"api://admin": "rabbit.tag:administrator rabbit.read:*/*", "dev": "rabbit.write:d/*"},
        )  # fmt: skip
        assert rules.scopes_of({"scope": "api://admin", "roles": ["dev"]}) == (
            "tag:administrator", "read:*/*", "write:d/*",
        )  # fmt: skip


class TestAuthorizationDetails:
    rules = ScopeRules("rabbit", "rabbit.", resource_server_type="broker")

    def scopes(self, **detail):
        return self.rules.scopes_of({"authorization_details": [{"type": "broker", **detail}]})

    def test_actions_at_locations(self):
        locations = ["cluster:rabbit/vhost:v/queue:q", "cluster:r*/exchange:x/routing-key:k"]
        assert self.scopes(actions=["read", "write", "shout"], locations=locations) == (
            "read:v/q/*", "read:*/x/k", "write:v/q/*", "write:*/x/k",
        )  # fmt: skip

    def test_tags(self):
        found = self.scopes(actions=["administrator", "read"], locations="cluster:rabbit")
        assert found == ("tag:administrator", "read:*/*/*")

    @pytest.mark.parametrize(
        "detail",
        [
            {"type": "other", "actions": ["read"], "locations": ["cluster:rabbit"]},
            {"actions": ["read"], "locations": ["cluster:other"]},
            {"actions": ["read"], "locations": ["vhost:v"]},
            {"actions": ["read"], "locations": ["cluster:rabbit/queue:a/exchange:b"]},
            {"actions": ["read"]},
            {"locations": ["cluster:rabbit"]},
            {"actions": 5, "locations": 5},
        ],
    )
    def test_that_are_for_another_resource_or_for_nothing(self, detail):
        assert self.scopes(**detail) == ()

    def test_they_count_only_where_a_type_is_set(self):
        details = [{"type": "", "actions": ["read"], "locations": ["cluster:rabbit"]}]
        assert RULES.scopes_of({"authorization_details": details}) == ()
        assert self.rules.scopes_of({"authorization_details": "x"}) == ()
