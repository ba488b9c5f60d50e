"""The files that wheels and the Debian package are built with fit the project, and each other.

Building them takes minutes and the network: `make wheels` and `make deb` do it.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = ROOT / "debian"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEELS = PROJECT["tool"]["cibuildwheel"]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def test_there_is_a_compiled_wheel_for_each_python_that_is_supported():
    prefix = "Programming Language :: Python :: "
    named = [one.removeprefix(prefix) for one in PROJECT["project"]["classifiers"]
             if re.fullmatch(rf"{re.escape(prefix)}3\.\d+", one)]  # fmt: skip
    assert named == PYTHONS
    assert PROJECT["project"]["requires-python"] == f">={PYTHONS[0]}"
    assert WHEELS["build"] == [f"cp{one.replace('.', '')}-*" for one in PYTHONS]
    assert WHEELS["environment"] == {"LEVERET_BUILD": "compiled"}


def test_wheels_are_built_on_both_architectures_with_the_target_of_make():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "wheels.yml").read_text())
    job = workflow["jobs"]["wheels"]
    assert job["strategy"]["matrix"]["machine"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    assert {"run": "make wheels"} in job["steps"]


def test_scripts_of_the_package_are_valid_and_executable():
    for name in ("build", "command", "postinst", "prerm", "postrm"):
        assert (DEBIAN / name).stat().st_mode & 0o111, name
        subprocess.run(["sh", "-n", DEBIAN / name], check=True)


def test_each_configuration_file_is_installed_and_used_by_the_unit():
    unit = (ROOT / "docs" / "operate" / "leveret.service").read_text()
    assert "EnvironmentFile=-/etc/leveret/environment" in unit
    for path in (DEBIAN / "conffiles").read_text().split():
        assert (DEBIAN / Path(path).name).is_file(), path
    assert "LEVERET_CONFIG=/etc/leveret/rabbitmq.conf" in (DEBIAN / "environment").read_text()


def test_each_program_is_in_the_path():
    """A node that is started by hand gets no settings; commands find the node of the service."""
    text = (DEBIAN / "build").read_text()
    installed = re.search(r"for program in (.*); do", text)
    assert {"leveret", *installed[1].split()} == set(PROJECT["project"]["scripts"])
    assert 'ln -s "$prefix/bin/leveret" "$root/usr/bin/leveret"' in text


def test_commands_find_the_data_and_the_settings_of_the_unit():
    unit = (ROOT / "docs" / "operate" / "leveret.service").read_text()
    command = (DEBIAN / "command").read_text()
    assert "Environment=LEVERET_DATA_DIR=/var/lib/leveret\n" in unit
    assert 'LEVERET_DATA_DIR="${LEVERET_DATA_DIR-/var/lib/leveret}"' in command
    assert 'LEVERET_CONFIG="${LEVERET_CONFIG-/etc/leveret/rabbitmq.conf}"' in command


def test_wheels_are_built_from_a_source_distribution():
    """Whatever else is in a checkout, such as modules compiled here, gets into no wheel."""
    text = (ROOT / "Makefile").read_text()
    assert "-m build --sdist --outdir build/sdist" in text
    assert "cibuildwheel --platform linux --output-dir dist build/sdist/*.tar.gz" in text
