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
    for name in ("build", "postinst", "prerm", "postrm"):
        assert (DEBIAN / name).stat().st_mode & 0o111, name
        subprocess.run(["sh", "-n", DEBIAN / name], check=True)


def test_each_configuration_file_is_installed_and_used_by_the_unit():
    unit = (ROOT / "docs" / "operate" / "leveret.service").read_text()
    assert "EnvironmentFile=-/etc/leveret/environment" in unit
    for path in (DEBIAN / "conffiles").read_text().split():
        assert (DEBIAN / Path(path).name).is_file(), path
    assert "LEVERET_CONFIG=/etc/leveret/rabbitmq.conf" in (DEBIAN / "environment").read_text()


def test_each_program_is_in_the_path():
    linked = re.search(r"for program in (.*); do", (DEBIAN / "build").read_text())
    assert set(linked[1].split()) == set(PROJECT["project"]["scripts"])
