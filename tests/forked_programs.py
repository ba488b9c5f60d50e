"""Programs of Leveret that tests start by a fork of a process that has imported them already.

To import its modules takes a second of processor time, and is most of the start of a node on a busy
machine; tests start hundreds of them. A forked node has a process, files, ports and an end of its
own, as one that is started by its command has. Tests of the start itself run the command.

    node = start_program("leveret", "serve", "--port", "5672", output=file)
    node.send_signal(signal.SIGTERM)
    assert node.wait(PATIENCE_SECONDS) == 0

This file is both sides: what tests call, and, run as a program, the process that forks
(`ForkingProcess`). There is one for each process of tests. It gets each start as one message of a
socket with the files of the program's output, and a socket on which it tells the number of the
process, and later its exit code. It ends when the tests' process ends; what it has started does
not.
"""

import atexit
import ctypes
import functools
import gc
import importlib
import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from leveret.compiled import PURE_VARIABLE
from leveret.mgmt.ctl.index import all_commands
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[1]
MESSAGE_MAX, FILES_MAX = 200_000, 3
NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of setns(2)."""
PROGRAMS = {
    "leveret": (
        "leveret.mgmt.cli.entry",
        "leveret.mgmt.cli.serve_command",
        "leveret.mgmt.perf.perf_command",
    ),
    "leveretctl": ("leveret.mgmt.ctl.leveretctl",),
    "leveret-ending-at-a-step": ("tests.cluster.ending_at_a_step",),
}
"""The module whose `main` each program is, and others to import."""
STARTING = threading.Lock()


class Start(NamedTuple):
    """What a program is started with. is_in_network: whether a file of a network comes with it."""

    program: str
    words: list[str]
    environment: dict[str, str]
    directory: str
    is_in_network: bool


class ForkedProgram:
    """A program that runs, used as a `subprocess.Popen` is."""

    def __init__(self, command: list[str], status: socket.socket) -> None:
        self.args = command
        self._status = status
        self.pid = int(self._told())
        self.returncode: int | None = None

    def _told(self) -> bytes:
        told = self._status.recv(20)
        assert told, f"the process that forks programs has ended: {self.args}"
        return told

    def poll(self) -> int | None:
        """The exit code, or the negative number of the signal; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired after these seconds."""
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            self._status.settimeout(seconds)
            with suppress(BlockingIOError, TimeoutError):
                self.returncode = int(self._told())
                self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start_program(
    program: str,
    *words: object,
    output: Any,
    errors: Any = None,
    environment: dict[str, str] | None = None,
    network: str = "",
    sources: Path = ROOT,
) -> ForkedProgram | subprocess.Popen[bytes]:
    """Start a program. output, errors: open files; errors go to the output if there is no other.

    environment: by default this process's; with other variables of Python the program is not forked
    but started by its command, since they say what is imported. network: the file of a network
    namespace. sources: of an earlier version, which has only the program "leveret"
    (tests/earlier_version.py).
    """
    command = [str(word) for word in words]
    variables = dict(os.environ if environment is None else environment)
    if _of_imports(variables) != _of_imports(os.environ):
        entering = ["nsenter", f"--net={network}", "--"] if network else []
        return subprocess.Popen(
            [*entering, sys.executable, "-m", PROGRAMS[program][0], *command], stdout=output,
            stderr=output if errors is None else errors, env=variables,
        )  # fmt: skip
    start = Start(program, command, variables, os.getcwd(), bool(network))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    files = [theirs.fileno(), output.fileno(), (output if errors is None else errors).fileno()]
    if network:
        files.append(os.open(network, os.O_RDONLY))
    try:
        socket.send_fds(_requests(sources), [json.dumps(start).encode()], files)
    finally:
        theirs.close()
        if network:
            os.close(files[-1])
    return ForkedProgram([program, *command], ours)


class PipedProgram:
    """A program that runs, and what it prints. stdout, stderr: open files of text."""

    def __init__(self, program: str, *words: object) -> None:
        (out, output), (err, errors) = os.pipe(), os.pipe()
        with open(output, "wb") as to_stdout, open(errors, "wb") as to_stderr:
            self.process = start_program(program, *words, output=to_stdout, errors=to_stderr)
        self.stdout, self.stderr = open(out), open(err)  # noqa: SIM115

    @property
    def returncode(self) -> int | None:
        """The exit code; None while it runs."""
        return self.process.poll()

    def kill(self) -> None:
        """End it, and wait for its end."""
        self.process.kill()
        self.wait()

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def communicate(self) -> tuple[str, str]:
        """Wait for the end; what it has printed since, and its errors."""
        with self.stdout, self.stderr:
            printed = self.stdout.read(), self.stderr.read()
        self.wait()
        return printed


def _of_imports(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that say what a program imports."""
    read = ("PYTHON", PURE_VARIABLE)
    return {name: value for name, value in environment.items() if name.startswith(read)}


def run_program(
    program: str, *words: object, environment: dict[str, str] | None = None, network: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and return what it printed."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        running = start_program(
            program, *words, output=output, errors=errors, environment=environment, network=network
        )
        try:
            code = running.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            raise
        printed = [(file.seek(0), file.read())[1] for file in (output, errors)]
        return subprocess.CompletedProcess(running.args, code, *printed)


def _requests(sources: Path) -> socket.socket:
    """The socket on which the process that forks programs of these sources gets what to start."""
    with STARTING:
        return _forking_process(sources)[1]


@functools.cache
def _forking_process(sources: Path) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    programs = list(PROGRAMS)
    if sources != ROOT:
        # Python looks into the directory first: only `tests` are from here.
        variables["PYTHONPATH"] = str(ROOT)
        programs = ["leveret"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forked_programs", str(theirs.fileno()), *programs],
        cwd=sources, pass_fds=[theirs.fileno()], env=variables,
    )  # fmt: skip
    theirs.close()
    return process, ours


class ForkingProcess:
    """Forks programs until its socket is closed."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)

    def run(self) -> tuple[Start, list[int]] | None:
        """Serve. In a forked process, return what it is to run and its files; None at the end."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._requests:
                    self._tell_end(key)
                    continue
                message, files, _, _ = socket.recv_fds(self._requests, MESSAGE_MAX, 1 + FILES_MAX)
                if not message:
                    return None
                process = os.fork()
                if process == 0:
                    self._selector.close()
                    return Start(*json.loads(message)), files
                self._started(process, files)

    def _started(self, process: int, files: list[int]) -> None:
        for file in files[1:]:
            os.close(file)
        status = socket.socket(fileno=files[0])
        status.sendall(str(process).encode())
        self._selector.register(os.pidfd_open(process), selectors.EVENT_READ, (process, status))

    def _tell_end(self, key: selectors.SelectorKey) -> None:
        process, status = key.data
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        self._selector.unregister(key.fileobj)
        os.close(key.fd)
        # A test may have forgotten the program, which is no reason not to start others.
        with status, suppress(BrokenPipeError, ConnectionResetError):
            status.sendall(str(code).encode())


def become(start: Start, files: list[int]) -> Any:
    """Run a program in this process, which has been forked for it; return its exit code."""
    if start.is_in_network:
        library = ctypes.CDLL(None, use_errno=True)
        if library.setns(files[-1], NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "the network namespace cannot be entered")
    os.dup2(files[1], 1)
    os.dup2(files[2], 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    # Those of before remember whether one can seek in the files that they had.
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), errors="backslashreplace", write_through=True
    )
    os.environ.clear()
    os.environ.update(start.environment)
    os.chdir(start.directory)
    sys.argv = [start.program, *start.words]
    try:
        return importlib.import_module(PROGRAMS[start.program][0]).main()
    except SystemExit as ended:
        return ended.code


def end(code: Any) -> NoReturn:
    """End this process, which was forked, with the exit code of its program.

    Its threads and exit handlers end as always. But the modules are not taken apart: Python would
    write to most of the memory that it shares with the other processes, which takes 60 ms, three
    times as long as a command of leveretctl.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def main() -> None:
    """Import programs, then fork one for each message of the socket, a number of a file."""
    programs = sys.argv[2:]
    for module in (module for program in programs for module in PROGRAMS[program]):
        importlib.import_module(module)
    if "leveretctl" in programs:
        # Each command would import its own.
        all_commands()
    assert threading.active_count() == 1, "a thread would not be in forked processes"
    gc.collect()
    gc.freeze()
    requests = socket.socket(fileno=int(sys.argv[1]))
    forked = ForkingProcess(requests).run()
    requests.detach()
    if forked is not None:
        end(become(*forked))


if __name__ == "__main__":
    main()
