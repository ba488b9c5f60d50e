"""`leveret store`: checks the files of a stopped node, and moves damaged parts aside."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from leveret.broker.registry.stored import declared_ids
from leveret.broker.retained.retained_messages import FORGET_AFTER_MS
from leveret.cluster.quorum.machine.commands import message_count
from leveret.cluster.replicated_queues.stored_groups import StoredGroups
from leveret.storage.check.check import DeclaredIds, check_store
from leveret.storage.check.check_metadata import check_metadata, repair_metadata
from leveret.storage.check.check_retained import check_retained, repair_retained
from leveret.storage.check.check_segments import FileReport
from leveret.storage.check.kept_originals import DAMAGED
from leveret.storage.check.repair import repair_store
from leveret.storage.disk.data_directory import DataDirectoryError, DataDirectoryLock
from leveret.storage.disk.disk import StoreError
from leveret.storage.metadata.metadata_rows import Definitions
from leveret.storage.retained.retained_file import RetainedFileError

EXIT_DAMAGED, EXIT_CANNOT = 1, 2

Result = TypeVar("Result")
Directory = Annotated[Path, typer.Argument(help="The data directory of a node that is stopped.")]

app = typer.Typer(help="Check or repair the files of a stopped node.", no_args_is_help=True)


@app.command()
def check(directory: Directory) -> None:
    """Read every file, and report its contents and any damage. Exits with 1 if there is damage."""
    definitions, files = _locked(directory, lambda progress: _check_all(directory, progress))
    for file in files:
        _show(directory, file)
    for problem in definitions.damaged:
        typer.echo(problem)
    problems = sum(len(file.problems) for file in files) + len(definitions.damaged)
    messages = sum(file.counts.get("messages", 0) for file in files)
    size = sum(file.size for file in files)
    typer.echo(
        f"{len(files)} files, {size:,} bytes, {messages:,} messages (including deleted ones "
        f"and copies); {problems} problems"
    )
    if problems:
        sys.exit(EXIT_DAMAGED)


@app.command()
def repair(directory: Directory) -> None:
    """Move damaged parts into a directory of their own, and keep the rest."""
    definitions = check_metadata(directory)
    declared = _declared(definitions)
    groups = None if declared is None else StoredGroups(definitions)
    files, left, advice = _locked(
        directory, lambda progress: repair_store(directory, declared, progress, groups)
    )
    if _locked(directory, lambda progress: repair_metadata(directory)):
        typer.echo(f"undamaged declarations were kept; the original is in {directory / DAMAGED}")
    if _locked(directory, lambda progress: repair_retained(directory, FORGET_AFTER_MS)):
        typer.echo(
            f"undamaged retained messages were kept; the original is in {directory / DAMAGED}"
        )
    for path in files:
        kept = directory / DAMAGED / path.relative_to(directory)
        typer.echo(f"{path}: undamaged parts were kept; the original is {kept}")
    typer.echo(f"{len(files)} files were repaired")
    for line in (*left, *advice):
        typer.echo(line)
    if left:
        typer.echo(f"{len(left)} problems are left")
        sys.exit(EXIT_DAMAGED)


def _check_all(
    directory: Path, progress: Callable[[int, int], None]
) -> tuple[Definitions, list[FileReport]]:
    definitions = check_metadata(directory)
    declared = _declared(definitions)
    files = list(check_store(directory, declared, progress, message_count).files)
    retained = check_retained(directory)
    return definitions, files if retained is None else [*files, retained]


def _declared(definitions: Definitions) -> DeclaredIds | None:
    """The storage ids of the declared objects; None if they are not known.

    A node keeps the messages of all queues when a declaration is damaged.
    """
    return None if definitions.damaged else declared_ids(definitions)


def _locked(directory: Path, work: Callable[[Callable[[int, int], None]], Result]) -> Result:
    """Work on a store that no node uses, and show the progress."""
    if not directory.is_dir():
        _give_up(f"there is no directory {directory}")
    lock = DataDirectoryLock(directory)
    try:
        lock.acquire()
        with _progress() as progress:
            task = progress.add_task("reading", total=None)
            return work(lambda done, total: progress.update(task, completed=done, total=total))
    except (DataDirectoryError, RetainedFileError, StoreError) as error:
        _give_up(str(error))
    finally:
        lock.release()


def _progress() -> Progress:
    description = TextColumn("{task.description}")
    columns = (description, BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _show(directory: Path, report: FileReport) -> None:
    counts = ", ".join(f"{count:,} {what}" for what, count in report.counts.items())
    name = report.path.relative_to(directory)
    typer.echo(f"{name}: {report.size:,} bytes, {counts}".removesuffix(", "))
    for problem in report.problems:
        typer.echo(f"    {problem}")


def _give_up(reason: str) -> NoReturn:
    typer.echo(f"leveret: {reason}", err=True)
    sys.exit(EXIT_CANNOT)
