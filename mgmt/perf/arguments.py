"""Reads the command line (option_table.py) into `PerfOptions`.

Every option can also be given as an environment variable whose name begins with the value of
RABBITMQ_PERF_TEST_ENV_PREFIX. Options that are abbreviations of others are replaced (`_settled`).
docs/operate/perf.md lists the options of PerfTest that are missing or differ.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from leveret import __version__
from leveret.mgmt.perf.messages import MessagePropertyError, message_properties
from leveret.mgmt.perf.option_table import FLAGS_WITHOUT_EFFECT, GROUPS, WITHOUT_EFFECT
from leveret.mgmt.perf.options import OptionsError, PerfOptions

ENVIRONMENT_PREFIX = "RABBITMQ_PERF_TEST_ENV_PREFIX"


def read_options(arguments: list[str], environment: Mapping[str, str] = os.environ) -> PerfOptions:
    """Return the options. Exits like argparse: with 2 for an error, with 0 after --help."""
    reader = parser()
    given = vars(reader.parse_args([*from_environment(reader, environment), *arguments]))
    try:
        return PerfOptions(**_settled(given)).check()
    except (OptionsError, MessagePropertyError) as error:
        reader.error(str(error))
    except OSError as error:
        reader.error(f"cannot read {error.filename}: {error.strerror}")


def from_environment(reader: argparse.ArgumentParser, environment: Mapping[str, str]) -> list[str]:
    """Return the options that are set as environment variables, as arguments."""
    prefix = environment.get(ENVIRONMENT_PREFIX, "").strip()
    if not prefix:
        return []
    found = []
    for action in reader._actions:
        name = action.option_strings[-1]
        variable = name.removeprefix("--").replace("-", "_").upper()
        value = environment.get(f"{prefix.removesuffix('_')}_{variable}")
        if value is None:
            continue
        if action.nargs != 0:
            found.append(f"{name}={value}")
        elif value.lower() == "true":
            found.append(name)
    return found


def _settled(given: dict[str, Any]) -> dict[str, Any]:
    """Return the effective options: those that stand for others are replaced."""
    uri, interval = given.pop("uri"), given.pop("publishing_interval")
    given["uris"] = given["uris"] or [uri]
    given["id"] = given["id"] or f"perf-{os.getpid()}"
    given["flag"] = [name for names in given["flag"] for name in names]
    if interval:
        given["rate"] = 1 / interval
    for name in given["body"]:
        Path(name).open("rb").close()
    _settle_exchange(given)
    _settle_queues(given)
    content_type = given.pop("body_content_type") or ("application/json" * given["json_body"])
    properties = _merged(given["message_properties"])
    if content_type:
        properties["content_type"] = content_type
    message_properties(properties)
    return {**given, "message_properties": properties}


def _settle_exchange(given: dict[str, Any]) -> None:
    """Without a name, the exchange is named after its type; amq.default is the default exchange."""
    given["predeclared_exchange"] = given["predeclared"] and given["exchange"] is not None
    if given["exchange"] is None:
        given["exchange"] = given["type"]
    elif given["exchange"] == "amq.default":
        given["exchange"] = ""


def _settle_queues(given: dict[str, Any]) -> None:
    file, names = given.pop("queue_file"), given.pop("queue")
    if file:
        names = [line.strip() for line in Path(file).read_text().splitlines() if line.strip()]
    given["queues"], given["is_sequence"] = names, bool(file)
    takes_turns = given["is_sequence"] or given["queue_pattern"]
    if given["routing_key"] is None and given["exchange"] and not takes_turns:
        given["routing_key"] = str(uuid4())
    given["queue_args"] = _queue_arguments(given)
    offset = given.pop("stream_consumer_offset")
    given["consumer_args"] = _merged(given["consumer_args"])
    if offset is not None:
        given["consumer_args"]["x-stream-offset"] = offset


def _queue_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Drop arguments without a value and limits of 0: they remove a queue type's defaults."""
    arguments = _queue_type(given) | _merged(given["queue_args"])
    for option, name in _QUEUE_ARGUMENTS.items():
        value = given.pop(option)
        if value is not None:
            arguments[name] = value or ""
    return {name: value for name, value in arguments.items() if value != ""}


_QUEUE_ARGUMENTS = {
    "max_length_bytes": "x-max-length-bytes",
    "stream_max_segment_size_bytes": "x-stream-max-segment-size-bytes",
    "leader_locator": "x-queue-leader-locator",
    "max_age": "x-max-age",
}


def _queue_type(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of quorum queues and streams, and the options that these require."""
    is_quorum, is_stream = given.pop("quorum_queue"), given.pop("stream_queue")
    if is_quorum and is_stream:
        raise OptionsError("give either --quorum-queue or --stream-queue, not both")
    if not (is_quorum or is_stream):
        return {}
    given["flag"].append("persistent")
    given["auto_delete"] = False
    if is_quorum:
        return {"x-queue-type": "quorum"}
    given["qos"] = given["qos"] or STREAM_QOS
    return {
        "x-queue-type": "stream", "x-max-length-bytes": STREAM_BYTES_MAX,
        "x-stream-max-segment-size-bytes": STREAM_SEGMENT_BYTES_MAX,
    }  # fmt: skip


STREAM_QOS, STREAM_BYTES_MAX, STREAM_SEGMENT_BYTES_MAX = 200, 20 * 1000**3, 500 * 1000**2


def _merged(given: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for pairs in given for name, value in pairs.items()}


class _OneLineErrorParser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with 2."""
        self.exit(2, f"leveret perf: {message}; see leveret perf --help\n")


class _NoEffect(argparse.Action):
    """An option for PerfTest's Java that is accepted and has no effect."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
        option_string: str | None = None,
    ) -> None:  # fmt: skip
        sys.stderr.write(f"leveret perf: {option_string} has no effect here\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = _OneLineErrorParser(
        prog="leveret perf",
        description="Load an AMQP 0-9-1 broker and measure it, with PerfTest's options.",
        allow_abbrev=False, add_help=False,
    )  # fmt: skip
    made.add_argument("-?", "--help", action="help", help="show this help and exit")
    made.add_argument("-v", "--version", action="version", version=f"Leveret {__version__}")
    for title, options in GROUPS.items():
        group = made.add_argument_group(title)
        for option in options:
            group.add_argument(*option.names, **option.settings)
    for names in WITHOUT_EFFECT:
        _add_without_effect(made, names)
    for names in FLAGS_WITHOUT_EFFECT:
        _add_without_effect(made, names, nargs=0)
    return made


def _add_without_effect(reader: argparse.ArgumentParser, names: str, **more: Any) -> None:
    hidden = argparse.SUPPRESS
    reader.add_argument(*names.split(), action=_NoEffect, dest=hidden, help=hidden, **more)
