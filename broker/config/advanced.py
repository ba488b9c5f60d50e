"""RabbitMQ's advanced.config: settings of applications, as Erlang terms.

    [{rabbit, [{heartbeat, 30}]},
     {rabbitmq_shovel, [{shovels, [...]}]}].

Its static shovels run (policies/static_shovel.py), and the settings of `rabbit` in `TAKEN` replace
those of rabbitmq.conf. Other settings are reported and not read. A file that is not such a term
stops the start.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from leveret.broker.erlang.parser import parse_terms
from leveret.broker.erlang.terms import Atom, format_term

FILE_NAME: Final = "advanced.config"
FILE_VARIABLE: Final = "LEVERET_ADVANCED_CONFIG"
FILE_BYTES_MAX: Final = 1024 * 1024
DEPTH_MAX: Final = 50

RABBIT, SHOVEL, SHOVELS = "rabbit", "rabbitmq_shovel", "shovels"
_SAME_KEYS: Final = (
    "channel_max", "channel_operation_timeout", "cluster_partition_handling",
    "collect_statistics_interval", "connection_max", "consumer_max_per_channel",
    "consumer_timeout", "default_pass", "default_user", "default_vhost", "frame_max",
    "handshake_timeout", "heartbeat", "initial_frame_max", "max_message_size",
    "queue_index_embed_msgs_below", "ssl_handshake_timeout",
)  # fmt: skip
TAKEN: Final[Mapping[str, str]] = {
    **{key: key for key in _SAME_KEYS},
    "disk_free_limit": "disk_free_limit.absolute",
    "vm_memory_high_watermark": "vm_memory_high_watermark.relative",
}
"""Settings of `rabbit` whose values are numbers or words, and their keys in rabbitmq.conf."""


@dataclass(frozen=True)
class Advanced:
    """The content of a file. applications: terms by application and key, with passwords."""

    file: Path | None = None
    applications: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict, repr=False, hash=False
    )

    @property
    def shovels(self) -> Any:
        """The term of the static shovels."""
        return self.applications.get(SHOVEL, {}).get(SHOVELS, [])

    def taken(self) -> Iterator[tuple[str, str, str]]:
        """Settings: their keys here and in rabbitmq.conf, and their texts."""
        for key, term in self.applications.get(RABBIT, {}).items():
            text = _text(term)
            if key in TAKEN and text is not None:
                yield key, TAKEN[key], text

    @property
    def not_read(self) -> list[str]:
        """Settings without effect, as `application.key`."""
        read = {(RABBIT, key) for key, _, _ in self.taken()} | {(SHOVEL, SHOVELS)}
        return [
            f"{application}.{key}"
            for application, terms in self.applications.items()
            for key in terms
            if (application, key) not in read
        ]


def find_advanced(config_file: Path | None, environment: Mapping[str, str]) -> Path | None:
    """The file that a variable names, or the one beside the configuration file, if it is there."""
    named = environment.get(FILE_VARIABLE)
    if named:
        return Path(named)
    if config_file is None:
        return None
    beside = config_file.parent / FILE_NAME
    # Unlike Path.exists, this is false of a directory that may not be searched.
    return beside if os.path.exists(beside) else None


def read_advanced(file: Path, problems: list[str]) -> Advanced:
    """Read a file."""
    try:
        with file.open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ValueError(f"the file is larger than {FILE_BYTES_MAX} bytes")
        return Advanced(file, _applications(parse_terms(data.decode(), DEPTH_MAX)))
    except OSError as error:
        problems.append(f"cannot read {file}: {error.strerror}")
    except UnicodeDecodeError:
        problems.append(f"{file} is not UTF-8 text")
    except ValueError as error:
        problems.append(f"{file}: {error}")
    return Advanced(file)


def _applications(terms: list[Any]) -> dict[str, dict[str, Any]]:
    """The settings of each application. Raises ValueError."""
    if len(terms) != 1 or not isinstance(terms[0], list):
        raise ValueError("expected one list with a full stop after it: [{application, [...]}].")
    found: dict[str, dict[str, Any]] = {}
    for pair in terms[0]:
        match pair:
            case tuple((Atom() as name, list() as settings)):
                found.setdefault(str(name), {}).update(_settings(name, settings))
            case _:
                shown = format_term(pair[0] if isinstance(pair, tuple) and pair else pair)
                raise ValueError(f"expected pairs {{application, [...]}}, found {shown[:100]}")
    return found


def _settings(application: str, terms: list[Any]) -> Iterator[tuple[str, Any]]:
    for term in terms:
        match term:
            case tuple((Atom() as key, value)):
                yield str(key), value
            case Atom():
                yield str(term), Atom("true")
            case _:
                raise ValueError(f"expected pairs {{key, value}} in the list of {application}")


def _text(term: Any) -> str | None:
    """The text that rabbitmq.conf would have; None unless the term is a number or a word."""
    return str(term) if isinstance(term, str | int | float) else None
