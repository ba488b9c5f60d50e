"""Replicated queues under faults: nothing that was confirmed is missing, whatever happens to nodes.

    python -m tests.jepsen.run --minutes 30 --seed 7
    python -m tests.jepsen.run --mode autoheal --nodes 5 --seed 7
    python -m tests.jepsen.run --queues quorum --mode ignore
    python -m tests.jepsen.run --queues stream --mode autoheal
    python -m tests.jepsen.run --queues stream --power-cuts
    python -m tests.jepsen.run --queues mqtt
    python -m tests.jepsen.run --queues amqp10

Publishers and consumers use several queues at all nodes of a cluster, while the faults of a plan
happen, which follows from the seed. In the end all queues are drained. Each confirmed message has
to be consumed, or, with `autoheal` and `ignore`, in a file of discarded messages. It needs root,
for the networks. With `--power-cuts` each node has a disk of its own, whose power is cut: what was
not synced is gone. Replicas of streams are added and deleted all the time.
"""

import argparse
import asyncio
import contextlib
import logging
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from leveret.cluster.partitions.leftovers.files import DiscardedReader, files
from leveret.cluster.partitions.leftovers.records import MessageRecord
from tests.cluster.clustered_nodes import ClusteredNode
from tests.cluster.hosted_nodes import AMQP_PORT, Cluster
from tests.cluster.namespaces import why_not
from tests.jepsen.account import SHOWN, Account
from tests.jepsen.clients import Clients
from tests.jepsen.membership import Membership
from tests.jepsen.nemesis import Nemesis, NotWhole
from tests.jepsen.plan import AUTOHEAL, FULL_DISK, IGNORE, MODES, PAUSE_IF_ALL_DOWN, Fault, plan
from tests.jepsen.power import PowerDisk, power_disks
from tests.jepsen.queue_kinds import KINDS_OF_QUEUES, MIRRORED, QueueKind
from tests.patience import PATIENCE_SECONDS
from tests.small_disk import mounted

DISK_MEGABYTES = 192
UNDER_WAY_SHOWN = 20
PATIENCES_MAX = 3
"""How often that time is waited for, so that a run ends whose clients go round in circles."""


class Run(NamedTuple):
    """What a run is made of. tick_s: net_ticktime."""

    seed: int
    mode: str
    nodes: int
    seconds: float
    tick_s: int = 2
    queues: QueueKind = MIRRORED
    has_power_cuts: bool = False

    @property
    def letters(self) -> str:
        """The names of its nodes."""
        return "abcde"[: self.nodes]


class Outcome(NamedTuple):
    """problems: nothing, if all is well. figures: lines to print."""

    problems: list[str]
    figures: list[str]


def run(wanted: Run, directory: Path, tell: Callable[[str], object]) -> Outcome:
    """Make a cluster in a directory, and do all that the module says."""
    with contextlib.ExitStack() as stack:
        power: dict[Path, PowerDisk] = {}
        reason = ""
        if wanted.has_power_cuts:
            places = [directory / letter for letter in wanted.letters]
            power = stack.enter_context(power_disks(places, DISK_MEGABYTES))
        else:
            reason = stack.enter_context(mounted(directory / wanted.letters[-1], DISK_MEGABYTES))
        faults = plan(
            wanted.seed, wanted.letters, wanted.seconds, wanted.mode, wanted.tick_s,
            wanted.queues.survives_partitions, wanted.has_power_cuts,
        )  # fmt: skip
        if reason:
            faults = [fault for fault in faults if fault.kind != FULL_DISK]
        settings = _settings(wanted)
        cluster = stack.enter_context(
            Cluster(directory, wanted.nodes, *settings, tick_s=wanted.tick_s)
        )
        cluster.is_left_partitioned = wanted.mode == IGNORE
        return asyncio.run(_run(wanted, cluster, faults, directory, power, tell))


def _settings(wanted: Run) -> list[str]:
    settings = [f"cluster_partition_handling = {wanted.mode}", "disk_free_limit.absolute = 0"]
    settings += wanted.queues.settings
    if wanted.mode == PAUSE_IF_ALL_DOWN:
        settings.append("cluster_partition_handling.pause_if_all_down.nodes.1 = {a}")
    return settings


async def _run(
    wanted: Run, cluster: Cluster, faults: list[Fault], directory: Path,
    power: dict[Path, PowerDisk], tell: Callable[[str], object],
) -> Outcome:  # fmt: skip
    account = wanted.queues.account()
    begun = time.monotonic()

    def timed(line: str) -> None:
        tell(f"{time.strftime('%H:%M:%S')} {time.monotonic() - begun:7.2f} {line}")

    kind = wanted.queues
    await asyncio.to_thread(kind.declare, cluster)
    urls = {
        node.name[0]: f"amqp://guest:guest@{node.host.address}:{AMQP_PORT}/"
        for node in cluster.nodes
    }
    clients = kind.clients(
        urls, kind.names, account, wanted.seed, lambda: kind.depth(cluster.nodes)
    )
    nemesis = Nemesis(cluster, account.events, directory / wanted.letters[-1], timed, power)
    membership = Membership(cluster.nodes, kind.super_stream, Random(wanted.seed))
    problems = []
    clients.start()
    changing = asyncio.ensure_future(membership.change())
    try:
        await asyncio.to_thread(nemesis.run, faults)
        changing.cancel()
        await _patiently(clients.stop_publishing(), clients, account)
        timed("the queues are drained")
        await _patiently(clients.drain(), clients, account)
    except NotWhole as error:
        problems.append(str(error))
    except TimeoutError:
        waiting = ", ".join(clients.under_way[:UNDER_WAY_SHOWN])
        problems.append(f"publishers, or consumers, wait for ever, for {waiting}")
        problems += await asyncio.to_thread(kind.states, cluster.nodes)
    if wanted.mode in (AUTOHEAL, IGNORE):
        # Only these modes have a side that loses what was confirmed.
        for node in cluster.nodes:
            account.discarded |= set(_discarded(node.data_dir))
    problems += account.problems(is_exact=kind.is_exact) + clients.problems()
    problems += _where_they_are(account.missing, cluster.nodes)
    if not account.confirmed:
        problems.append("nothing was confirmed")
    problems += _errors(directory)
    figures = _figures(account, nemesis, begun)
    if kind.super_stream:
        figures.append(f"replicas were added or deleted {membership.changes} times")
    return Outcome(problems, [*figures, *account.more_figures()])


async def _patiently(steps: Awaitable[None], clients: Clients, account: Account) -> None:
    """Wait for what clients do. Raises TimeoutError if nothing comes to them for a long time."""
    task = asyncio.ensure_future(steps)
    for _ in range(PATIENCES_MAX):
        before = _progress(clients, account)
        done, _ = await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
        if done:
            return task.result()
        if _progress(clients, account) == before:
            break
    task.cancel()
    raise TimeoutError


def _progress(clients: Clients, account: Account) -> tuple[object, ...]:
    return len(account.confirmed), account.consumed.total(), clients.under_way


def _discarded(data_dir: Path) -> Iterator[str]:
    """The messages in files of discarded ones."""
    for path in files(data_dir):
        reader = DiscardedReader(path)
        while records := reader.read():
            for record in records:
                if isinstance(record, MessageRecord):
                    yield bytes(record.body).split(b" ", 1)[0].decode()
        reader.close()


def _where_they_are(missing: set[str], nodes: Sequence[ClusteredNode]) -> list[str]:
    """The nodes that have missing messages on their disks, whatever these count as there."""
    found = []
    for message in sorted(missing)[:SHOWN]:
        body = f"{message} ".encode()
        having = [
            node.name
            for node in nodes
            if any(body in path.read_bytes() for path in node.data_dir.rglob("*") if path.is_file())
        ]
        found.append(f"{message} is on the disk of {', '.join(having) or 'no node'}")
    return found


def _errors(directory: Path) -> list[str]:
    """Errors of the program in logs."""
    return [
        f"{path.name} has an error of the program: {path}"
        for path in sorted(directory.glob("*.log"))
        if "Traceback" in path.read_text()
    ]


def _figures(account: Account, nemesis: Nemesis, begun: float) -> list[str]:
    return [
        f"published {len(account.published)}, confirmed {len(account.confirmed)}, consumed "
        f"{len(account.consumed)}, again {account.duplicates}, discarded {len(account.discarded)}",
        f"doubled {len(account.doubled)}, out of order {len(account.disordered)}",
        *(
            f"stood still {one.seconds:.2f} s at {one.at_s - begun:.2f} ({one.queue}): {one.after}"
            for one in account.standstills()
        ),
        *(f"back after {seconds:.2f} s: {what}" for seconds, what in sorted(nemesis.returns)[::-1]),
    ]


def main() -> None:
    """Read the options, run, and report."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--minutes", type=float, default=5.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--mode", choices=MODES, default=MODES[0])
    options.add_argument("--nodes", type=int, choices=(2, 3, 4, 5), default=3)
    options.add_argument("--ticktime", type=int, default=2)
    options.add_argument("--queues", choices=KINDS_OF_QUEUES, default="mirrored")
    options.add_argument("--power-cuts", action="store_true")
    chosen = options.parse_args()
    if reason := why_not():
        sys.exit(f"there can be no network to cut: {reason}")
    wanted = Run(
        chosen.seed, chosen.mode, chosen.nodes, 60 * chosen.minutes, chosen.ticktime,
        KINDS_OF_QUEUES[chosen.queues], chosen.power_cuts,
    )  # fmt: skip
    directory = Path(tempfile.mkdtemp(prefix="jepsen-"))
    print(wanted, "logs and data are in", directory, flush=True)
    logging.disable(logging.CRITICAL)
    outcome = run(wanted, directory, lambda line: print(line, flush=True))
    print(*outcome.figures, *outcome.problems, sep="\n")
    sys.exit(bool(outcome.problems))


if __name__ == "__main__":
    main()
