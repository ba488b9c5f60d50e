"""The Debian package on releases of Debian that run: installed, used, upgraded, removed, purged.

It is built in each release, in pure Python unless LEVERET_BUILD says otherwise; or LEVERET_PACKAGES
names a directory that has it. Needs root, debootstrap and the network.
"""

import os
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from tests.packaging.debian_system import Layer, Machine, build_package, call

RELEASES = {"bookworm": "deb12", "trixie": "deb13"}
"""Their names, and what the versions of their packages end with."""
PACKAGES = os.environ.get("LEVERET_PACKAGES")
UNIT = "/usr/lib/systemd/system/leveret.service"
OLDER = "0.0.9~older"
PUBLISH = """
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"kept", pika.BasicProperties(delivery_mode=2), mandatory=True)
"""
TAKE = 'assert channel.basic_get("q", auto_ack=True)[2] == b"kept"'
COMPLETE = """
source /usr/share/bash-completion/completions/leveretctl
COMP_LINE="leveretctl list_que" COMP_WORDS=(leveretctl list_que) COMP_CWORD=1
COMP_POINT=${#COMP_LINE}
_leveretctl
echo "${COMPREPLY[*]}"
"""

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("debootstrap"), reason="needs root and debootstrap"
    ),
]


@pytest.fixture(scope="module", params=RELEASES)
def release(request):
    return request.param


@pytest.fixture(scope="module")
def package(release):
    """The package of a release."""
    if PACKAGES:
        (found,) = Path(PACKAGES).glob(f"leveret_*~{RELEASES[release]}_*.deb")
        return found
    return build_package(release, LEVERET_BUILD=os.environ.get("LEVERET_BUILD", "pure"))


@pytest.fixture(scope="module")
def older(package, tmp_path_factory):
    """The same package with the number of an earlier version."""
    directory = tmp_path_factory.mktemp("older")
    call("dpkg-deb", "--raw-extract", package, directory / "root")
    control = directory / "root/DEBIAN/control"
    lines = control.read_text().splitlines()
    control.write_text("".join(
        f"Version: {OLDER}\n" if line.startswith("Version: ") else f"{line}\n" for line in lines
    ))  # fmt: skip
    call("dpkg-deb", "-Znone", "--build", directory / "root", directory / "older.deb")
    return directory / "older.deb"


@pytest.fixture
def machine(release, package, older, tmp_path):
    machine = Machine(release, tmp_path)
    shutil.copy(package, machine.files / "new.deb")
    shutil.copy(older, machine.files / "older.deb")
    yield machine
    machine.shut_down()


def use(machine, code):
    """Run a program with pika on the machine's network. code: what it does with a channel."""
    program = (
        "import pika\n"
        "with pika.BlockingConnection(pika.ConnectionParameters('127.0.0.1')) as connection:\n"
        "    channel = connection.channel()\n"
    ) + textwrap.indent(textwrap.dedent(code), "    ")
    machine.run_with_its_network(sys.executable, "-c", program)


def shown(machine, *command, check=True):
    return machine.run(*command, check=check).stdout.strip()


def fact(machine, name):
    """A property of the unit."""
    return shown(machine, "systemctl", "show", "--value", f"--property={name}", "leveret")


def state(machine, question="is-active"):
    return shown(machine, "systemctl", question, "leveret", check=False)


def test_a_new_package_serves_clients(machine):
    machine.run("dpkg", "--install", "/new.deb")
    assert (state(machine), state(machine, "is-enabled")) == ("active", "enabled")
    assert shown(machine, "systemd-analyze", "verify", UNIT) == ""
    process = fact(machine, "MainPID")
    assert shown(machine, "stat", "--format=%U", f"/proc/{process}") == "leveret"
    use(machine, PUBLISH)
    assert "q\t1" in shown(machine, "leveretctl", "list_queues", "name", "messages")
    owner = ("stat", "--format=%U %a", "/var/lib/leveret", "/var/log/leveret", "/etc/leveret")
    assert shown(machine, *owner).splitlines() == ["leveret 750"] * 3
    assert shown(machine, "ls", "/var/lib/leveret/metadata.sqlite")
    assert " ready in " in shown(machine, "journalctl", "--unit=leveret", "--output=cat")
    machine.run("systemctl", "restart", "leveret")
    use(machine, TAKE)
    machine.run("systemctl", "stop", "leveret")
    assert fact(machine, "Result") == "success"


def test_commands_of_the_package_find_the_node(machine):
    machine.run("dpkg", "--install", "/new.deb")
    assert shown(machine, "bash", "-c", COMPLETE) == "list_queues"
    assert "rabbitmq_mqtt" in shown(machine, "leveret-plugins", "enable", "rabbitmq_mqtt")
    assert shown(machine, "cat", "/etc/leveret/enabled_plugins") == "[rabbitmq_mqtt]."
    machine.run("systemctl", "restart", "leveret")
    assert "mqtt" in shown(machine, "leveretctl", "listeners")
    machine.run("runuser", "-u", "leveret", "leveretctl", "status")


def test_settings_are_used_and_a_wrong_one_is_named(machine):
    machine.run("dpkg", "--install", "/new.deb")
    settings = machine.files / "etc/leveret/rabbitmq.conf"
    settings.write_text("log.dir = /var/log/leveret\nlog.file = leveret.log\n")
    machine.run("systemctl", "restart", "leveret")
    assert " ready in " in shown(machine, "cat", "/var/log/leveret/leveret.log")
    settings.write_text("heartbeet = 3\n")
    assert machine.run("systemctl", "restart", "leveret", check=False).returncode != 0
    assert "'heartbeet'" in shown(machine, "journalctl", "--unit=leveret", "--output=cat")


def test_an_upgrade_keeps_settings_and_messages_and_restarts_the_node(machine):
    machine.run("dpkg", "--install", "/older.deb")
    (machine.files / "etc/leveret/rabbitmq.conf").write_text("heartbeat = 33\n")
    use(machine, PUBLISH)
    before = fact(machine, "MainPID")
    machine.run("dpkg", "--install", "/new.deb")
    assert state(machine) == "active"
    assert fact(machine, "MainPID") != before
    assert shown(machine, "cat", "/etc/leveret/rabbitmq.conf") == "heartbeat = 33"
    use(machine, TAKE)


def test_a_unit_that_was_disabled_is_not_started_by_an_upgrade(machine):
    machine.run("dpkg", "--install", "/older.deb")
    machine.run("systemctl", "disable", "--now", "leveret")
    machine.run("dpkg", "--install", "/new.deb")
    assert (state(machine), state(machine, "is-enabled")) == ("inactive", "disabled")


def test_a_removed_package_leaves_data_and_a_purged_one_leaves_nothing(machine):
    machine.run("dpkg", "--install", "/new.deb")
    use(machine, PUBLISH)
    machine.run("dpkg", "--remove", "leveret")
    assert state(machine) == "inactive"
    assert not (machine.files / "usr/lib/leveret").exists()
    machine.run("dpkg", "--install", "/new.deb")
    use(machine, TAKE)
    machine.run("dpkg", "--purge", "leveret")
    names = ("/var/lib/leveret", "/var/log/leveret", "/etc/leveret", "/usr/lib/leveret")
    assert not [name for name in names if (machine.files / name[1:]).exists()]
    assert shown(machine, "id", "-un", "leveret") == "leveret"


def test_lintian_finds_no_errors(release, package):
    layer = Layer(release, "lintian")
    layer.install("lintian")
    shutil.copy(package, layer.changed / "new.deb")
    layer.run("lintian", "--fail-on", "error", "--allow-root", "/new.deb")
