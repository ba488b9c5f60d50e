"""The query language of LDAP permissions, with a directory in memory."""

import pytest

from leveret.broker.auth.backends.ldap_queries import (
    LdapQuestion,
    QueryError,
    compile_query,
    escape_dn,
    fill,
)

ANNA = "uid=anna,ou=people,dc=example"
VARIABLES = {
    "username": "anna", "user_dn": ANNA, "vhost": "burrow", "resource": "queue",
    "name": "anna-jobs", "permission": "configure",
}  # fmt: skip


class MemoryDirectory:
    """Entries by distinguished name, with lists of values by attribute."""

    entries = {
        ANNA: {"cn": ["Anna"], "mail": ["anna@example.org", "a@example.org"]},
        "cn=burrow,ou=groups": {"member": [ANNA]},
        "cn=staff,ou=groups": {"member": ["cn=burrow,ou=groups"], "uniqueMember": [ANNA]},
        "cn=all,ou=groups": {"member": ["cn=staff,ou=groups", "cn=ring,ou=groups"]},
        "cn=ring,ou=groups": {"member": ["cn=all,ou=groups"]},
        "cn=rules": {"pattern": ["^anna-", "^shared-"], "one": ["^anna-"]},
    }

    def __init__(self):
        self.bases = set()

    def exists(self, dn):
        return dn in self.entries

    def has_value(self, dn, attribute, value):
        return value in self.values(dn, attribute)

    def find(self, base, attribute, value, scope):
        self.bases.add((base, scope))
        below = [dn for dn in self.entries if dn.endswith(base.strip().lower())]
        return [dn for dn in below if value in self.values(dn, attribute)]

    def values(self, dn, attribute):
        return self.entries.get(dn, {}).get(attribute, [])


def ask(text, group_base="", **variables):
    question = LdapQuestion(VARIABLES | variables, MemoryDirectory(), group_base)
    return compile_query(text)(question)


class TestQueries:
    @pytest.mark.parametrize(
        "text",
        [
            "true",
            "{constant, true}",
            '{exists, "cn=${vhost},ou=groups"}',
            '{in_group, "cn=${vhost},ou=groups"}',
            '{in_group, "cn=staff,ou=groups", "uniqueMember"}',
            '{in_group_nested, "cn=all,ou=groups"}',
            '{in_group_nested, "CN=all, OU=groups"}',
            '{in_group_nested, "cn=all,ou=groups", "member", one_level}',
            "{'not', {constant, false}}",
            "{'and', [{constant, true}, {constant, true}]}",
            "{'and', []}",
            "{'or', [{constant, false}, {constant, true}]}",
            '{equals, "${permission}", "configure"}',
            '{equals, {string, "anna@example.org"}, {attribute, "${user_dn}", "mail"}}',
            '{equals, {attribute, "${user_dn}", "mail"}, {attribute, "${user_dn}", "mail"}}',
            '{match, {string, "${name}"}, {string, "^${username}-"}}',
            '{match, "${name}", {attribute, "cn=rules", "pattern"}}',
            '{match, {attribute, "${user_dn}", "mail"}, "@example"}',
            "{for, [{permission, read, {constant, false}}, {permission, configure, true}]}",
            '{for, [{vhost, "burrow", {constant, true}}]}',
        ],
    )
    def test_true(self, text):
        assert ask(text) is True

    @pytest.mark.parametrize(
        "text",
        [
            "false",
            '{exists, "cn=nobody"}',
            '{in_group, "cn=staff,ou=groups"}',
            '{in_group, "cn=nothing,ou=groups"}',
            '{in_group_nested, "cn=nothing,ou=groups"}',
            "{'not', {constant, true}}",
            "{'and', [{constant, true}, {constant, false}]}",
            "{'or', []}",
            '{equals, "a", "A"}',
            '{match, "${name}", "^other"}',
        ],
    )
    def test_false(self, text):
        assert ask(text) is False

    @pytest.mark.parametrize(
        "text",
        [
            "{for, [{permission, read, {constant, true}}]}",
            '{for, [{routing_key, "a", {constant, true}}]}',
            '{equals, "x", {attribute, "${user_dn}", "missing"}}',
            '{match, "x", {attribute, "cn=nobody", "pattern"}}',
            '{match, {attribute, "${user_dn}", "mail"}, {attribute, "cn=rules", "pattern"}}',
            '{match, "x", "("}',
            '{match, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA!", "(A|AA)+$"}',
        ],
    )
    def test_without_an_answer(self, text):
        """A query without an answer is refused, even if negated; in combinations it is false."""
        with pytest.raises(QueryError):
            ask(text)
        with pytest.raises(QueryError):
            ask(f"{{'not', {text}}}")
        assert ask(f"{{'or', [{text}, {{constant, true}}]}}") is True
        assert ask(f"{{'and', [{text}, {{constant, true}}]}}") is False

    def test_nested_groups_are_looked_for_below_a_base(self):
        directory = MemoryDirectory()
        query = compile_query('{in_group_nested, "cn=all,ou=groups", "member", single_level}')
        assert query(LdapQuestion(VARIABLES, directory)) is True
        assert directory.bases == {("ou=groups", "single_level")}
        assert ask('{in_group_nested, "cn=all,ou=groups"}', group_base="ou=elsewhere") is False

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("{nonsense}", "{nonsense} is not a query"),
            ('"text"', '"text" is not a query'),
            ("{constant, maybe}", "{constant,maybe} is not a query"),
            ("{'and', {constant, true}}", "{and,{constant,true}} is not a query"),
            ("{'or', [{nonsense}]}", "{nonsense} is not a query"),
            ('{in_group, "a", "b", "c"}', '{in_group,"a","b","c"} is not a query'),
            (
                '{in_group_nested, "a", "b", everywhere}',
                "the scope everywhere is unknown: scopes are subtree and single_level",
            ),
            ('{match, word, "x"}', "word is neither a string nor an attribute"),
            (
                "{for, [{permission, read}]}",
                "{permission,read} is not a case of a for: a variable, its value, a query",
            ),
            ("{constant, true", "the term {constant, true lacks a '}', at character 16"),
        ],
    )
    def test_an_invalid_query_is_refused_before_it_is_asked(self, text, problem):
        with pytest.raises(QueryError) as caught:
            compile_query(text)
        assert str(caught.value) == problem


class TestFillingIn:
    """User names, vhosts and queue names are always inserted as literal text."""

    @pytest.mark.parametrize(
        ("value", "escaped"),
        [
            ("anna", "anna"),
            ("anna,ou=admins", r"anna\,ou\=admins"),
            ('a+b"c<d>e;f\\g', r"a\+b\"c\<d\>e\;f\\g"),
            (" a ", r"\ a\ "),
            (" ", "\\ "),
            ("#a#", r"\#a#"),
            ("a\0b", r"a\00b"),
            ("", ""),
        ],
    )
    def test_in_a_distinguished_name(self, value, escaped):
        assert escape_dn(value) == escaped
        assert fill("cn=${vhost},dc=x", {"vhost": value}) == f"cn={escaped},dc=x"

    def test_a_distinguished_name_is_filled_in_as_it_is(self):
        assert fill("ou=x,${user_dn}", VARIABLES) == f"ou=x,{ANNA}"

    def test_a_name_that_is_no_distinguished_name_is_not_escaped(self):
        assert fill("${username}", {"username": "BURROW\\anna"}) == "BURROW\\anna"
        assert fill("${ad_user}@example.org", {"ad_user": "a,b"}) == "a,b@example.org"

    def test_values_are_not_filled_in_again(self):
        variables = {"username": "${vhost}", "vhost": "secret"}
        assert fill("cn=${username}", variables) == "cn=${vhost}"

    def test_a_variable_that_is_unknown_stays(self):
        assert fill("cn=${nothing}", VARIABLES) == "cn=${nothing}"

    @pytest.mark.parametrize("name", [".*", "an.a", "(", "anna|"])
    def test_in_a_regular_expression_a_value_stands_for_itself(self, name):
        text = '{match, {string, "${name}"}, {string, "^${username}-"}}'
        assert ask(text, username=name) is False
        assert ask(text, username=name, name=f"{name}-jobs") is True
