"""`make cluster`: three nodes on this machine, joined, with one log, and stopped together.

    python -m leveret.mgmt.cli.local_cluster [DIRECTORY]

Each node is `leveret serve` in a process of its own, with its data in a folder of the directory
(`cluster-data` by default). They find each other by a list in a configuration file. Each line of
their logs is printed behind the name of its node, in the node's colour on a terminal. The nodes are
stopped, and waited for, when this program is interrupted or one of them has ended.
"""

import asyncio
import os
import secrets
import signal
import sys
from pathlib import Path

NODES = ("one", "two", "three")
HOST = "127.0.0.1"
PORT, MANAGEMENT_PORT, PROMETHEUS_PORT, LINK_PORT = 5672, 15672, 15692, 25672
"""Of the first node; the others have the numbers that follow."""
COLOURS = (32, 33, 36)
"""Codes of the terminal: green, yellow, cyan."""


def node_name(name: str) -> str:
    """Such as one@127.0.0.1."""
    return f"{name}@{HOST}"


def configuration() -> str:
    """The list of nodes by which they find each other."""
    return "".join(
        f"cluster_formation.classic_config.nodes.{name} = {node_name(name)}:{LINK_PORT + number}\n"
        for number, name in enumerate(NODES)
    )


def command(number: int, directory: Path) -> list[str]:
    """How a node is started."""
    name = NODES[number]
    options = {
        "--config": directory / "cluster.conf", "--data-dir": directory / name,
        "--node": node_name(name), "--bind": HOST, "--port": PORT + number,
        "--management-port": MANAGEMENT_PORT + number,
        "--prometheus-port": PROMETHEUS_PORT + number, "--cluster-port": LINK_PORT + number,
    }  # fmt: skip
    words = [str(word) for option in options.items() for word in option]
    return [sys.executable, "-m", "leveret.mgmt.cli.entry", "serve", *words]


def cookie(directory: Path) -> str:
    """The secret of the nodes, which is made at the first start."""
    path = directory / "cookie"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32))
    return path.read_text()


async def _print_log(number: int, process: asyncio.subprocess.Process) -> None:
    """Print a node's log until it ends."""
    width = max(map(len, NODES))
    label = NODES[number].ljust(width)
    if sys.stdout.isatty():
        label = f"\033[{COLOURS[number]}m{label}\033[0m"
    assert process.stdout is not None
    async for line in process.stdout:
        print(label, line.decode(errors="replace").rstrip(), flush=True)


async def run(directory: Path) -> int:
    """Run the nodes until one ends or this program is interrupted; the exit code."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "cluster.conf").write_text(configuration())
    environment = {**os.environ, "LEVERET_COOKIE": cookie(directory)}
    is_interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, is_interrupted.set)
    processes = [
        await asyncio.create_subprocess_exec(
            *command(number, directory), env=environment, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )
        for number in range(len(NODES))
    ]  # fmt: skip
    logs = [
        asyncio.ensure_future(_print_log(number, process))
        for number, process in enumerate(processes)
    ]
    interrupted = asyncio.ensure_future(is_interrupted.wait())
    await asyncio.wait([interrupted, *logs], return_when=asyncio.FIRST_COMPLETED)
    has_failed = not is_interrupted.is_set()
    for process in processes:
        if process.returncode is None:
            process.terminate()
    await asyncio.gather(*logs, *(process.wait() for process in processes))
    interrupted.cancel()
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(asyncio.run(run(Path(sys.argv[1] if len(sys.argv) > 1 else "cluster-data"))))
