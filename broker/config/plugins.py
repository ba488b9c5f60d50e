"""The plugins that a node enables: RabbitMQ's names, of those that are off otherwise.

They come from RabbitMQ's file `enabled_plugins`, a list of Erlang atoms with a full stop:

    [rabbitmq_management,rabbitmq_stream].

or from the environment or the command line, with commas between them. Most of RabbitMQ's plugins
are a part of Leveret that needs no switch; their names, and unknown ones, have no effect.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from leveret.broker.config.value_kinds import Kind
from leveret.broker.erlang.parser import parse_terms
from leveret.broker.erlang.terms import Atom

FILE_NAME: Final = "enabled_plugins"
FILE_VARIABLE: Final = "LEVERET_ENABLED_PLUGINS_FILE"
FILE_CHARACTERS_MAX: Final = 1024 * 1024
_DEPTH_MAX: Final = 2
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


def _read_names(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, (name.strip() for name in text.split(","))))
    if not all(map(_NAME.fullmatch, names)):
        raise ValueError
    return names


PLUGINS: Final = Kind("names of plugins with commas between them", _read_names)


def find_enabled_plugins(config_file: Path | None, environment: Mapping[str, str]) -> Path | None:
    """The file that a variable names, or the one beside the configuration file, if it is there."""
    named = environment.get(FILE_VARIABLE)
    if named:
        return Path(named)
    if config_file is None:
        return None
    beside = config_file.parent / FILE_NAME
    # Unlike Path.exists, this is false of a directory that may not be searched.
    return beside if os.path.exists(beside) else None


def read_enabled_plugins(file: Path, problems: list[str]) -> tuple[str, ...]:
    """The names in a file."""
    try:
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
