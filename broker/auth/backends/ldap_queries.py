"""The query language for LDAP permissions, as in RabbitMQ's documentation.

A query is an Erlang term: `{in_group, "cn=${vhost}-users,ou=groups,dc=example,dc=com"}`. It is
compiled once, so that an invalid query stops the start, and evaluated for each permission, with the
user, vhost and resource in question as its variables.

The value of a variable is always a part of a name or of a pattern: it is escaped in a distinguished
name, and matches itself in a regular expression.

A query that fails (an attribute is missing, no case of a `for` applies) counts as false in an `and`
or an `or`. Anywhere else, in particular in a `not`, its failure makes the answer a refusal.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from leveret.broker.erlang.parser import TermError, parse_term
from leveret.broker.erlang.terms import Atom, format_term
from leveret.broker.runtime.patterns import OutOfTimeError, compile_pattern

DEPTH_MAX = 100
"""How many brackets may be open in a query: compiling one is recursive."""
MEMBER = "member"
SUBTREE, SINGLE_LEVEL = "subtree", "single_level"
SCOPES = {
    SUBTREE: SUBTREE, SINGLE_LEVEL: SINGLE_LEVEL, "singlelevel": SINGLE_LEVEL,
    "one_level": SINGLE_LEVEL, "onelevel": SINGLE_LEVEL,
}  # fmt: skip

_VARIABLE = re.compile(r"\$\{([\w.]+)\}")
_FIRST_PART = re.compile(r"(?:[^,\\]|\\.)*,?", re.DOTALL)
_IN_DN = re.compile(r'[\\,+"<>;=]')


class QueryError(ValueError):
    """A query is invalid, or failed; the text says why."""


class Directory(Protocol):
    """The searches of a query."""

    def exists(self, dn: str) -> bool:
        """Whether the entry exists."""

    def has_value(self, dn: str, attribute: str, value: str) -> bool:
        """Whether an attribute of the entry has the value."""

    def find(self, base: str, attribute: str, value: str, scope: str) -> list[str]:
        """The distinguished names of entries below a base whose attribute has the value."""

    def values(self, dn: str, attribute: str) -> list[str]:
        """The values of an entry's attribute."""


@dataclass(frozen=True)
class LdapQuestion:
    """The subject of a query. group_base: the base of nested groups; empty if not configured."""

    variables: Mapping[str, str]
    directory: Directory
    group_base: str = ""

    @property
    def user_dn(self) -> str:
        """The distinguished name of the user."""
        return self.variables["user_dn"]


Query = Callable[[LdapQuestion], bool]
Texts = Callable[[LdapQuestion], list[str]]


def compile_query(text: str) -> Query:
    """Compile a query; it may end with a full stop. Raises QueryError."""
    try:
        return _query(parse_term(text.rstrip().removesuffix("."), DEPTH_MAX))
    except TermError as error:
        raise QueryError(str(error)) from None


# Variables


def fill(pattern: str, variables: Mapping[str, str]) -> str:
    r"""Replace the variables in a pattern, which is a distinguished name if it contains a `=`.

    A directory may also accept `name@domain` or `domain\name` for a user; they are not escaped.
    """
    return _filled(pattern, variables, escape_dn if "=" in pattern else str)


def escape_dn(value: str) -> str:
    """Escape a value for a distinguished name (RFC 4514)."""
    escaped = _IN_DN.sub(r"\\\g<0>", value).replace("\0", "\\00")
    if escaped[:1] in (" ", "#"):
        escaped = "\\" + escaped
    return escaped[:-1] + "\\ " if escaped.endswith(" ") and len(value) > 1 else escaped


def _filled(pattern: str, variables: Mapping[str, str], escape: Callable[[str], str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in variables:
            return found[0]
        is_dn_already = name == "user_dn" and escape is escape_dn
        return variables[name] if is_dn_already else escape(variables[name])

    return _VARIABLE.sub(value, pattern)


# Queries


def _query(term: Any) -> Query:
    match term:
        case Atom(word) if word in ("true", "false"):
            return lambda _: word == "true"
        case (Atom("constant"), Atom(word)) if word in ("true", "false"):
            return lambda _: word == "true"
        case (Atom("exists"), str(pattern)):
            return lambda asked: asked.directory.exists(fill(pattern, asked.variables))
        case (Atom("in_group"), str(pattern)):
            return _in_group(pattern, MEMBER)
        case (Atom("in_group"), str(pattern), str(attribute)):
            return _in_group(pattern, attribute)
        case (Atom("in_group_nested"), str(pattern)):
            return _in_group_nested(pattern, MEMBER, SUBTREE)
        case (Atom("in_group_nested"), str(pattern), str(attribute)):
            return _in_group_nested(pattern, attribute, SUBTREE)
        case (Atom("in_group_nested"), str(pattern), str(attribute), Atom(scope)):
            return _in_group_nested(pattern, attribute, scope)
        case (Atom("not"), inner):
            negated = _query(inner)
            return lambda asked: not negated(asked)
        case (Atom("and"), list(parts)):
            all_of = [_query(part) for part in parts]
            return lambda asked: all(_is_true(query, asked) for query in all_of)
        case (Atom("or"), list(parts)):
            any_of = [_query(part) for part in parts]
            return lambda asked: any(_is_true(query, asked) for query in any_of)
        case (Atom("equals"), one, other):
            return _equals(_texts(one), _texts(other))
        case (Atom("match"), one, pattern):
            return _match(_texts(one), _texts(pattern, re.escape))
        case (Atom("for"), list(cases)):
            return _for([_case(one) for one in cases])
        case _:
            raise QueryError(f"{format_term(term)} is not a query")


def _is_true(query: Query, asked: LdapQuestion) -> bool:
    try:
        return query(asked)
    except QueryError:
        return False


def _in_group(pattern: str, attribute: str) -> Query:
    def query(asked: LdapQuestion) -> bool:
        group = fill(pattern, asked.variables)
        return asked.directory.has_value(group, attribute, asked.user_dn)

    return query


def _in_group_nested(pattern: str, attribute: str, scope: str) -> Query:
    if scope not in SCOPES:
        raise QueryError(f"the scope {scope} is unknown: scopes are {SUBTREE} and {SINGLE_LEVEL}")

    def query(asked: LdapQuestion) -> bool:
        group = fill(pattern, asked.variables)
        return _is_below(asked, group, attribute, SCOPES[scope])

    return query


def _is_below(asked: LdapQuestion, group: str, attribute: str, scope: str) -> bool:
    """Whether the user is in the group, or in a group that is. Cycles are followed once."""
    base = asked.group_base or _FIRST_PART.sub("", group, count=1)
    seen: set[str] = set()
    waiting = [asked.user_dn]
    while waiting:
        for found in asked.directory.find(base, attribute, waiting.pop(), scope):
            name = _comparable(found)
            if name == _comparable(group):
                return True
            if name not in seen:
                seen.add(name)
                waiting.append(found)
    return False


def _comparable(dn: str) -> str:
    return re.sub(r"\s*,\s*", ",", dn).lower()


def _equals(one: Texts, other: Texts) -> Query:
    """An attribute with several values equals a text if one of its values does."""

    def query(asked: LdapQuestion) -> bool:
        left, right = one(asked), other(asked)
        if len(left) > 1 and len(right) > 1:
            return left == right
        return not set(left).isdisjoint(right)

    return query


def _match(one: Texts, patterns: Texts) -> Query:
    def query(asked: LdapQuestion) -> bool:
        left, right = one(asked), patterns(asked)
        if len(left) > 1 and len(right) > 1:
            raise QueryError("several values of an attribute cannot match several others")
        try:
            return any(compile_pattern(one).is_found_in(text) for text in left for one in right)
        except re.error as error:
            raise QueryError(f"a pattern of match is not a regular expression: {error}") from None
        except OutOfTimeError:
            raise QueryError("a pattern of match takes too long to match") from None

    return query


def _case(term: Any) -> tuple[str, str, Query]:
    match term:
        case (Atom(name), str(value), inner):
            return str(name), str(value), _query(inner)
        case _:
            raise QueryError(
                f"{format_term(term)} is not a case of a for: a variable, its value, a query"
            )


def _for(cases: list[tuple[str, str, Query]]) -> Query:
    def query(asked: LdapQuestion) -> bool:
        for name, value, inner in cases:
            if name not in asked.variables:
                raise QueryError(f"there is no variable {name} in this query")
            if asked.variables[name] == value:
                return inner(asked)
        raise QueryError("no case of a for applies")

    return query


# Strings and attributes


def _texts(term: Any, escape: Callable[[str], str] = str) -> Texts:
    """Compile a string or an attribute to a function that returns its values, one or more."""
    match term:
        case (Atom("attribute"), str(pattern), str(name)):
            return _attribute(pattern, str(name))
        case (Atom("string"), str(pattern)):
            return lambda asked: [_filled(pattern, asked.variables, escape)]
        case str(pattern) if not isinstance(term, Atom):
            return lambda asked: [_filled(pattern, asked.variables, escape)]
        case _:
            raise QueryError(f"{format_term(term)} is neither a string nor an attribute")


def _attribute(pattern: str, name: str) -> Texts:
    def texts(asked: LdapQuestion) -> list[str]:
        dn = fill(pattern, asked.variables)
        values = asked.directory.values(dn, name)
        if not values:
            raise QueryError(f"the entry {dn} has no attribute {name}")
        return values

    return texts
