"""A network of its own for a test, with hosts on it, made of Linux namespaces: needs root.

The test's thread and each host have a network namespace; a bridge in that of the test connects
them. A host is one program, with its own name, its own `/etc`, and files mounted where it wants
them. Nothing of this is seen outside, and all of it is gone with the last process.
"""

import ctypes
import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

CLONE_NEWNET = 0x40000000
PREFIX_BITS = 24
PREPARE = """
set -e
read -r _
hostname "$1"; address=$2; hosts=$3; shift 3
ip link set lo up
ip address add "$address" dev eth0
ip link set eth0 up
mount -t tmpfs tmpfs /var/lib
for directory in /etc /usr/local/etc; do
    mkdir -p "/var/lib/copies$directory"
    cp -a "$directory/." "/var/lib/copies$directory"
    mount --bind "/var/lib/copies$directory" "$directory"
done
cp "$hosts" /etc/hosts
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir -p "$2"; else mkdir -p "$(dirname "$2")"; touch "$2"; fi
    mount --bind "$1" "$2"
    if [ "$3" = ro ]; then mount -o remount,bind,ro "$2"; fi
    shift 3
done
shift
exec "$@"
"""
"""Prepares a host for its program. Directories in which files are mounted are copies in memory."""


class NoPermission(Exception):
    """The test cannot make namespaces; the text says why."""


def _call(function, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise NoPermission(f"{function}: {os.strerror(number)}")


def run(*command):
    """Run a program of the system. Raises NoPermission with its error, or if there is none."""
    try:
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=False,
            timeout=PATIENCE_SECONDS,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise NoPermission(f"{command[0]} is not installed") from error
    if done.returncode:
        raise NoPermission(f"{' '.join(map(str, command))}: {done.stderr.strip()}")


@contextmanager
def isolated_network(gateway):
    """Have this thread in a network of its own, in which it has an address. Raises NoPermission."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _call("unshare", CLONE_NEWNET)
        try:
            run("ip", "link", "set", "lo", "up")
            run("ip", "link", "add", "bridge", "type", "bridge")
            run("ip", "address", "add", f"{gateway}/{PREFIX_BITS}", "dev", "bridge")
            run("ip", "link", "set", "bridge", "up")
            yield
        finally:
            _call("setns", before, CLONE_NEWNET)
    finally:
        os.close(before)


class Host:
    """One program on the network. mounts: sources, targets, and whether they are read-only."""

    def __init__(self, name, address, hosts_file, mounts, command, environment, log):
        self.name = name
        self.address = address
        self._hosts_file = hosts_file
        self._mounts = mounts
        self._command = command
        self._environment = environment
        self._log = Path(log)
        self.process = None

    def start(self):
        """Start the program."""
        mounts = [
            word
            for source, target, is_read_only in self._mounts
            for word in (source, target, "ro" if is_read_only else "rw")
        ]
        command = [
            "setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--uts", "sh", "-c",
            PREPARE, "sh", self.name, f"{self.address}/{PREFIX_BITS}", self._hosts_file, *mounts,
            "--", *self._command,
        ]  # fmt: skip
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                list(map(str, command)), stdin=subprocess.PIPE, stdout=log, stderr=log,
                env=self._environment,
            )  # fmt: skip
        self._connect()
        self.process.stdin.write(b"go\n")
        self.process.stdin.close()

    def _connect(self):
        """Give it an interface on the bridge, once it has a network of its own."""
        link, process_id = f"to-{self.address.rpartition('.')[2]}", self.process.pid
        ours = os.readlink("/proc/thread-self/ns/net")
        while os.readlink(f"/proc/{process_id}/ns/net") == ours:
            if self.process.poll() is not None:
                raise NoPermission(self.log)
            os.sched_yield()
        # A host that starts again has the same hardware address, as with Docker: the others have
        # it in their tables.
        octets = "".join(f":{int(octet):02x}" for octet in self.address.split("."))
        run(
            "ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "address",
            f"02:42{octets}", "netns", process_id,
        )  # fmt: skip
        run("ip", "link", "set", link, "master", "bridge", "up")

    @property
    def log(self):
        return self._log.read_text()

    def run(self, command, seconds_max):
        """Run another program on the host; what became of it."""
        inside = ["nsenter", "--target", self.process.pid, "--net", "--mount", "--uts", "--"]
        return subprocess.run(
            list(map(str, [*inside, *command])), capture_output=True, text=True, check=False,
            timeout=seconds_max, env=self._environment,
        )  # fmt: skip

    def stop(self, seconds_max):
        """End the program in order; its exit code. Its interface goes with it."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                return self.process.wait(seconds_max)
            finally:
                self.process.kill()
                self.process.wait(PATIENCE_SECONDS)
        return None
