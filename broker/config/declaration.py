"""How a setting is declared: once, as a field of the class `Config`.

`setting(...)` stands right of a field's type and gives everything there is to know of it: the key
of the file, the kind of value, the default and the sentence for the documentation. It looks like
the default to the type checker, so that kind, default and the field's type have to agree, and is a
dataclass field at run time, which carries the rest as metadata. `settings_of` gets it back out.

A setting is one value, or a family of keys that make one tuple. In a family whose keys list things
(`auth_mechanisms.1 = PLAIN`) the values count. In one whose keys mark things
(`loopback_users.guest = true`) the names do: those that are marked true are in, and a file that
marks any does not get the default. In one whose keys name things (`auth_oauth2.signing_keys.id1 =
one.pem`) they become pairs of name and value. A family's key without its last word, set to `none`,
empties it.
"""

from collections.abc import Iterable
from dataclasses import Field, dataclass, field
from enum import Enum, auto
from typing import Any, TypeVar

from broker.config.values import BOOLEAN, Kind

METADATA_KEY = "declaration"
VARIABLE_PREFIX = "LEVERET_"

Value = TypeVar("Value")


class Shape(Enum):
    """How the values of a setting's keys make the setting's value."""

    SINGLE = auto()
    LISTED = auto()
    MARKED = auto()
    NAMED = auto()


@dataclass(frozen=True, slots=True)
class Setting:
    """A declared setting.

    keys: of the file; the first is the one to use, the others are older names. Empty if there is
    none. variable: the environment variable. flag: without its dashes; empty if there is none.
    """

    attribute: str
    keys: tuple[str, ...]
    kind: Kind[object]
    shape: Shape
    default_text: str
    purpose: str
    variable: str
    flag: str


def setting(
    keys: str,
    kind: Kind[Value],
    default: Value,
    purpose: str,
    *,
    default_text: str = "",
    flag: str = "",
    is_secret: bool = False,
) -> Value:
    """A setting of one value. keys: separated by blanks. is_secret: `repr` does not show it."""
    metadata = _metadata(keys, kind, Shape.SINGLE, default_text or _text_of(default), purpose, flag)
    return field(default=default, metadata=metadata, repr=not is_secret)


def listed_setting(
    key: str, kind: Kind[Value], default: tuple[Value, ...], purpose: str, *, default_text: str = ""
) -> tuple[Value, ...]:
    """A family of keys whose values are listed."""
    metadata = _metadata(key, kind, Shape.LISTED, default_text or _text_of(default), purpose)
    return field(default=default, metadata=metadata)


def marked_setting(key: str, default: tuple[str, ...], purpose: str) -> tuple[str, ...]:
    """A family of keys whose last words are marked true or false."""
    metadata = _metadata(key, BOOLEAN, Shape.MARKED, _text_of(default), purpose)
    return field(default=default, metadata=metadata)


def named_setting(key: str, kind: Kind[Value], purpose: str) -> tuple[tuple[str, Value], ...]:
    """A family of keys that are names for values; the word that `$` stands for is the name."""
    metadata = _metadata(key, kind, Shape.NAMED, "none", purpose)
    default: tuple[tuple[str, Value], ...] = ()
    return field(default=default, metadata=metadata)


def flag_setting(flag: str, kind: Kind[object], default_text: str, purpose: str) -> Setting:
    """A setting that no file has, and that is an ingredient of others rather than an attribute."""
    return Setting(flag, (), kind, Shape.SINGLE, default_text, purpose, variable_of(flag), flag)


def settings_of(fields: Iterable[Field[Any]]) -> tuple[Setting, ...]:
    """What was declared with the fields of a dataclass."""
    return tuple(
        Setting(declared.name, **declared.metadata[METADATA_KEY])
        for declared in fields
        if METADATA_KEY in declared.metadata
    )


def family_of(key: str) -> str:
    """The key of a family without its open last word: what is set to `none` to empty it."""
    return key.partition(".$")[0]


def variable_of(name: str) -> str:
    """The environment variable for a key or a flag."""
    words = [word for word in name.split(".") if not word.startswith("$")]
    return VARIABLE_PREFIX + "_".join(words).upper()


def _metadata(
    keys: str, kind: Kind[object], shape: Shape, default_text: str, purpose: str, flag: str = ""
) -> dict[str, dict[str, object]]:
    names = tuple(keys.split())
    declaration = {
        "keys": names, "kind": kind, "shape": shape, "default_text": default_text,
        "purpose": purpose, "variable": variable_of(flag or names[0]), "flag": flag,
    }  # fmt: skip
    return {METADATA_KEY: declaration}


def _text_of(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value)
