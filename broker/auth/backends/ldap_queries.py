"""The query language of LDAP permissions, as RabbitMQ's documentation has it. Pure.

A query is an Erlang term: `{in_group, "cn=${vhost}-users,ou=groups,dc=example,dc=com"}`. Its
strings may have variables, which are filled in; in distinguished names what is filled in is
escaped, so that a user name cannot become a part of the name's structure.
"""

import re
from collections.abc import Mapping
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:(?P<punct>[{}\[\],])|"(?P<string>(?:[^"\\]|\\.)*)"|'(?P<quoted>[^']*)'|(?P<atom>[a-z]\w*))"""
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class QueryError(ValueError):
    """A query cannot be read; the text says where."""


class Atom(str):
    """A word without quotes."""

    __slots__ = ()


def parse(text: str) -> Any:
    """The term: tuples, lists, atoms and strings. Raises QueryError."""
    tokens = _tokens(text)
    term, place = _term(tokens, 0)
    if place != len(tokens):
        raise QueryError(f"'{text}' goes on after its end")
    return term


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, place = [], 0
    stripped = text.rstrip().removesuffix(".")
    while place < len(stripped.rstrip()):
        found = _TOKEN.match(stripped, place)
        if found is None:
            raise QueryError(f"'{text}' cannot be read from '{stripped[place:]}' on")
        kind = str(found.lastgroup)
        value = found[kind]
        if kind == "string":
            value = re.sub(r"\\(.)", r"\1", value)
        tokens.append(("atom" if kind == "quoted" else kind, value))
        place = found.end()
    return tokens


def _term(tokens: list[tuple[str, str]], place: int) -> tuple[Any, int]:
    if place >= len(tokens):
        raise QueryError("a query ends too early")
    kind, value = tokens[place]
    if kind == "string":
        return value, place + 1
    if kind == "atom":
        return Atom(value), place + 1
    if value not in "{[":
        raise QueryError(f"a query has '{value}' where a term has to be")
    close = "}" if value == "{" else "]"
    items: list[Any] = []
    place += 1
    while place < len(tokens) and tokens[place] != ("punct", close):
        if items:
            if tokens[place] != ("punct", ","):
                raise QueryError("there is a comma missing in a query")
            place += 1
        item, place = _term(tokens, place)
        items.append(item)
    if place >= len(tokens):
        raise QueryError(f"a '{value}' of a query is not closed")
    return (tuple(items) if value == "{" else items), place + 1


def escape_dn(value: str) -> str:
    """A value for a distinguished name (RFC 4514)."""
    escaped = re.sub(r'([\\,+"<>;=])', r"\\\1", value).replace("\0", "\\00")
    if escaped[:1] in (" ", "#"):
        escaped = "\\" + escaped
    return escaped[:-1] + "\\ " if escaped.endswith(" ") and len(escaped) > 1 else escaped


def fill(pattern: str, variables: Mapping[str, str], *, in_dn: bool = True) -> str:
    """A pattern with its variables filled in; `user_dn` is a distinguished name already."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        text = variables.get(name, found[0])
        return text if not in_dn or name == "user_dn" else escape_dn(text)

    return _VARIABLE.sub(value, pattern)


class Directory:
    """What a query asks of the directory. Each may wait."""

    def exists(self, dn: str) -> bool:
        """There is such an entry."""
        raise NotImplementedError

    def has_member(self, group: str, attribute: str, member: str) -> bool:
        """The group's attribute has the member's distinguished name."""
        raise NotImplementedError

    def groups_of(self, member: str, attribute: str, base: str) -> list[str]:
        """The groups below a base whose attribute has the member."""
        raise NotImplementedError

    def values(self, dn: str, attribute: str) -> list[str]:
        """The values of an entry's attribute."""
        raise NotImplementedError


def evaluate(query: Any, variables: Mapping[str, str], directory: Directory) -> bool:
    """Whether a query is true. Raises QueryError for one that is none."""
    match query:
        case Atom():
            return query == "true"
        case ("constant", Atom() as value):
            return value == "true"
        case ("exists", str() as pattern):
            return directory.exists(fill(pattern, variables))
        case ("in_group", str() as pattern, *rest):
            attribute = rest[0] if rest else "member"
            group = fill(pattern, variables)
            return directory.has_member(group, attribute, variables["user_dn"])
        case ("in_group_nested", str() as pattern, *rest):
            attribute = rest[0] if rest else "member"
            return _in_nested_group(fill(pattern, variables), attribute, variables, directory)
        case ("not", inner):
            return not evaluate(inner, variables, directory)
        case ("and", list() as parts):
            return all(evaluate(part, variables, directory) for part in parts)
        case ("or", list() as parts):
            return any(evaluate(part, variables, directory) for part in parts)
        case ("match", one, other):
            texts, patterns = _texts(one, variables, directory), _texts(other, variables, directory)
            return any(re.search(pattern, text) for text in texts for pattern in patterns)
        case ("equals", one, other):
            found = set(_texts(one, variables, directory))
            return bool(found & set(_texts(other, variables, directory)))
        case ("for", list() as cases):
            for name, value, inner in cases:
                if variables.get(str(name)) == str(value):
                    return evaluate(inner, variables, directory)
            return False
        case _:
            raise QueryError(f"'{query}' is no query")


def _in_nested_group(
    group: str, attribute: str, variables: Mapping[str, str], directory: Directory
) -> bool:
    """The user is in the group, or in a group that is; cycles end where they began."""
    base = group.partition(",")[2]
    seen: set[str] = set()
    waiting = [variables["user_dn"]]
    while waiting:
        member = waiting.pop()
        for found in directory.groups_of(member, attribute, base):
            if found.lower() == group.lower():
                return True
            if found.lower() not in seen:
                seen.add(found.lower())
                waiting.append(found)
    return False


def _texts(term: Any, variables: Mapping[str, str], directory: Directory) -> list[str]:
    match term:
        case ("string", str() as pattern):
            return [fill(pattern, variables, in_dn=False)]
        case ("attribute", str() as pattern, str() as name):
            return directory.values(fill(pattern, variables), name)
        case str():
            return [fill(term, variables, in_dn=False)]
        case _:
            raise QueryError(f"'{term}' is neither a string nor an attribute")
