"""The scripts of the Debian package, on a directory in place of the system and its commands.

The commands are programs that note how they were called. test_debian_package.py installs the
package on real systems.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS

DEBIAN = Path(__file__).resolve().parents[2] / "debian"
COMMANDS = ("adduser", "chown", "deb-systemd-helper", "deb-systemd-invoke", "systemctl")
NOTE_CALL = """#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
case "$*" in *was-enabled*) exit "$DISABLED" ;; esac
"""
NEW, UPGRADED = ("configure", ""), ("configure", "0.0.9")


class System:
    """A root directory, with the files of the package; and the calls of commands so far."""

    def __init__(self, directory):
        self.root = directory / "root"
        self._programs, self._calls = directory / "programs", directory / "calls"
        self._programs.mkdir()
        for command in COMMANDS:
            program = self._programs / command
            program.write_text(NOTE_CALL)
            program.chmod(0o755)
        for path in ("etc/leveret", "var/lib", "var/log", "run/systemd/system"):
            (self.root / path).mkdir(parents=True)
        (self.root / "etc/leveret/rabbitmq.conf").touch()

    def run(self, script, *arguments, disabled=False):
        """Run a script as dpkg does; the calls of commands, without the directory."""
        self._calls.write_text("")
        environment = {
            "PATH": f"{self._programs}:{os.environ['PATH']}", "DPKG_ROOT": str(self.root),
            "CALLS": str(self._calls), "DISABLED": str(int(disabled)),
        }  # fmt: skip
        subprocess.run(
            [DEBIAN / script, *arguments], env=environment, check=True, timeout=PATIENCE_SECONDS
        )
        return self._calls.read_text().replace(str(self.root), "").splitlines()

    def mode_of(self, path):
        return (self.root / path).stat().st_mode & 0o777

    def exists(self, path):
        return (self.root / path).exists()


@pytest.fixture
def system(tmp_path):
    return System(tmp_path)


def test_a_new_node_has_a_user_and_directories_and_is_started(system):
    calls = system.run("postinst", *NEW)
    assert calls[0].startswith("adduser --system --group ")
    assert "chown leveret:leveret /var/lib/leveret" in calls
    assert "deb-systemd-helper enable leveret.service" in calls
    assert calls[-1] == "deb-systemd-invoke start leveret.service"
    for path in ("var/lib/leveret", "var/log/leveret", "etc/leveret"):
        assert system.mode_of(path) == 0o750


def test_an_upgrade_restarts_the_node_and_changes_no_rights(system):
    system.run("postinst", *NEW)
    for path in ("var/lib/leveret", "etc/leveret"):
        (system.root / path).chmod(0o700)
    calls = system.run("postinst", *UPGRADED)
    assert calls[-1] == "deb-systemd-invoke restart leveret.service"
    assert not [call for call in calls if call.startswith("chown")]
    assert {system.mode_of(path) for path in ("var/lib/leveret", "etc/leveret")} == {0o700}


def test_a_unit_that_the_operator_disabled_stays_disabled(system):
    calls = system.run("postinst", *UPGRADED, disabled=True)
    assert "deb-systemd-helper enable leveret.service" not in calls
    assert "deb-systemd-helper update-state leveret.service" in calls


def test_where_systemd_does_not_run_nothing_is_started_or_stopped(system):
    (system.root / "run/systemd/system").rmdir()
    calls = [*system.run("postinst", *NEW), *system.run("prerm", "remove")]
    assert "deb-systemd-helper enable leveret.service" in calls
    assert not [call for call in calls if call.startswith(("systemctl", "deb-systemd-invoke"))]


def test_the_node_is_stopped_before_its_package_is_removed_and_not_before_an_upgrade(system):
    assert system.run("prerm", "remove") == ["deb-systemd-invoke stop leveret.service"]
    assert system.run("prerm", "upgrade", "0.2.0") == []


def filled(system):
    system.run("postinst", *NEW)
    paths = (
        "var/lib/leveret/metadata.sqlite", "var/log/leveret/leveret.log",
        "etc/leveret/enabled_plugins",
    )  # fmt: skip
    for path in paths:
        (system.root / path).touch()
    return paths


def test_what_is_removed_leaves_settings_data_and_logs(system):
    paths = filled(system)
    system.run("postrm", "remove")
    assert all(map(system.exists, paths))


def test_what_is_purged_leaves_nothing_but_what_the_operator_made(system):
    paths = filled(system)
    (system.root / "etc/leveret/rabbitmq.conf").unlink()  # dpkg removes its conffiles
    system.run("postrm", "purge")
    assert not any(map(system.exists, paths))
    assert not any(map(system.exists, ("var/lib/leveret", "var/log/leveret", "etc/leveret")))


def test_a_purge_leaves_files_of_the_operator(system):
    filled(system)
    (system.root / "etc/leveret/own.conf").touch()
    system.run("postrm", "purge")
    assert system.exists("etc/leveret/own.conf")
