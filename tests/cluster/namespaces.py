"""A network of hosts in namespaces of their own, whose connections a test cuts, delays and heals.

    with Network(3) as network:
        a, b, c = network.hosts
        subprocess.Popen([*a.prefix, "program", "--bind", a.address])
        network.cut([a], [b, c])
        network.heal()

The test's own process reaches all hosts, whatever is cut between them. Processes on hosts are ended
by the code that started them; the namespaces and devices are gone when the network is closed, or
when this process ends in any way.
"""

import os
import shutil
import subprocess
import sys
from itertools import count, product
from pathlib import Path
from typing import NamedTuple

from tests.patience import PATIENCE_SECONDS

PROGRAMS = ("ip", "nsenter", "unshare")
SWITCH = Path(__file__).with_name("packet_switch.py")
MTU = 16_000
NUMBERS, NETWORKS_MAX = count(), 32
"""A process has that many networks at a time, each with a subnet of its own."""


class Host(NamedTuple):
    """One host. network: the file of its network namespace; empty for this process's own."""

    address: str
    network: str = ""

    @property
    def prefix(self):
        """The beginning of a command line that runs on it."""
        return ("nsenter", f"--net={self.network}", "--") if self.network else ()


def why_not():
    """The reason why there can be no such network here; empty if there can be one."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} is not installed (Debian's iproute2 and util-linux)"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "there is no /dev/net/tun to use"
    tried = subprocess.run(
        ["unshare", "--net", "ip", "tuntap", "add", "mode", "tun", "name", "try"],
        capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    return "" if tried.returncode == 0 else f"namespaces are not permitted: {tried.stderr.strip()}"


class Network:
    """Hosts with the addresses 1 and up of a subnet that is this process's own."""

    def __init__(self, size):
        process, number = os.getpid(), next(NUMBERS) % NETWORKS_MAX
        block = 128 + (process >> 8) % 3 * NETWORKS_MAX
        subnet = f"10.{block + number}.{process % 256}"
        self._holders = []
        self._switch = subprocess.Popen(
            [sys.executable, SWITCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            self._attach(Host(f"{subnet}.254"), f"t{process % 10_000_000}n{number}")
            self.hosts = [self._make_host(f"{subnet}.{one}") for one in range(1, size + 1)]
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """Remove everything."""
        for process in (self._switch, *self._holders):
            process.stdin.close()
            process.wait(PATIENCE_SECONDS)
            process.stdout.close()

    # What happens between hosts

    def cut(self, *sides):
        """Nothing arrives from one side at another. A side is a list of hosts."""
        for side, other in product(sides, sides):
            if side is not other:
                self.cut_one_way(side, other)

    def cut_one_way(self, senders, receivers):
        """Nothing of the first hosts arrives at the others."""
        self.lose(senders, receivers, 1.0)

    def lose(self, senders, receivers, share):
        """A share of the packets is lost, in this direction."""
        self._set(senders, receivers, share, 0.0)

    def delay(self, senders, receivers, seconds):
        """Packets arrive later by this time, in this direction."""
        self._set(senders, receivers, 0.0, seconds)

    def worsen(self, senders, receivers, share, seconds):
        """In both directions a share of the packets is lost, and the others arrive later."""
        self._set(senders, receivers, share, seconds)
        self._set(receivers, senders, share, seconds)

    def heal(self):
        """Everything arrives, at once."""
        self._tell("heal")

    def _set(self, senders, receivers, share, seconds):
        for sender, receiver in product(senders, receivers):
            if sender != receiver:
                self._tell("set", sender.address, receiver.address, share, seconds)

    # Making hosts

    def _make_host(self, address):
        # It ends when its standard input is closed, also by the end of this process.
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._holders.append(holder)
        holder.stdout.readline()
        host = Host(address, f"/proc/{holder.pid}/ns/net")
        self._attach(host, "host")
        return host

    def _attach(self, host, device):
        self._tell("attach", host.address, host.network or f"/proc/{os.getpid()}/ns/net", device)
        batch = f"addr add {host.address}/24 dev {device}\nlink set {device} mtu {MTU} up\n"
        if host.network:
            batch += "link set lo up\n"
        subprocess.run(
            [*host.prefix, "ip", "-batch", "-"], input=batch, text=True, check=True,
            timeout=PATIENCE_SECONDS,
        )  # fmt: skip

    def _tell(self, *words):
        self._switch.stdin.write(" ".join(map(str, words)) + "\n")
        self._switch.stdin.flush()
        assert self._switch.stdout.readline() == "done\n", "the packet switch has ended"
