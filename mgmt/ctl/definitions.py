"""Exports and imports definitions, and shows what an import would change."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leveret.broker.policies.parameters import INTERNAL_CLUSTER_ID
from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.conversion import convert_as_defined
from leveret.mgmt.ctl.errors import DATA_ERROR, SOFTWARE, bad_argument, failure
from leveret.mgmt.ctl.formatters import json_text
from leveret.mgmt.ctl.wording import in_words

DEFINITIONS = "Definitions"
SIGNS = {"add": "+", "change": "~", "conflict": "!"}


def _require_json(ctl: CommandRun) -> None:
    if ctl.options.get("format", "json").lower() != "json":
        raise bad_argument("Format should be json")


@command("export_definitions", '<file_path | "-"> [--format <json>]',
         "Exports all definitions as JSON, to a file or to standard output", DEFINITIONS,
         "format=")  # fmt: skip
def export_definitions(ctl: CommandRun) -> None:
    """Export all definitions to a file or to standard output."""
    path = ctl.argument(0)
    _require_json(ctl)
    ctl.take_time()
    if path != "-" and not Path(path).absolute().parent.is_dir():
        raise bad_argument(f"Directory {Path(path).parent} does not exist")
    if path == "-":
        # Nothing else is printed, so that programs can parse the output.
        ctl.out(json_text(_definitions(ctl)))
        return
    ctl.banner(f'Exporting definitions in JSON to a file at "{path}" ...')
    text = json.dumps(_definitions(ctl), indent=2, ensure_ascii=False) + "\n"
    ctl.has_printed = True
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise failure(f"{path} cannot be written: {error.strerror}", SOFTWARE) from None


def _definitions(ctl: CommandRun) -> dict[str, Any]:
    """All definitions except the facts that identify this cluster, as with rabbitmqctl."""
    found: dict[str, Any] = ctl.client.get("definitions")
    parameters = found["global_parameters"]
    found["global_parameters"] = [one for one in parameters if one["name"] != INTERNAL_CLUSTER_ID]
    return found


@command("import_definitions", '<file_path | "-"> [--format <json>] [--skip-if-unchanged] '
         "[--convert] [--dry-run]", "Imports definitions as JSON, from a file or from standard "
         "input", DEFINITIONS, "format=", "skip-if-unchanged", "convert",
         counts=(0, 1))  # fmt: skip
def import_definitions(ctl: CommandRun) -> int | None:
    """Import definitions from a file or standard input, or show what they would change."""
    path = ctl.argument(0, "-")
    _require_json(ctl)
    if path != "-" and not Path(path).is_file():
        raise bad_argument(f"File {path} does not exist")
    where = "standard input" if path == "-" else f'a file at "{path}"'
    ctl.take_time()
    if ctl.options.get("dry_run"):
        ctl.banner(f"What importing definitions from {where} would change ...")
        found = ctl.client.post("definitions", body=_read(path), dry_run="true")
        ctl.facts(found, change_lines(found))
        return DATA_ERROR if found.get("problems") else None
    ctl.banner(f"Importing definitions in JSON from {where} ...")
    content = _read(path)
    if not (ctl.options.get("skip_if_unchanged") and _is_unchanged(ctl, content)):
        _import(ctl, content)
    if ctl.options.get("convert"):
        convert_as_defined(ctl, content.get("queues", []))
    if not ctl.is_quiet:
        ctl.out("Successfully imported definitions")
    return None


def _import(ctl: CommandRun, content: Any) -> None:
    """Import definitions. Raises CtlError with all their errors."""
    try:
        ctl.client.post("definitions", body=content)
    except HttpError as error:
        problems = list(problem_lines(error.content.get("problems", [])))
        raise (failure("\n".join(problems)) if problems else error) from None


def problem_lines(problems: list[dict[str, Any]]) -> Iterator[str]:
    """Return the errors of definitions, one per line."""
    for problem in problems:
        yield f"{problem['path']}: {in_words(problem['reason']).strip()}"


def _is_unchanged(ctl: CommandRun, content: Any) -> bool:
    return not ctl.client.post("definitions", body=content, dry_run="true")["changes"]


def _shown(path: str) -> str:
    return "standard input" if path == "-" else path


def _read(path: str) -> Any:
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        content = json.loads(raw)
    except OSError as error:
        raise failure(f"{_shown(path)} cannot be read: {error.strerror}", DATA_ERROR) from None
    except ValueError as error:
        raise failure(f"{_shown(path)} is not JSON: {error}", DATA_ERROR) from None
    if not isinstance(content, dict):
        raise failure(
            f"{_shown(path)} must contain a JSON object, as export_definitions writes it",
            DATA_ERROR,
        )
    return content


def change_lines(found: dict[str, Any]) -> Iterator[str]:
    """Return the changes, one per line."""
    for change in found["changes"]:
        where = f" in vhost '{change['vhost']}'" if change.get("vhost") else ""
        line = f"{SIGNS[change['action']]} {change['kind']} '{change['name']}'{where}"
        if change["from"] is not None:
            line += f": {json_text(change['from'])} -> {json_text(change['to'])}"
        if change.get("reason"):
            line += f" ({change['reason']})"
        yield line
    yield from (f"x {line}" for line in problem_lines(found.get("problems", [])))
    yield f"{len(found['changes'])} changes, {found['unchanged']} unchanged"
