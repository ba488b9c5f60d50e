"""How a setting is declared: once, as a field of a dataclass.

`setting(...)` stands to the right of a field's type and states the setting's key in the file, the
kind of value, the default and the sentence for the documentation. To the type checker it looks like
the default value, so kind, default and field type must agree. At run time it is a dataclass field
that carries the declaration as metadata.

Settings that belong together are the fields of a dataclass of their own, a section, and `section`
makes it a field of the dataclass above: `config.tls.options.depth`. `settings_of` walks a dataclass
and its sections and returns one flat table of declarations, in which each has a dotted attribute
(`tls.options.depth`) and full keys. `make` is the way back: it builds the dataclass from values by
dotted attribute.

A setting is one value, or a family of keys that make one tuple. A family that lists values
(`auth_mechanisms.1 = PLAIN`) is the tuple of its values. A family that marks names
(`loopback_users.guest = true`) is the tuple of the names that are marked true; a file that marks
any name replaces the default. A family that names values (`auth_oauth2.signing_keys.id1 = one.pem`)
is a tuple of pairs of name and value. The key of a family without its last word, set to `none`,
empties the family.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, auto
from typing import Any, TypeVar

from leveret.broker.config.value_kinds import BOOLEAN, Kind

METADATA_KEY = "declaration"
VARIABLE_PREFIX = "LEVERET_"

Value = TypeVar("Value")
Section = TypeVar("Section")


class Shape(Enum):
    """How the values of a setting's keys make the setting's value."""

    SINGLE = auto()
    LISTED = auto()
    MARKED = auto()
    NAMED = auto()


@dataclass(frozen=True, slots=True)
class Setting:
    """A declared setting.

    attribute: the dotted path of its value below `Config`. keys: its keys in the file; the first is
    the current one, the rest are older names; empty if a file cannot have it. variable: the
    environment variable. flag: without its dashes; empty if there is none. is_secret: never shown.
    """

    attribute: str
    keys: tuple[str, ...]
    kind: Kind[object]
    shape: Shape
    default_text: str
    purpose: str
    variable: str
    flag: str = ""
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class _Declared:
    """The metadata of one setting. keys: within the section."""

    keys: tuple[str, ...]
    kind: Kind[object]
    shape: Shape
    default_text: str
    purpose: str
    flag: str = ""
    is_secret: bool = False
    variable: str = ""
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class _DeclaredSection:
    """The metadata of a section. prefixes, described_as: see `section`."""

    settings: type[Any]
    prefixes: tuple[str, ...]
    described_as: str


def setting(
    keys: str,
    kind: Kind[Value],
    default: Value,
    purpose: str,
    *,
    default_text: str = "",
    flag: str = "",
    is_secret: bool = False,
    variable: str = "",
    is_own: bool = False,
) -> Value:
    """A setting of one value.

    keys: separated by blanks. is_secret: `repr` does not show it. variable: if it is not the one
    derived from the key or the flag. is_own: the section to which the documentation refers
    (`section`) has no such setting.
    """
    declared = _Declared(
        tuple(keys.split()), kind, Shape.SINGLE, default_text or _text_of(default), purpose, flag,
        is_secret, variable, is_own,
    )  # fmt: skip
    return field(default=default, metadata={METADATA_KEY: declared}, repr=not is_secret)


def listed_setting(
    key: str, kind: Kind[Value], default: tuple[Value, ...], purpose: str, *, default_text: str = ""
) -> tuple[Value, ...]:
    """A family of keys whose values are listed."""
    declared = _Declared((key,), kind, Shape.LISTED, default_text or _text_of(default), purpose)
    return field(default=default, metadata={METADATA_KEY: declared})


def marked_setting(key: str, default: tuple[str, ...], purpose: str) -> tuple[str, ...]:
    """A family of keys whose last words are marked true or false."""
    declared = _Declared((key,), BOOLEAN, Shape.MARKED, _text_of(default), purpose)
    return field(default=default, metadata={METADATA_KEY: declared})


def named_setting(key: str, kind: Kind[Value], purpose: str) -> tuple[tuple[str, Value], ...]:
    """A family of keys that are names for values; the word that `$` stands for is the name."""
    declared = _Declared((key,), kind, Shape.NAMED, "none", purpose)
    default: tuple[tuple[str, Value], ...] = ()
    return field(default=default, metadata={METADATA_KEY: declared})


def section(settings: type[Section], prefixes: str = "", *, described_as: str = "") -> Section:
    """The settings of another dataclass, as one field.

    prefixes: the beginnings of the section's keys, separated by blanks, after those of a section
    around it; the first is the current one. Without any, the section declares full keys.
    described_as: the prefix under which the documentation describes the same settings, for a
    section that is used a second time.
    """
    declared = _DeclaredSection(settings, tuple(prefixes.split()) or ("",), described_as)
    return field(default=settings(), metadata={METADATA_KEY: declared})


def flag_setting(flag: str, kind: Kind[object], default_text: str, purpose: str) -> Setting:
    """A setting that no file can have and that changes others: it is no attribute of `Config`."""
    return Setting(flag, (), kind, Shape.SINGLE, default_text, purpose, variable_of(flag), flag)


def settings_of(
    settings: type[Any], path: str = "", prefixes: tuple[str, ...] = ("",), described_as: str = ""
) -> Iterator[Setting]:
    """The declarations of a dataclass and of its sections, in the order of their fields.

    path: the dotted path of the dataclass itself, with a dot at its end. prefixes, described_as:
    the arguments of `section`.
    """
    for each in fields(settings):
        declared = each.metadata.get(METADATA_KEY)
        if isinstance(declared, _DeclaredSection):
            nested = tuple(_join(around, own) for around in prefixes for own in declared.prefixes)
            yield from settings_of(
                declared.settings, f"{path}{each.name}.", nested, declared.described_as
            )
        elif isinstance(declared, _Declared):
            yield _setting_of(declared, path + each.name, prefixes, described_as)


def _setting_of(
    declared: _Declared, attribute: str, prefixes: tuple[str, ...], described_as: str
) -> Setting:
    keys = tuple(_join(prefix, key) for prefix in prefixes for key in declared.keys)
    purpose = declared.purpose
    if described_as and not declared.is_own:
        purpose = f"As {_join(described_as, declared.keys[0])}."
    return Setting(
        attribute, keys, declared.kind, declared.shape, declared.default_text, purpose,
        declared.variable or variable_of(declared.flag or keys[0]), declared.flag,
        declared.is_secret,
    )  # fmt: skip


def make(settings: type[Section], values: Mapping[str, object], path: str = "") -> Section:
    """A dataclass of settings, with its sections; a setting without a value keeps its default.

    values: by dotted attribute. path: the dotted path of the dataclass, with a dot at its end.
    """
    given: dict[str, Any] = {}
    for each in fields(settings):  # type: ignore[arg-type]
        declared, attribute = each.metadata.get(METADATA_KEY), path + each.name
        if isinstance(declared, _DeclaredSection):
            given[each.name] = make(declared.settings, values, f"{attribute}.")
        elif attribute in values:
            given[each.name] = values[attribute]
    return settings(**given)


def family_of(key: str) -> str:
    """The key of a family without its open last word; `none` as its value empties the family."""
    return key.partition(".$")[0]


def variable_of(name: str) -> str:
    """The environment variable for a key or a flag."""
    words = [word for word in name.split(".") if not word.startswith("$")]
    return VARIABLE_PREFIX + "_".join(words).upper()


def _join(prefix: str, key: str) -> str:
    return f"{prefix}.{key}" if prefix else key


def _text_of(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value)
