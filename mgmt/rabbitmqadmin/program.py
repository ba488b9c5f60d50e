"""The commands."""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from .api import Api
from .errors import Failure, wrong_usage
from .formats import FORMATS, flat, place
from .help import CONFIG_HELP, bash_completion, subcommands
from .objects import DONE, FORMS, GET, LISTS, PUBLISH, SHOWN, Listed, ObjectForm
from .options import parse


class Admin:
    """Runs a command. words: its arguments."""

    def __init__(self, options: argparse.Namespace, words: list[str]) -> None:
        self._options = options
        self._words = words
        self._api = Api(options)

    def _say(self, text: str) -> None:
        if not self._options.quiet:
            print(text)

    def _one_word(self) -> str:
        if len(self._words) != 1:
            raise wrong_usage("Exactly one argument required")
        return self._words[0]

    def list_objects(self, lists: dict[str, Listed] = LISTS, verb: str = "list") -> None:
        """List objects."""
        kind, *columns = self._words or [""]
        if kind not in lists:
            raise wrong_usage(f"Don't know how to {verb} {kind or 'nothing'}")
        one, options = lists[kind], self._options
        path = "/" + kind.replace("_", "-")
        if one.in_vhost and options.vhost:
            path += "/" + quote_plus(options.vhost)
        if not columns and options.depth == 1 and "json" not in options.format:
            columns = [*one.columns]
        query = {"columns": ",".join(columns), "sort": options.sort or ""}
        query["sort_reverse"] = "true" if options.sort_reverse else ""
        asked = "&".join(f"{key}={quote(text, ',')}" for key, text in query.items() if text)
        content = self._api.request("GET", f"{path}?{asked}" if asked else path)
        objects = self._api.objects(content) if verb == "list" else [self._api.object(content)]
        self._print(objects, content if verb == "list" else f"[{content}]", columns, one.json)

    def show(self) -> None:
        """Show one object."""
        self.list_objects(SHOWN, "show")

    def change(self, verb: str) -> None:
        """Declare, delete, close or purge an object."""
        forms = FORMS[verb]
        kind, *words = self._words or [""]
        if not kind:
            raise wrong_usage("Type not specified")
        if kind not in forms:
            raise wrong_usage(f"Type {kind} not recognised")
        path, values = self._read(words, forms[kind])
        if values.get("queue_type"):
            arguments = values.get("arguments") or {}
            values["arguments"] = {**arguments, "x-queue-type": values["queue_type"]}
        if verb == "declare":
            method = "POST" if kind == "binding" else "PUT"
            self._api.request(method, path, json.dumps(values).encode())
        else:
            self._api.request("DELETE", path)
        self._say(f"{kind} {DONE[verb]}")

    def _read(self, words: list[str], form: ObjectForm) -> tuple[str, dict[str, Any]]:
        """Return the path and the values that the words give."""
        values = {name: value for name, value in form.optional.items() if value is not None}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals:
                raise wrong_usage(f'Argument "{word}" not in the name=value format')
            if name not in form.names:
                raise wrong_usage(f'Argument "{name}" is not recognised')
            values[name] = _read_json(value) if name in form.json else value
        for some in form.required:
            if not any(name in values for name in some):
                raise wrong_usage(f"mandatory argument {_either(some)} is required")
        values.setdefault("vhost", self._options.vhost or self._options.declare_vhost or "/")
        if values.get("exchange") == "":
            values["exchange"] = form.optional["exchange"]
        kind = str(values.get("destination_type") or "queue")[:1]
        texts = {name: quote(str(value), "") for name, value in values.items()}
        return form.path.format(**{**texts, "kind": kind}), values

    def publish(self) -> None:
        """Publish a message; without a payload, it is read from standard input."""
        path, values = self._read(self._words, PUBLISH)
        if "payload" not in values:
            read = sys.stdin.buffer.read()
            values["payload"] = base64.b64encode(read).decode()
            values["payload_encoding"] = "base64"
        content = self._api.request("POST", path, json.dumps(values).encode())
        is_routed = self._api.object(content).get("routed")
        if is_routed is None:
            raise self._api.no_answer(content)
        self._say(f"Message published{'' if is_routed else ' but NOT routed'}")

    def get(self) -> None:
        """Get messages, and show them or write the payload of one to a file."""
        path, values = self._read(self._words, GET)
        file = values.get("payload_file")
        if file and values["count"] != "1":
            raise wrong_usage("Cannot get multiple messages using payload_file")
        content = self._api.request("POST", path, json.dumps(values).encode())
        messages = self._api.objects(content)
        columns: list[str] = []
        if file:
            for message in messages:
                try:
                    payload = _payload(message)
                except (KeyError, ValueError, AttributeError):
                    raise self._api.no_answer(content) from None
                Path(file).write_bytes(payload)
            columns = ["routing_key", "exchange", "message_count", "payload_bytes", "redelivered"]
        self._print(messages, content, columns, ())

    def _definitions(self) -> str:
        vhost = self._options.vhost
        return f"/definitions/{quote_plus(vhost)}" if vhost else "/definitions"

    def export(self) -> None:
        """Write definitions to a file."""
        path = self._one_word()
        content = self._api.request("GET", self._definitions())
        self._api.object(content)
        Path(path).write_bytes(content.encode())
        self._say(f'Exported definitions for {self._options.hostname} to "{path}"')

    def take(self) -> None:
        """Import definitions from a file."""
        path = self._one_word()
        self._api.request("POST", self._definitions(), Path(path).read_bytes())
        self._say(f'Uploaded definitions from "{path}" to {self._options.hostname}')

    def _print(
        self,
        objects: list[dict[str, Any]],
        content: str,
        columns: list[str],
        as_json: tuple[str, ...],
    ) -> None:
        """Print objects. content: their JSON."""
        form = self._options.format
        if form == "raw_json":
            print(content)
        elif form == "pretty_json":
            print(json.dumps(objects, ensure_ascii=False, sort_keys=True, indent=2))
        elif form not in FORMATS:
            raise wrong_usage(f"Format {form} not recognised")
        elif not objects:
            self._say("No items")
        else:
            depth = sys.maxsize if columns else self._options.depth
            rows = [flat(row, depth, as_json) for row in objects]
            columns = columns or sorted({name for row in rows for name in row}, key=place)
            if form == "tsv":
                self._say("\t".join(columns))
            for line in FORMATS[form](columns, [[row.get(c, "") for c in columns] for row in rows]):
                print(line)


def _payload(message: dict[str, Any]) -> bytes:
    is_coded = message["payload_encoding"] == "base64"
    payload = message["payload"]
    return base64.b64decode(payload) if is_coded else payload.encode()


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise Failure(f"Could not parse JSON:\n  {text}") from None


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(f'"{name}"' for name in names)


def run(words: list[str]) -> None:
    """Run a command. Raises Failure, OSError."""
    options, (verb, *rest) = parse(words)
    if options.bash_completion:
        print(bash_completion())
    elif not verb:
        raise wrong_usage("Action not specified")
    elif verb == "help":
        show_help(rest)
    elif verb in FORMS:
        Admin(options, rest).change(verb)
    elif verb in COMMANDS:
        COMMANDS[verb](Admin(options, rest))
    else:
        raise wrong_usage(f"Action {verb} not understood")


COMMANDS = {
    "list": Admin.list_objects, "show": Admin.show, "publish": Admin.publish,
    "get": Admin.get, "export": Admin.export, "import": Admin.take,
}  # fmt: skip


def show_help(topics: list[str]) -> None:
    """Print a page of help."""
    pages = {"subcommands": subcommands(), "config": CONFIG_HELP}
    if len(topics) != 1 or topics[0] not in pages:
        raise wrong_usage("help topic must be one of:\n  subcommands\n  config")
    print(pages[topics[0]])


def main() -> int:
    """Run the program, and return its exit code."""
    try:
        run(sys.argv[1:])
        sys.stdout.flush()
    except Failure as error:
        if error.is_usage:
            name = os.path.basename(sys.argv[0])
            sys.stderr.write(f"\nERROR: {error}\n\n{name} --help for help\n\n")
        else:
            sys.stderr.write(f"*** {error}\n\n")
        return 1
    except BrokenPipeError:
        # The reader of the output has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.stderr.write(f"*** {error.strerror}: {error.filename}\n\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
