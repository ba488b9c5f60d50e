"""`make cluster`: three nodes on this machine, joined, with one log, and stopped together.

    python -m leveret.mgmt.cli.local_cluster [DIRECTORY]

Each node is `leveret serve` in a process of its own, with its data in a folder of the directory
(`cluster-data` by default). They find each other by a list in a configuration file. Each line of
their logs is preceded by the name of its node, in the node's colour on a terminal. When this
program is interrupted, or a node cannot start or continue, all nodes are stopped and awaited. If a
node is killed or stopped, the others keep running, and the command that starts it again is printed.
"""

import asyncio
import os
import secrets
import shlex
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
    """The configuration with the list of nodes, by which they find each other."""
    return "".join(
        f"cluster_formation.classic_config.nodes.{name} = {node_name(name)}:{LINK_PORT + number}\n"
        for number, name in enumerate(NODES)
    )


def command(number: int, directory: Path) -> list[str]:
    """The command that starts a node."""
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
    """The secret of the nodes, which is created at the first start."""
    path = directory / "cookie"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32))
    return path.read_text()


def by_hand(number: int, directory: Path) -> str:
    """The command line that starts a node again, from the same directory."""
    return f"LEVERET_COOKIE=$(cat {directory / 'cookie'}) {shlex.join(command(number, directory))}"


async def _follow(number: int, process: asyncio.subprocess.Process, directory: Path) -> bool:
    """Print a node's log until it ends. Returns whether it failed to start or to continue."""
    width = max(map(len, NODES))
    label = NODES[number].ljust(width)
    if sys.stdout.isatty():
        label = f"\033[{COLOURS[number]}m{label}\033[0m"
    assert process.stdout is not None
    async for line in process.stdout:
        print(label, line.decode(errors="replace").rstrip(), flush=True)
    code = await process.wait()
    how = f"was killed by signal {-code}" if code < 0 else f"has ended with the exit code {code}"
    print(f"{label} {how}; to start it again: {by_hand(number, directory)}", flush=True)
    return code > 0


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
    nodes = {
        asyncio.ensure_future(_follow(number, process, directory))
        for number, process in enumerate(processes)
    }
    has_failed = await _until_the_end(nodes, is_interrupted)
    for process in processes:
        if process.returncode is None:
            process.terminate()
    await asyncio.gather(*nodes)
    return int(has_failed)


async def _until_the_end(nodes: set[asyncio.Task[bool]], is_interrupted: asyncio.Event) -> bool:
    """Wait until this program is interrupted, or no node is left; or one fails: returns True."""
    interrupted = asyncio.ensure_future(is_interrupted.wait())
    running = nodes
    has_failed = False
    while running and not has_failed and not is_interrupted.is_set():
        waits_for = {interrupted, *running}
        await asyncio.wait(waits_for, return_when=asyncio.FIRST_COMPLETED)
        has_failed = any(node.done() and node.result() for node in running)
        running = {node for node in running if not node.done()}
    interrupted.cancel()
    return has_failed


if __name__ == "__main__":
    sys.exit(asyncio.run(run(Path(sys.argv[1] if len(sys.argv) > 1 else "cluster-data"))))
