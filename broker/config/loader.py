"""Loading a `Config` from files, the environment and the command line.

There are four layers, each of which takes precedence over those before it: the file in the format
of rabbitmq.conf with the file enabled_plugins, advanced.config, the environment, flags. Loading has
three steps. First, all texts are collected as `Given`s, each with the origin that an error message
names. Then the texts are parsed, layer by layer. Finally, the few settings that depend on others
are adjusted. Problems are collected and raised together, so that one start shows all of them.

In the environment and on the command line a family of keys is one text: `LEVERET_LOOPBACK_USERS`
is `guest,monitor`, or `none`; a family that names values is `name=value,name=value`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import IntEnum
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from leveret.broker.config.advanced import FILE_VARIABLE, Advanced, find_advanced, read_advanced
from leveret.broker.config.declaration import VARIABLE_PREFIX, Setting, Shape, make
from leveret.broker.config.files import ConfigEntry, Words, read_entries
from leveret.broker.config.key_patterns import KeyPatterns
from leveret.broker.config.known_settings import OWN, KnownSettings, path_of, with_packages
from leveret.broker.config.parser import words_of
from leveret.broker.config.plugins import FILE_VARIABLE as PLUGINS_FILE_VARIABLE
from leveret.broker.config.plugins import USUAL_PORTS, enabled_plugins_file, read_enabled_plugins
from leveret.broker.config.rabbitmq_4_keys import RABBITMQ_4_KEYS, REFUSED_KEYS
from leveret.broker.config.settings import BIND, PORT_OF_ALL, Config, IgnoredSetting
from leveret.broker.config.tcp_settings import TcpSettings
from leveret.broker.config.value_kinds import Listener, with_letters_of_4

CONFIG_FILE_VARIABLE = "LEVERET_CONFIG"
OTHER_VARIABLES = (
    CONFIG_FILE_VARIABLE, FILE_VARIABLE, PLUGINS_FILE_VARIABLE, "LEVERET_BUILD", "LEVERET_CRASH_",
    "LEVERET_PURE", "LEVERET_STORE_SEEDS", "LEVERET_TEST_",
)  # fmt: skip
"""Beginnings of variables that have another purpose: the configuration files, the build (setup.py,
leveret/compiled.py), and Leveret's own tests."""
SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT)|_PORT_[0-9]+_(TCP|UDP)")
NONE_WORD = "none"
ADVANCED_ATTRIBUTE = "advanced"
SUBSCRIPTION_TTL = "mqtt.subscription_ttl_ms"
PLUGINS_ATTRIBUTE = "plugins"
DATA_DIR_ATTRIBUTE = "data_dir"
VERSION_ATTRIBUTE, VERSIONS_4 = "compat", ("4.0", "4.x")


class ConfigError(Exception):
    """The configuration is invalid; each problem is a line of the text."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Layer(IntEnum):
    """The origin of a value. A higher layer takes precedence."""

    DEFAULT = 0
    FILE = 1
    ADVANCED = 2
    ENVIRONMENT = 3
    FLAG = 4


class Given(NamedTuple):
    """A text that was given for a setting.

    member: the last word of the key, for one member of a family; None for a whole family or a
    single setting. origin: the beginning of an error message about it.
    """

    setting: Setting
    layer: Layer
    member: str | None
    text: str
    origin: str


class Settled(NamedTuple):
    """A parsed value, the layer that it came from, and where it was given."""

    layer: Layer
    value: Any
    origin: str


KEYS_OF_4 = KeyPatterns(RABBITMQ_4_KEYS)
KEYS_OF_ACCESS = KeyPatterns(REFUSED_KEYS)


def load_config(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Config:
    """Load the configuration of a server. Raises ConfigError with all problems.

    flags: by name without dashes (`data_dir`, `port`); None is a flag that was not given. file: if
    None, the file that LEVERET_CONFIG names is read. advanced.config is the file that
    LEVERET_ADVANCED_CONFIG names, or that is beside it.
    """
    if file is None and environment.get(CONFIG_FILE_VARIABLE):
        file = Path(environment[CONFIG_FILE_VARIABLE])
    problems: list[str] = []
    entries = [] if file is None else read_entries(file, environment, problems)
    advanced_file = find_advanced(file, environment)
    advanced = Advanced() if advanced_file is None else read_advanced(advanced_file, problems)
    known = OWN if _are_all_own(entries, environment) else with_packages()
    ignored: list[IgnoredSetting] = []
    plugins_file = enabled_plugins_file(file, _data_dir(environment, flags), environment)
    around = (
        *_given_as_plugins(plugins_file, problems),
        *_given_in_advanced(advanced),
        *_given_in_environment(known, environment, ignored, problems),
        *_given_as_flags(flags),
    )
    is_4 = _is_as_rabbitmq_4(entries, around)
    givens = chain(_given_in_file(known, entries, ignored, problems, is_4=is_4), around)
    settled = _read_all(givens, problems, is_4=is_4)
    if is_4 and SUBSCRIPTION_TTL in settled:
        problems.append(
            f"{settled[SUBSCRIPTION_TTL].origin}: RabbitMQ 4 has no mqtt.subscription_ttl; set "
            "mqtt.max_session_expiry_interval_seconds, in seconds"
        )
    if problems:
        raise ConfigError(problems)
    places = {entry.key: f"{entry.place}: {entry.key}" for entry in entries}
    origins = places | _origins(settled)
    if advanced.file is not None:
        origins[ADVANCED_ATTRIBUTE] = str(advanced.file)
    values = _values(settled)
    beside = {
        "settings_without_effect": tuple(ignored),
        ADVANCED_ATTRIBUTE: advanced,
        "extensions": tuple(
            make(section, values, path_of(name)) for name, section in known.sections.items()
        ),
        "origins": origins,
        "plugins_file": plugins_file,
        "bind": settled[BIND.attribute].value if BIND.attribute in settled else None,
    }
    return make(Config, values | beside)


def _are_all_own(entries: Iterable[ConfigEntry], environment: Mapping[str, str]) -> bool:
    """Whether each given setting is Leveret's own, so that packages need not be searched."""
    return all(OWN.find(entry.words) for entry in entries) and all(
        variable in OWN.by_variable
        for variable, text in environment.items()
        if _is_setting(variable, text)
    )


def _is_as_rabbitmq_4(entries: Sequence[ConfigEntry], around: Sequence[Given]) -> bool:
    """Whether sizes and keys are those of RabbitMQ 4, which must be known before reading them."""
    versions = [entry.text for entry in entries if entry.key == VERSION_ATTRIBUTE]
    versions += [given.text for given in around if given.setting.attribute == VERSION_ATTRIBUTE]
    return bool(versions) and versions[-1] in VERSIONS_4


def _given_in_file(
    known: KnownSettings,
    entries: Sequence[ConfigEntry],
    ignored: list[IgnoredSetting],
    problems: list[str],
    *,
    is_4: bool,
) -> Iterator[Given]:
    left_out = _left_out(known, entries)
    # A setting of a whole family comes last: `listeners.tcp = none` takes precedence anywhere.
    for entry in sorted(entries, key=lambda entry: entry.key in known.by_family):
        pattern = known.keys.find(entry.words)
        origin = f"{entry.place}: {entry.key}"
        if reason := left_out.get(entry.words):
            ignored.append(IgnoredSetting(entry.key, entry.place, reason))
        elif pattern is None and is_4 and KEYS_OF_4.find(entry.words):
            ignored.append(IgnoredSetting(entry.key, entry.place))
        elif pattern is None:
            problems.append(_unknown_key(known, entry))
        elif setting := known.by_family.get(pattern):
            yield Given(setting, Layer.FILE, None, entry.text, origin)
        elif setting := known.by_key.get(pattern):
            yield Given(setting, Layer.FILE, _member(pattern, entry.words), entry.text, origin)
        else:
            ignored.append(IgnoredSetting(entry.key, entry.place))


def _data_dir(environment: Mapping[str, str], flags: Mapping[str, object]) -> Path:
    """The data directory of a node without a configuration file."""
    setting = OWN.by_attribute[DATA_DIR_ATTRIBUTE]
    given = flags.get(setting.flag or "") or environment.get(setting.variable)
    return Path(str(given)) if given else Config.data_dir


def _given_as_plugins(file: Path, problems: list[str]) -> Iterator[Given]:
    names = read_enabled_plugins(file, problems)
    if names is not None:
        setting = OWN.by_attribute[PLUGINS_ATTRIBUTE]
        yield Given(setting, Layer.FILE, None, ",".join(names), str(file))


def _given_in_advanced(advanced: Advanced) -> Iterator[Given]:
    for name, key, text in advanced.taken():
        yield Given(OWN.by_key[key], Layer.ADVANCED, None, text, f"{advanced.file}: {name}")


def _member(pattern: str, words: Sequence[str]) -> str:
    """The word in the place of the pattern's variable; without a variable, the last word."""
    pairs = zip(words_of(pattern), words, strict=True)
    return next((word for expected, word in pairs if expected.startswith("$")), words[-1])


def _left_out(known: KnownSettings, entries: Iterable[ConfigEntry]) -> dict[Words, str]:
    """The settings whose value is left out, with the reason, unless it is its family's only one."""
    values: dict[str, dict[Words, str]] = defaultdict(dict)
    for entry in entries:
        setting = known.by_key.get(known.keys.find(entry.words) or "")
        if setting is not None and setting.kind.left_out:
            values[setting.attribute][entry.words] = setting.kind.left_out.get(entry.text, "")
    families = (family for family in values.values() if "" in family.values())
    return {words: reason for family in families for words, reason in family.items() if reason}


def _unknown_key(known: KnownSettings, entry: ConfigEntry) -> str:
    if KEYS_OF_ACCESS.find(entry.words):
        return (
            f"{entry.place}: the key '{entry.key}' of RabbitMQ 4 limits who has access, and has no "
            "counterpart here; remove it if access may be wider"
        )
    if KEYS_OF_4.find(entry.words):
        return (
            f"{entry.place}: '{entry.key}' is a key of RabbitMQ 4, which has no effect here; it is "
            f"ignored with {VERSION_ATTRIBUTE} = {VERSIONS_4[-1]}"
        )
    nearest = known.keys.nearest(entry.words)
    hint = f"; did you mean '{nearest}'?" if nearest else ""
    return f"{entry.place}: unknown key '{entry.key}'{hint}"


def _given_in_environment(
    known: KnownSettings,
    environment: Mapping[str, str],
    ignored: list[IgnoredSetting],
    problems: list[str],
) -> Iterator[Given]:
    for variable, text in environment.items():
        if not _is_setting(variable, text):
            continue
        setting = known.by_variable.get(variable)
        if setting is None:
            problems.append(_unknown_variable(known, variable))
        elif text:
            origin = f"environment variable {variable}"
            kept = _without_left_out(setting, text, origin, ignored)
            yield Given(setting, Layer.ENVIRONMENT, None, kept, origin)


def _without_left_out(
    setting: Setting, text: str, origin: str, ignored: list[IgnoredSetting]
) -> str:
    """The text of a family without the values that are left out, unless it has no others."""
    reasons = setting.kind.left_out
    parts = _parts(text) if reasons else []
    kept = [part for part in parts if part not in reasons]
    if not kept:
        return text
    ignored += (IgnoredSetting(part, origin, reasons[part]) for part in parts if part in reasons)
    return ",".join(kept)


def _is_setting(variable: str, text: str) -> bool:
    return (
        variable.startswith(VARIABLE_PREFIX)
        and not variable.startswith(OTHER_VARIABLES)
        and not _is_service_link(variable, text)
    )


def _unknown_variable(known: KnownSettings, variable: str) -> str:
    nearest = get_close_matches(variable, known.by_variable, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"environment variable {variable}: no setting has this variable{hint}"


def _is_service_link(variable: str, text: str) -> bool:
    """Whether Kubernetes set this variable.

    The environment of a pod in the namespace of a service called `leveret` contains
    LEVERET_PORT=tcp://10.0.0.7:5672, LEVERET_SERVICE_HOST and LEVERET_PORT_5672_TCP_ADDR, which are
    not meant as settings.
    """
    is_url = variable.endswith("_PORT") and text.startswith(("tcp://", "udp://"))
    return is_url or SERVICE_LINK.search(variable) is not None


def _given_as_flags(flags: Mapping[str, object]) -> Iterator[Given]:
    for name, value in flags.items():
        if value is not None:
            setting = OWN.by_flag[name]
            yield Given(setting, Layer.FLAG, None, str(value), f"--{name.replace('_', '-')}")


def _read_all(givens: Iterable[Given], problems: list[str], *, is_4: bool) -> dict[str, Settled]:
    """Parse the given texts; the result is by attribute. givens: the lowest layer first."""
    settled: dict[str, Settled] = {}
    for given in givens:
        try:
            value = _read(_with_its_letters(given) if is_4 else given)
        except ValueError:
            problems.append(f"{given.origin} = '{given.text}': expected {_expected(given)}")
            continue
        earlier = settled.get(given.setting.attribute)
        if _is_member(given) and earlier is not None and earlier.layer == given.layer:
            value = (*earlier.value, *value)
        settled[given.setting.attribute] = Settled(given.layer, value, given.origin)
    return settled


def _with_its_letters(given: Given) -> Given:
    if not given.setting.kind.has_letters:
        return given
    return given._replace(text=with_letters_of_4(given.text))


def _is_member(given: Given) -> bool:
    return given.setting.shape is not Shape.SINGLE and given.member is not None


def _read(given: Given) -> Any:
    """Parse one value; for a family, the tuple of the members that it adds. Raises ValueError."""
    kind = given.setting.kind
    match given.setting.shape:
        case Shape.SINGLE:
            return kind.read(given.text)
        case _ if given.member is None:
            return _read_family(given)
        case Shape.LISTED:
            return (kind.read(given.text),)
        case Shape.MARKED:
            return (given.member,) if kind.read(given.text) else ()
        case Shape.NAMED:
            return ((given.member, kind.read(given.text)),)


def _read_family(given: Given) -> tuple[object, ...]:
    if given.text == NONE_WORD:
        return ()
    if given.layer is Layer.FILE:
        raise ValueError
    parts = _parts(given.text)
    if given.setting.shape is Shape.NAMED:
        pairs = [part.partition("=") for part in parts if part]
        return tuple((name.strip(), given.setting.kind.read(text)) for name, _, text in pairs)
    if given.setting.shape is Shape.MARKED:
        return tuple(dict.fromkeys(filter(None, parts)))
    return tuple(given.setting.kind.read(part) for part in parts)


def _parts(text: str) -> list[str]:
    """The values of a family in one text: a comma in brackets or quotes belongs to a value."""
    parts, depth, is_quoted = [""], 0, False
    for letter in text:
        is_quoted ^= letter == '"'
        if not is_quoted:
            depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth <= 0 and not is_quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _expected(given: Given) -> str:
    kind = given.setting.kind
    if given.setting.shape is Shape.SINGLE or given.member is not None:
        return kind.expected
    if given.layer is Layer.FILE:
        return NONE_WORD
    return f"{kind.expected}, or several with commas between them, or {NONE_WORD}"


def _values(settled: dict[str, Settled]) -> dict[str, Any]:
    """The values by attribute, after settings that depend on others were adjusted."""
    values = {attribute: one.value for attribute, one in settled.items()}
    bind, port = values.pop(BIND.attribute, None), values.pop(PORT_OF_ALL.attribute, None)
    values["tcp.listeners"] = _tcp_listeners(bind, port, values.get("tcp.listeners"))
    for section in ("web_mqtt", "web_stomp"):
        for tls in ("", "tls_"):
            web_port, host = values.get(f"{section}.{tls}port"), values.get(f"{section}.{tls}host")
            if web_port:
                values[f"{section}.{tls}listeners"] = (Listener(host, web_port),)
    for plugin, (plain, tls, usual_port) in USUAL_PORTS.items():
        if plugin in (values.get(PLUGINS_ATTRIBUTE) or ()):
            values.setdefault(plain, (Listener(None, usual_port),))
        for attribute in (plain, tls) if bind is not None else ():
            listeners = values.get(attribute, ())
            values[attribute] = tuple(Listener(bind, listener.port) for listener in listeners)
    for attribute in ("management.bind", "prometheus.bind", "cluster.bind"):
        if bind and _layer_of(settled, BIND.attribute) > _layer_of(settled, attribute):
            values[attribute] = bind
    _leave_one(settled, values, "disk.free_limit_bytes", "disk.free_limit_relative")
    _leave_one(settled, values, "memory.high_watermark_bytes", "memory.high_watermark_relative")
    return values


def _origins(settled: dict[str, Settled]) -> dict[str, str]:
    origins = {attribute: one.origin for attribute, one in settled.items()}
    for replacing in (BIND, PORT_OF_ALL):
        if replacing.attribute in origins:
            origins["tcp.listeners"] = origins.pop(replacing.attribute)
    return origins


def _tcp_listeners(
    bind: str | None, port: int | None, listeners: tuple[Listener, ...] | None
) -> tuple[Listener, ...]:
    if port is not None:
        listeners = (Listener(None, port),)
    elif listeners is None:
        listeners = TcpSettings().listeners
    if bind is not None:
        listeners = tuple(Listener(bind, listener.port) for listener in listeners)
    return tuple(dict.fromkeys(listener for listener in listeners if listener.port))


def _leave_one(
    settled: dict[str, Settled], values: dict[str, Any], amount: str, share: str
) -> None:
    """Keep one form of a limit: the higher layer's; in the same layer, the amount."""
    if _layer_of(settled, share) > _layer_of(settled, amount):
        values[amount] = None
    elif _layer_of(settled, amount) > Layer.DEFAULT:
        values.pop(share, None)


def _layer_of(settled: dict[str, Settled], attribute: str) -> Layer:
    return settled[attribute].layer if attribute in settled else Layer.DEFAULT
