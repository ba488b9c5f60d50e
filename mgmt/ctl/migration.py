"""Commands that move a running broker to this node, or this node to another broker.

`migrate` shows its plan, imports the definitions, links the queues, and follows until the source is
empty. It may be broken off at any time: the links run on, and `migrate` goes on where it was. The
password of the other broker is asked for, or read from a file or the environment; it is kept in the
parameters of the links, as those of shovels are, and nowhere else.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Final

from leveret.broker.amqp.uri import without_credentials
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import (
    DATA_ERROR,
    INTERRUPTED,
    TIMED_OUT,
    USAGE,
    CtlError,
    bad_argument,
    failure,
)
from leveret.mgmt.ctl.migrating.asking import is_agreed, password_of
from leveret.mgmt.ctl.migrating.brokers import MigrationBroker
from leveret.mgmt.ctl.migrating.migration import Migration
from leveret.mgmt.ctl.migrating.other_broker import OtherBroker, checked_management, checked_uri
from leveret.mgmt.ctl.migrating.progress import (
    PAUSE_SECONDS,
    import_progress,
    looks,
    pause,
    progress,
)
from leveret.mgmt.ctl.migrating.state import (
    BACK,
    IMPORTING,
    IN,
    NONE,
    MigrationState,
    OnlyRun,
    load,
)
from leveret.mgmt.ctl.migrating.table import COLUMNS, plan_lines, rows, summary

MIGRATION: Final = "Migration"
PAUSE_FACTOR: Final = 5
"""A look at very many queues takes long. The pause after it is longer by this factor."""
_PATIENCE: Final = "--timeout <seconds> lets each request take longer"


@command("migrate", "[<uri> --management <url>] [--password-file <file_path>] [--back] "
         "[--links <number>] [--yes] [--no-wait] [--dry-run]",
         "Moves definitions, messages and programs from another broker to this node, or with "
         "--back from this node to it; goes on with a migration that was broken off",
         MIGRATION, "management=", "password-file=", "back", "links=#", "yes", "wait",
         counts=(0, 1))  # fmt: skip
def migrate(ctl: CommandRun) -> None:
    """Begin a migration after showing its plan, or go on with one, and follow it."""
    here = _here(ctl)
    there = load(here)
    wanted = _wanted(ctl, there)
    other = _other(ctl, wanted)
    if there is not None and (there.uri, there.management) != (wanted.uri, wanted.management):
        other.require_rights()
        if other.cluster() != there.cluster:
            raise _other_migration(there)
    if there is not None and there.step != IMPORTING:
        ctl.banner(
            f"Going on with the migration {there.between}, which is at the step '{there.step}' ..."
        )
        if not _is_dry_run(ctl):
            with _carrying_out(here, other, wanted) as migration:
                migration.resume()
                _link_and_follow(ctl, migration)
        return
    _begin(ctl, here, other, wanted)


def _begin(
    ctl: CommandRun, here: MigrationBroker, other: OtherBroker, wanted: MigrationState
) -> None:
    """Show the plan, ask, import, link and follow."""
    is_dry_run = _is_dry_run(ctl)
    with _carrying_out(here, other, wanted, is_alone=not is_dry_run) as migration:
        plan = migration.plan()
        for line in plan_lines(plan, wanted, is_all=is_dry_run):
            ctl.out(line)
        if is_dry_run or not (ctl.options.get("yes") or is_agreed(ctl.out)):
            return
        ctl.out("Importing the definitions ...")
        for refused in migration.import_definitions(plan, import_progress(ctl.out)):
            ctl.out(f"Not imported: {refused}")
        ctl.out("The definitions are imported.")
        _link_and_follow(ctl, migration)


def _wanted(ctl: CommandRun, there: MigrationState | None) -> MigrationState:
    """The migration that the arguments ask for, or the one that there is. Raises CtlError."""
    uri, management = ctl.argument(0), str(ctl.options.get("management") or "")
    is_back = bool(ctl.options.get("back"))
    wanted = MigrationState(uri, management, way=BACK if is_back else IN)
    if there is not None:
        if is_back != (there.way == BACK) and (uri or is_back):
            raise _other_migration(there)
        wanted = replace(there, uri=uri or there.uri, management=management or there.management)
    if "links" in ctl.options:
        wanted = replace(wanted, links_max=int(ctl.options["links"]))
    _check(wanted)
    return wanted


def _check(wanted: MigrationState) -> None:
    """Raise CtlError for arguments that are missing or wrong."""
    uri, management = wanted.uri, wanted.management
    if wanted.links_max < 1:
        raise bad_argument("--links must be at least 1")
    if not uri or not management:
        missing = "say where the other broker is" if not uri else "--management is missing"
        raise failure(f"{missing}: migrate amqp://user@old --management http://old:15672", USAGE)
    checked_uri(uri)
    checked_management(management)


def _other_migration(there: MigrationState) -> CtlError:
    """The error for arguments that name another migration than the one that there is."""
    return failure(
        f"a migration {there.between} is not ended: 'leveretctl migrate' goes on with it, and "
        "finish_migration or roll_back_migration ends it", DATA_ERROR,
    )  # fmt: skip


def _here(ctl: CommandRun) -> MigrationBroker:
    return MigrationBroker(ctl.client, f"this node, {ctl.node}")


def _other(ctl: CommandRun, state: MigrationState) -> OtherBroker:
    path = str(ctl.options.get("password_file") or "")
    password = password_of(checked_uri(state.uri), without_credentials(state.uri), path)
    timeout_s = ctl.options.get("timeout")
    return OtherBroker(state.uri, state.management, password, timeout_s)


def _is_dry_run(ctl: CommandRun) -> bool:
    return bool(ctl.options.get("dry_run"))


@contextmanager
def _carrying_out(
    here: MigrationBroker, other: OtherBroker, state: MigrationState, *, is_alone: bool = True
) -> Iterator[Migration]:
    """Be the only process that does, if `is_alone`. An error says what to do next."""
    run = OnlyRun(here)
    migration = Migration(here, other, state, run)
    try:
        with run.alone() if is_alone else nullcontext():
            yield migration
    except CtlError as error:
        patience = f"{_PATIENCE}\n" if error.code == TIMED_OUT else ""
        text = f"{error.text}\n{patience}{_hint(migration)}"
        raise CtlError(text, error.code) from None
    except KeyboardInterrupt:
        raise CtlError(f"\nBroken off. {_hint(migration)}", INTERRUPTED) from None


def _hint(migration: Migration) -> str:
    """Where a migration is that has stopped, and what to do next."""
    step = migration.state.step
    if step == NONE:
        return "Nothing is changed"
    links = "the links go on moving messages" if step != IMPORTING else "nothing is linked yet"
    other = "migrate" if migration.is_returning else "roll_back_migration"
    return (
        f"The migration is at the step '{step}', and nothing is lost: {links}. Repeat the command "
        f"to go on, or turn round with 'leveretctl {other}'"
    )


def _link_and_follow(ctl: CommandRun, migration: Migration) -> bool:
    """Keep the links as needed until nothing is left; False if it is not waited for."""
    was_done = False
    found = looks(migration, ctl.out)
    with progress(ctl) as show:
        while True:
            started = time.monotonic()
            look = next(found)
            is_done = migration.is_done(look)
            if was_done and is_done:
                break
            show(look, migration.is_returning)
            if ctl.options.get("wait") is False:
                return False
            was_done = is_done
            pause_s = max(PAUSE_SECONDS, PAUSE_FACTOR * (time.monotonic() - started))
            pause(migration, look, migration.late_s() if is_done else pause_s, show)
    if not migration.is_returning:
        ctl.out("Nothing is left at the source: finish_migration ends the migration.")
    return True


def _running(ctl: CommandRun) -> tuple[MigrationBroker, OtherBroker, MigrationState]:
    here = _here(ctl)
    state = load(here)
    if state is None:
        raise failure("there is no migration: 'leveretctl migrate' begins one", DATA_ERROR)
    return here, _other(ctl, state), state


@command("migration_status", "[--password-file <file_path>]", "Displays what a migration has left "
         "where, by queue", MIGRATION, "password-file=")  # fmt: skip
def migration_status(ctl: CommandRun) -> None:
    """Show all queues. Nothing is changed."""
    here, other, state = _running(ctl)
    ctl.banner(f"Migration {state.between}, at the step '{state.step}' ...")
    migration = Migration(here, other, state, OnlyRun(here))
    look = migration.look()
    ctl.rows(rows(look, is_all=True), COLUMNS)
    if not ctl.is_quiet:
        ctl.out(summary(look, is_returning=migration.is_returning))


@command("finish_migration", "[--password-file <file_path>] [--force]", "Ends a migration once "
         "nothing is left at the source: removes the links, and takes over shovels and federation",
         MIGRATION, "password-file=", "force")  # fmt: skip
def finish_migration(ctl: CommandRun) -> None:
    """End the migration."""
    here, other, state = _running(ctl)
    ctl.banner("Finishing the migration ...")
    with _carrying_out(here, other, state) as migration:
        kept = migration.finish(also_connected=bool(ctl.options.get("force")))
    for line in kept:
        ctl.out(f"Not handed over: {line}")
    ctl.say("The migration is finished: nothing is left at the source")


@command("roll_back_migration", "[--password-file <file_path>] [--no-wait]", "Sends all messages "
         "of a migration back, and ends it", MIGRATION, "password-file=", "wait")  # fmt: skip
def roll_back_migration(ctl: CommandRun) -> None:
    """Reverse the links, follow until the target is empty, and end the migration."""
    here, other, state = _running(ctl)
    ctl.banner("Rolling the migration back ...")
    with _carrying_out(here, other, state) as migration:
        for line in migration.start_roll_back():
            ctl.out(f"Not handed back: {line}")
        if not _link_and_follow(ctl, migration):
            return
        streams = migration.end_roll_back()
    for queue in streams:
        ctl.out(
            f"Stream '{queue.place[1]}' in vhost '{queue.place[0]}' has messages at the target "
            "that the source has not"
        )
    ctl.say("The migration is rolled back. What was imported stays at the target")
