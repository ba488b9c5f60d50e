"""The plugins that a node enables, by their names.

They come from RabbitMQ's file `enabled_plugins`, a list of Erlang atoms with a full stop:

    [rabbitmq_management,rabbitmq_stream].

or from the environment or the command line, with commas between them. Without any of these, the
protocols with a configured listener are enabled. `leveret-plugins` writes the file.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from leveret.broker.config.value_kinds import Kind
from leveret.broker.erlang.parser import parse_terms
from leveret.broker.erlang.terms import Atom, format_term

FILE_NAME: Final = "enabled_plugins"
FILE_VARIABLE: Final = "LEVERET_ENABLED_PLUGINS_FILE"
RABBITMQ_FILE_VARIABLE: Final = "RABBITMQ_ENABLED_PLUGINS_FILE"
FILE_CHARACTERS_MAX: Final = 1024 * 1024
NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
USUAL_PORTS: Final = {
    "rabbitmq_stream": ("stream.listeners", "stream.tls_listeners", 5552),
    "rabbitmq_mqtt": ("mqtt.listeners", "mqtt.tls_listeners", 1883),
    "rabbitmq_stomp": ("stomp.listeners", "stomp.tls_listeners", 61613),
    "rabbitmq_web_mqtt": ("web_mqtt.listeners", "web_mqtt.tls_listeners", 15675),
    "rabbitmq_web_stomp": ("web_stomp.listeners", "web_stomp.tls_listeners", 15674),
}
"""Of each plugin with a protocol: the attributes of its listeners, and the port that it has if no
listener is configured.
"""
_DEPTH_MAX: Final = 2


def _read_names(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, (name.strip() for name in text.split(","))))
    if not all(map(NAME.fullmatch, names)):
        raise ValueError
    return names


PLUGINS: Final = Kind("names of plugins with commas between them", _read_names)


def enabled_plugins_file(
    config_file: Path | None, data_dir: Path, environment: Mapping[str, str]
) -> Path:
    """The file that a variable names, or the one beside the configuration file; without that, the
    one in the data directory. It need not exist.
    """
    named = environment.get(FILE_VARIABLE) or environment.get(RABBITMQ_FILE_VARIABLE)
    if named:
        return Path(named)
    return (data_dir if config_file is None else config_file.parent) / FILE_NAME


def read_enabled_plugins(file: Path, problems: list[str]) -> tuple[str, ...] | None:
    """The names in a file; None if it does not exist."""
    try:
        # Unlike Path.exists, this is false of a file in a directory that may not be searched.
        if not os.path.exists(file):
            return None
        terms = parse_terms(file.read_text("utf-8")[:FILE_CHARACTERS_MAX], _DEPTH_MAX)
    except OSError as error:
        problems.append(f"cannot read {file}: {error.strerror}")
    except UnicodeDecodeError:
        problems.append(f"{file} is not UTF-8 text")
    except ValueError as error:
        problems.append(f"{file}: {error}")
    else:
        names = terms[0] if len(terms) == 1 else None
        if isinstance(names, list) and all(isinstance(name, Atom) for name in names):
            return tuple(map(str, names))
        problems.append(f"{file}: expected one list of names with a full stop: [rabbitmq_stream].")
    return ()


def write_enabled_plugins(file: Path, names: Iterable[str]) -> None:
    """Write the names, in order, in place of what the file has. Raises OSError."""
    written = file.with_name(f"{file.name}.new")
    listed = ",".join(format_term(Atom(name)) for name in names)
    written.write_text(f"[{listed}].\n", "utf-8")
    os.replace(written, file)
