"""The wheel installs one package, and works with a program whose packages have the same names.

The folders of a checkout (`broker`, `storage`, ...) are links in `leveret/`; a wheel and a source
distribution contain the files. Both are built from a copy of the checkout without network access:
the test extra has the build dependencies. The wheel is installed into a virtual environment that
uses the packages of the running one, except that its Leveret comes first; and into one that has the
packages that the wheel requires, and no others.

Most tests use the wheel in pure Python, which is the same for all platforms. The compiled wheel has
the library that `make compile` has made, which would take minutes to make again. In place of mypyc
there is what names the same modules.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import venv
import zipfile
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from leveret import compiled
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
LINKED = sorted(path.name for path in (ROOT / "leveret").iterdir() if path.is_symlink())
FILES = ("pyproject.toml", "setup.py", "mypyc.ini", "README.md", "MANIFEST.in", "LICENSE")
TEMPLATE = ROOT / "docs" / "reference" / "plugin-template"
SECONDS_MAX = 900
NAMING_MODULES = """
from pathlib import Path

from setuptools import Extension


def mypycify(arguments, *, group_name, target_dir, **options):
    source = Path(target_dir, "nothing.c")
    source.parent.mkdir(parents=True, exist_ok=True)
    source.touch()
    paths = [one for one in arguments if one.endswith(".py")]
    modules = [path.removesuffix(".py").replace("/", ".") for path in paths]
    return [Extension(name, [str(source)]) for name in (f"{group_name}__mypyc", *modules)]
"""
"""The module mypyc.build for a build that finds all modules compiled."""

PROGRAM_PACKAGES = ("analytics", "broker", "cluster", "mgmt", "storage", "tests")
PROGRAM_TESTS = """
import importlib

import pika
import pytest

import broker
from leveret.testing import EmbeddedBroker


@pytest.mark.parametrize("name", {names!r})
def test_the_program_imports_its_own_packages(name):
    assert importlib.import_module(name).__doc__ == f"The program's own {{name}}."


def test_an_order_is_sent(amqp_broker, amqp_url):
    broker.send_order(amqp_url)
    assert amqp_broker.queue_length("orders") == 1


@pytest.mark.asyncio
async def test_a_broker_is_in_the_event_loop(async_amqp_broker):
    with pytest.raises(LookupError, match="reached no queue"):
        await async_amqp_broker.publish(b"one", "orders")


def test_an_order_is_sent_to_an_embedded_broker():
    with EmbeddedBroker.in_thread() as embedded:
        broker.send_order(embedded.url)
        assert embedded.published[0].body == b"one"
"""
SEND_ORDER = """
import pika


def send_order(url):
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders")
    channel.basic_publish("", "orders", b"one")
    connection.close()
"""

pytestmark = pytest.mark.timeout(2 * SECONDS_MAX)


def run(*command, cwd, **environment):
    """Run a command without this run's Python and pytest settings; returns its standard output."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST"))
    }
    done = subprocess.run(
        command, cwd=cwd, env={**inherited, **environment},
        capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the packed files with their links: building writes into its source folder."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    for name in ("leveret", *LINKED):
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
    return copy


def build(checkout, out, *options, **environment):
    """Build with the packages of this environment; returns the created files."""
    run(
        sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", out, checkout,
        cwd=out.parent, **{"LEVERET_BUILD": "pure", **environment},
    )  # fmt: skip
    return sorted(out.iterdir())


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory):
    """The wheel in pure Python, built from the checkout as on a machine without a compiler."""
    without = {"CC": "/nonexistent/cc", "PATH": "/nonexistent", "LEVERET_BUILD": ""}
    [path] = build(checkout, tmp_path_factory.mktemp("wheel"), "--wheel", **without)
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The program directory of a virtual environment with the wheel."""
    return install_in(tmp_path_factory.mktemp("environment"), wheel)


def add_wheel(python, wheel):
    """Install a wheel without what it requires."""
    install = ("install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel)
    run(sys.executable, "-m", "pip", "--python", python, *install, cwd=wheel.parent)


def install_in(directory, wheel):
    """Make a virtual environment with a wheel and the packages of this one."""
    venv.create(directory, with_pip=False)
    add_wheel(directory / "bin" / "python", wheel)
    [site_packages] = directory.glob("lib/python3*/site-packages")
    shared = [path for path in sys.path if path.endswith("site-packages")]
    (site_packages / "shared.pth").write_text("\n".join(shared))
    return directory / "bin"


@pytest.fixture
def program(tmp_path):
    """A program with tests whose packages have the names of Leveret's folders."""
    for name in PROGRAM_PACKAGES:
        code = SEND_ORDER if name == "broker" else ""
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f'"""The program\'s own {name}."""\n{code}')
    (tmp_path / "tests/test_orders.py").write_text(PROGRAM_TESTS.format(names=PROGRAM_PACKAGES))
    return tmp_path


def packed_files(wheel):
    """Return the names of the files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_one_package_with_everything_in_it(wheel):
    files = packed_files(wheel)
    top_level = {name.partition("/")[0] for name in files}
    assert {name for name in top_level if not name.endswith(".dist-info")} == {"leveret"}
    for folder in LINKED:
        sources = {
            f"leveret/{path.relative_to(ROOT).as_posix()}"
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
        }
        assert sources <= files
    assert {
        "leveret/py.typed",
        "leveret/mgmt/ui/index.html",
        "leveret/analytics/job/log4j2.properties",
        "leveret/analytics/report/report.css",
        "leveret/analytics/report/report.js",
    } <= files


def test_a_source_distribution_makes_the_same_wheel(checkout, wheel, tmp_path):
    from_source, source = sorted(build(checkout, tmp_path), key=lambda path: path.suffix != ".whl")
    with tarfile.open(source) as archive:
        members = archive.getmembers()
    assert not [member.name for member in members if member.issym() or member.islnk()]
    assert not [member.name for member in members if "/tests/" in member.name]
    assert packed_files(from_source) == packed_files(wheel)
    assert {"setup.py", "mypyc.ini"} <= {Path(member.name).name for member in members}


# Both builds


def test_the_wheel_of_a_machine_without_a_compiler_is_for_all_platforms(wheel, installed, tmp_path):
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in packed_files(wheel) if name.endswith(".so")]
    assert build_of(installed, tmp_path) == compiled.PURE


def build_of(installed, directory, **environment):
    """Which build of the message path runs: that of the wheel, or the environment's."""
    chosen = {compiled.PURE_VARIABLE: "", **environment}
    code = "from leveret.compiled import build; print(build())"
    return run(installed / "python", "-c", code, cwd=directory, **chosen).strip()


def test_each_program_prints_its_version_as_others_do(wheel, installed, tmp_path):
    version = wheel.name.split("-")[1]
    assert run(installed / "leveret", "--version", cwd=tmp_path) == f"leveret {version}\n"
    for command in ("leveretctl version", "leveretctl --version", "leveret version"):
        program, argument = command.split()
        assert run(installed / program, argument, cwd=tmp_path) == f"{version}\n"


def test_the_wheel_has_the_rabbitmqadmin_that_a_node_serves(installed, tmp_path):
    code = (
        "from leveret.mgmt.api.rabbitmqadmin_file import rabbitmqadmin_file; import pathlib; "
        "pathlib.Path('served').write_bytes(rabbitmqadmin_file())"
    )
    run(installed / "python", "-c", code, cwd=tmp_path)
    shown = run(installed / "python", "-I", "-S", "served", "help", "subcommands", cwd=tmp_path)
    assert "list queues" in shown


NO_COMPILER = "/nonexistent/cc"


@pytest.mark.parametrize(
    ("chosen", "compiler", "text"),
    [
        ("compiled", NO_COMPILER, f"=compiled: there is no C compiler ({NO_COMPILER})"),
        ("compiled", "false", "=compiled: false cannot use Python.h"),
        ("fast", NO_COMPILER, "expected 'compiled' or 'pure'"),
    ],
)
def test_a_build_that_cannot_be_made_fails_and_says_why(checkout, chosen, compiler, text):
    done = set_up(checkout, LEVERET_BUILD=chosen, CC=compiler)
    assert done.returncode == 1
    assert text in done.stderr


def test_a_build_without_a_compiler_says_that_it_runs_in_python(checkout):
    done = set_up(checkout, LEVERET_BUILD="", CC=NO_COMPILER)
    assert done.returncode == 0
    assert "is not compiled, and runs in Python: there is no C compiler" in done.stderr


def set_up(checkout, **environment):
    """Have setup.py decide what it builds."""
    return subprocess.run(
        [sys.executable, "setup.py", "--version"], cwd=checkout,
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=SECONDS_MAX,
        check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def compiled_wheel(checkout, tmp_path_factory):
    """A wheel with the compiled modules of this checkout."""
    if compiled.build() != compiled.COMPILED:
        pytest.skip("this run is in pure Python")
    copy = tmp_path_factory.mktemp("compiled") / "checkout"
    shutil.copytree(checkout, copy, symlinks=True, ignore=shutil.ignore_patterns("build"))
    instead = copy.parent / "instead" / "mypyc"
    instead.mkdir(parents=True)
    (instead / "__init__.py").touch()
    (instead / "build.py").write_text(NAMING_MODULES)
    platform, later = sysconfig.get_platform(), time.time() + 2 * SECONDS_MAX
    built = copy / "build" / f"lib.{platform}-{sys.implementation.cache_tag}" / "leveret"
    for folder in (".", *LINKED):
        for path in (ROOT / "leveret" / folder).resolve().rglob("*.so"):
            place = built / folder / path.relative_to((ROOT / "leveret" / folder).resolve())
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
            # After the time of the C sources, so that they are not compiled again.
            os.utime(place, (later, later))
    chosen = {"LEVERET_BUILD": "compiled", "PYTHONPATH": str(instead.parent)}
    [path] = build(copy, tmp_path_factory.mktemp("wheel"), "--wheel", **chosen)
    return path


def test_the_compiled_wheel_is_for_this_platform_and_runs_either_build(
    compiled_wheel, wheel, tmp_path
):
    assert sys.implementation.cache_tag.replace("cpython-", "-cp") in compiled_wheel.name
    libraries = {name for name in packed_files(compiled_wheel) if name.endswith(".so")}
    assert f"leveret/{compiled.LIBRARY.name}" in libraries
    assert f"leveret/broker/amqp/frames{compiled.SUFFIX}" in libraries
    assert packed_files(compiled_wheel) - libraries == packed_files(wheel)
    installed = install_in(tmp_path / "environment", compiled_wheel)
    assert build_of(installed, tmp_path) == compiled.COMPILED
    assert build_of(installed, tmp_path, LEVERET_PURE="1") == compiled.PURE


def test_the_template_of_a_plugin_is_a_package_of_its_own(installed, tmp_path):
    """Its wheel is installed beside Leveret's, its own tests pass, and a command enables it."""
    template = tmp_path / "first-word"
    shutil.copytree(TEMPLATE, template)
    [built] = build(template, tmp_path / "out", "--wheel")
    add_wheel(installed / "python", built)
    shutil.rmtree(template / "first_word")
    assert "1 passed" in run(installed / "python", "-m", "pytest", "-q", "tests", cwd=template)
    command = (installed / "leveret-plugins", "--data-dir", tmp_path)
    shown = run(*command, "list", "first_word", cwd=tmp_path)
    assert shown.endswith("[  ] first_word 1.0\n")
    assert "set 1 plugins." in run(*command, "enable", "first_word", cwd=tmp_path)


def test_a_program_with_packages_of_the_same_names_runs_its_tests(installed, program):
    output = run(installed / "python", "-m", "pytest", "-q", cwd=program)
    assert f"{len(PROGRAM_PACKAGES) + 3} passed" in output


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("leveret", "--help"), "serve"),
        (("leveret", "analyze", "--help"), "TRACE_DIR"),
        (("leveret", "perf", "--help"), "--producers"),
        (("leveretctl", "help"), "list_queues"),
    ],
    ids=" ".join,
)
def test_a_command_runs_in_the_folder_of_such_a_program(installed, program, command, expected):
    name, *arguments = command
    assert expected in run(installed / name, *arguments, cwd=program, PYTHONPATH=str(program))


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    """The programs of an environment that has the wheel and what it requires, and nothing else."""
    directory = tmp_path_factory.mktemp("alone")
    venv.create(directory, with_pip=False)
    python = directory / "bin" / "python"
    install = ("install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel)
    run(sys.executable, "-m", "pip", "--python", python, *install, cwd=directory)
    [site_packages] = directory.glob("lib/python3*/site-packages")
    for name in required_by(wheel):
        link_distribution(name, site_packages)
    return directory / "bin"


def required_by(wheel):
    """Return the names of the distributions that a wheel without extras requires."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        waiting = Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist")
    found = set()
    while waiting:
        requirement = Requirement(waiting.pop())
        is_meant = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if is_meant and requirement.name not in found:
            found.add(requirement.name)
            waiting += metadata.distribution(requirement.name).requires or ()
    return found


def link_distribution(name, site_packages):
    """Make the files of an installed distribution available in another environment."""
    distribution = metadata.distribution(name)
    for top in {file.parts[0] for file in distribution.files}:
        link = site_packages / top
        if top not in ("..", "__pycache__") and not link.exists():
            link.symlink_to(distribution.locate_file(top))


def test_a_node_runs_where_only_what_the_wheel_requires_is_installed(alone, tmp_path):
    node = subprocess.Popen(
        [alone / "leveret", "serve", "--data-dir", tmp_path / "data", "--bind", "127.0.0.1",
         "--port", str(free_port()), "--management-port", str(free_port()),
         "--prometheus-port", str(free_port())],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
    )  # fmt: skip
    try:
        lines = list(iter_until(" ready in", node.stdout))
        assert " ready in" in lines[-1], lines
        status = ("--data-dir", tmp_path / "data", "status")
        assert "RabbitMQ version" in run(alone / "leveretctl", *status, cwd=tmp_path)
    finally:
        node.terminate()
        node.communicate(timeout=SECONDS_MAX)
    assert node.returncode == 0


def iter_until(text, lines):
    """The lines of a program up to one with a text, or all."""
    for line in lines:
        yield line
        if text in line:
            return


def test_the_version_is_that_of_the_wheel(installed, wheel, program):
    output = run(
        installed / "python", "-c", "import leveret; print(leveret.__version__)", cwd=program
    )
    assert output.strip() == wheel.name.split("-")[1]
