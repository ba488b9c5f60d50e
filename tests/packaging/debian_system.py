"""Releases of Debian in directories, and booted with their own systemd, to install the package in.

`base_system` unpacks a release with debootstrap, once, and keeps it in `build/debian`. A `Layer`
has what is changed in one, which stays as it is: `build_package` runs `make deb` in one, as
docs/operate/operations.md says. `Machine` boots a release, and what is changed there is in memory:
systemd is process 1 of namespaces of its own, with a network of its own, so that services start and
stop as on a machine. All of this needs root, and the first two the network.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from tests.patience import LOOK_SECONDS

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "debian"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = "systemd-sysv,adduser,ca-certificates,python3,libpcre2-8-0"
"""What the package needs, and systemd."""
TO_BUILD = ("make", "python3-venv", "gcc", "python3-dev", "libpcre2-8-0")
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive", "PIP_CERT": "/etc/ssl/certs/ca-certificates.crt",
}  # fmt: skip
CGROUPS = Path("/sys/fs/cgroup")
if (CGROUPS / "unified").is_dir():
    CGROUPS /= "unified"
SECONDS_MAX, BUILD_SECONDS_MAX = 300, 3600
BOOT = """
set -e
base=$1 changes=$2
ip link set lo up
mount -t tmpfs tmpfs "$changes"
mkdir "$changes/upper" "$changes/work" "$changes/root"
mount -t overlay -o "lowerdir=$base,upperdir=$changes/upper,workdir=$changes/work" \
    overlay "$changes/root"
cd "$changes/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for directory in dev run tmp; do mount -t tmpfs tmpfs "$directory"; done
mkdir dev/pts dev/shm run/before
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for node in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"
done
mknod -m 666 dev/tty c 5 0
pivot_root . run/before
exec chroot . sh -c 'umount -l /run/before; rmdir /run/before; exec /lib/systemd/systemd' \
    < dev/null > dev/null 2>&1
"""
"""Makes the root file system of a machine, and becomes its process 1."""
ENTER = """
set -e
base=$1 directory=$2 root=$2/root
shift 2
mount -t overlay -o "lowerdir=$base,upperdir=$directory/upper,workdir=$directory/work" \
    overlay "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs"
cp /etc/resolv.conf "$root/etc"
exec chroot "$root" "$@"
"""
"""Runs a command in a layer."""


def call(*command, seconds_max=SECONDS_MAX, check=True, **options):
    """Run a command; its result, with output and errors as one text."""
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=seconds_max, check=False, env=ENVIRONMENT, **options,
    )  # fmt: skip
    assert done.returncode == 0 or not check, f"{command}: {done.returncode}\n{done.stdout}"
    return done


def base_system(release):
    """The directory with a release, unpacked if it is not there yet."""
    directory = PLACE / release
    if not directory.exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        new = directory.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        call(
            "debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, new, MIRROR,
            seconds_max=BUILD_SECONDS_MAX,
        )  # fmt: skip
        new.rename(directory)
    return directory


class Layer:
    """A release with changes of its own, which are files below `changed`."""

    def __init__(self, release, name):
        self._base = base_system(release)
        self._directory = PLACE / f"{release}-{name}"
        shutil.rmtree(self._directory, ignore_errors=True)
        self.changed = self._directory / "upper"
        for name in ("upper", "work", "root"):
            (self._directory / name).mkdir(parents=True)

    def run(self, *command):
        """Run a command as in a container: with a /dev, and the network of this machine.

        A proxy on the way may have a certificate that only this machine trusts.
        """
        inside = ("unshare", "--fork", "--pid", "--mount", "sh", "-c", ENTER, "sh")
        return call(*inside, self._base, self._directory, *command, seconds_max=BUILD_SECONDS_MAX)

    def install(self, *packages):
        """Install packages of Debian."""
        self.run("apt-get", "--quiet=2", "update")
        self.run("apt-get", "--quiet=2", "install", "--yes", "--no-install-recommends", *packages)


def build_package(release, **environment):
    """Build the package in a release, from the files that Git knows here. Returns its file.

    environment: such as LEVERET_BUILD and CFLAGS.
    """
    layer = Layer(release, "build")
    layer.install(*TO_BUILD)
    source = layer.changed / "source"
    source.mkdir()
    files = call("git", "-C", ROOT, "ls-files", "-z").stdout
    archive = layer.changed / "source.tar"
    call("tar", "-C", ROOT, "--null", "-T", "-", "-cf", archive, input=files)
    call("tar", "-C", source, "-xf", archive)
    variables = [f"{name}={value}" for name, value in environment.items()]
    layer.run("env", *variables, "make", "-C", "/source", "deb")
    (package,) = (source / "build" / "deb").glob("*.deb")
    return package


class Machine:
    """A release, booted. It has no network but its loopback interface."""

    def __init__(self, release, directory):
        """directory: an empty one, for its use."""
        self._group = CGROUPS / f"leveret-test-{os.getpid()}"
        self._group.mkdir(exist_ok=True)
        enter = f'echo $$ > {self._group}/cgroup.procs; exec "$@"'
        self._process = subprocess.Popen(
            ["sh", "-c", enter, "sh", "setpriv", "--pdeathsig", "KILL",
             "unshare", "--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc", "--net",
             "--cgroup", "sh", "-c", BOOT, "sh", str(base_system(release)), str(directory)],
            env={**ENVIRONMENT, "container": "lxc"},
        )  # fmt: skip
        self._wait_until(lambda: self._first_process() is not None, "process 1 runs")
        self._wait_until(lambda: self._state() in ("running", "degraded"), "it has booted")

    @property
    def files(self):
        """Its root directory, as this machine sees it."""
        return Path(f"/proc/{self._first_process()}/root")

    def _first_process(self):
        path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        children = path.read_text().split()
        assert self._process.poll() is None, "the machine has ended"
        if children and Path(f"/proc/{children[0]}/comm").read_text() == "systemd\n":
            return int(children[0])
        return None

    def _state(self):
        return self.run("systemctl", "is-system-running", check=False).stdout.strip()

    def _wait_until(self, condition, what):
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < deadline, f"waited until {what}"
            time.sleep(LOOK_SECONDS)

    def run(self, *command, check=True):
        """Run a command on it, as root."""
        inside = ("nsenter", "--target", self._first_process(), "--all", "--wdns=/", "--")
        return call(*inside, *command, check=check)

    def run_with_its_network(self, *command):
        """Run a program of this machine on its network."""
        return call("nsenter", "--target", self._first_process(), "--net", "--", *command)

    def shut_down(self):
        """End all its processes."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(SECONDS_MAX)
        self._wait_until(self._is_gone, "its processes are gone")

    def _is_gone(self):
        groups = sorted(self._group.rglob("*/"), key=lambda path: -len(path.parts))
        try:
            for group in (*groups, self._group):
                group.rmdir()
        except OSError:
            return False
        return True
