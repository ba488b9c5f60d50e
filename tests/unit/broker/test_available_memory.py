"""What a process can have: of memory, and of processors; by the control groups that it is in."""

import resource

import pytest

from leveret.broker.resources import available_memory, available_processors

MACHINE_BYTES = 4_096_000_000
MACHINE_PROCESSORS = 8
NO_LIMIT_V1 = "9223372036854771712"


@pytest.fixture
def soft_limit():
    """The limit of the process itself, which a test may change."""
    return [resource.RLIM_INFINITY]


@pytest.fixture(autouse=True)
def _machine(monkeypatch, soft_limit):
    """A machine with 4 GB and 8 processors."""
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1_000_000}
    monkeypatch.setattr(available_memory.os, "sysconf", pages.get)
    monkeypatch.setattr(
        available_memory.resource, "getrlimit", lambda which: (*soft_limit, resource.RLIM_INFINITY)
    )
    monkeypatch.setattr(
        available_processors.os, "sched_getaffinity", lambda pid: range(MACHINE_PROCESSORS)
    )


class Machine:
    """The files of a process and its control groups, below a directory."""

    def __init__(self, path):
        self.process = path / "proc"
        self.process.mkdir()
        self.mounted = path / "sys fs"

    def is_in(self, *groups):
        """The lines of /proc/self/cgroup."""
        (self.process / "cgroup").write_text("".join(f"{one}\n" for one in groups))

    def mount(self, kind, options, root="/", at=""):
        """Mount a hierarchy. The system writes a space in a path as an octal number."""
        point = self.mounted / at
        point.mkdir(parents=True, exist_ok=True)
        shown = str(point).replace(" ", r"\040")
        with (self.process / "mountinfo").open("a") as file:
            file.write(
                f"31 23 0:28 {root} {shown} rw,relatime shared:9 - {kind} cgroup {options}\n"
            )

    def write(self, path, text):
        file = self.mounted / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    @property
    def memory(self):
        return available_memory.available_bytes(self.process)

    @property
    def processors(self):
        return available_processors.available_processors(self.process)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def version_1(machine):
    """Where the memory and the processors are limited by hierarchies of their own."""
    machine.is_in("5:cpu,cpuacct:/pods/one", "4:memory:/pods/one", "1:name=systemd:/", "0::/")
    machine.mount("tmpfs", "rw,mode=755")
    machine.mount("cgroup", "rw,memory", at="memory")
    machine.mount("cgroup", "rw,cpu,cpuacct", at="cpu,cpuacct")
    machine.mount("cgroup", "rw,name=systemd", at="systemd")
    machine.mount("cgroup2", "rw", at="unified")
    return machine


@pytest.fixture
def version_2(machine):
    machine.is_in("0::/system.slice/leveret.service")
    machine.mount("cgroup2", "rw,nsdelegate")
    return machine


class TestVersion1:
    def test_a_nested_group(self, version_1):
        version_1.write("memory/memory.limit_in_bytes", NO_LIMIT_V1)
        version_1.write("memory/pods/memory.limit_in_bytes", NO_LIMIT_V1)
        version_1.write("memory/pods/one/memory.limit_in_bytes", 300_000_000)
        assert version_1.memory == 300_000_000

    def test_the_least_limit_on_the_way_up(self, version_1):
        version_1.write("memory/memory.limit_in_bytes", 2_000_000_000)
        version_1.write("memory/pods/memory.limit_in_bytes", 500_000_000)
        version_1.write("memory/pods/one/memory.limit_in_bytes", NO_LIMIT_V1)
        assert version_1.memory == 500_000_000

    def test_a_group_beside_it_does_not_count(self, version_1):
        version_1.write("memory/pods/another/memory.limit_in_bytes", 1_000_000)
        assert version_1.memory == MACHINE_BYTES

    def test_no_limit_is_a_number_larger_than_any_machine(self, version_1):
        version_1.write("memory/pods/one/memory.limit_in_bytes", NO_LIMIT_V1)
        assert version_1.memory == MACHINE_BYTES

    def test_a_container_that_sees_its_own_group_only(self, machine):
        machine.is_in("4:memory:/docker/abc/inner")
        machine.mount("cgroup", "rw,memory", root="/docker/abc", at="memory")
        machine.write("memory/memory.limit_in_bytes", 700_000_000)
        machine.write("memory/inner/memory.limit_in_bytes", 600_000_000)
        assert machine.memory == 600_000_000

    def test_a_limit_above_the_root_of_a_namespace(self, machine):
        machine.is_in("4:memory:/")
        machine.mount("cgroup", "rw,memory", at="memory")
        machine.write("memory/memory.limit_in_bytes", NO_LIMIT_V1)
        machine.write("memory/memory.stat", "cache 0\nhierarchical_memory_limit 300000000\nswap 0")
        assert machine.memory == 300_000_000

    def test_a_quota_of_processors(self, version_1):
        version_1.write("cpu,cpuacct/pods/cpu.cfs_quota_us", 150_000)
        version_1.write("cpu,cpuacct/pods/cpu.cfs_period_us", 100_000)
        version_1.write("cpu,cpuacct/pods/one/cpu.cfs_quota_us", -1)
        version_1.write("cpu,cpuacct/pods/one/cpu.cfs_period_us", 100_000)
        assert version_1.processors == 2


class TestVersion2:
    def test_the_least_limit_on_the_way_up(self, version_2):
        version_2.write("system.slice/memory.max", 300_000_000)
        version_2.write("system.slice/leveret.service/memory.max", 400_000_000)
        assert version_2.memory == 300_000_000

    def test_no_limit(self, version_2):
        version_2.write("system.slice/leveret.service/memory.max", "max")
        assert version_2.memory == MACHINE_BYTES

    def test_the_root_of_a_namespace(self, machine):
        machine.is_in("0::/")
        machine.mount("cgroup2", "rw")
        machine.write("memory.max", 1_073_741_824)
        assert machine.memory == 1_073_741_824

    @pytest.mark.parametrize(
        "group",
        [
            pytest.param("/../beside", id="above the root of its namespace"),
            pytest.param("/elsewhere", id="not below the root of the mount"),
        ],
    )
    def test_a_group_that_is_not_mounted(self, machine, group):
        machine.is_in(f"0::{group}")
        machine.mount("cgroup2", "rw", root="/container")
        machine.write("memory.max", 800_000_000)
        assert machine.memory == 800_000_000

    def test_a_group_that_was_removed(self, machine):
        machine.is_in("0::/system.slice/gone (deleted)")
        machine.mount("cgroup2", "rw")
        machine.write("system.slice/memory.max", 900_000_000)
        assert machine.memory == 900_000_000

    @pytest.mark.parametrize(
        ("quota", "processors"),
        [
            pytest.param("400000 100000", 4, id="whole"),
            pytest.param("50000 100000", 1, id="half of one"),
            pytest.param("max 100000", MACHINE_PROCESSORS, id="none"),
            pytest.param("1600000 100000", MACHINE_PROCESSORS, id="more than there are"),
        ],
    )
    def test_a_quota_of_processors(self, version_2, quota, processors):
        version_2.write("system.slice/leveret.service/cpu.max", quota)
        assert version_2.processors == processors


def test_memory_may_be_in_one_version_and_processors_in_the_other(machine):
    machine.is_in("4:memory:/pods/one", "0::/pods/one")
    machine.mount("cgroup", "rw,memory", at="memory")
    machine.mount("cgroup2", "rw", at="unified")
    machine.write("memory/pods/one/memory.limit_in_bytes", 300_000_000)
    machine.write("unified/pods/one/cpu.max", "100000 100000")
    assert (machine.memory, machine.processors) == (300_000_000, 1)


@pytest.mark.parametrize("text", ["", "no number"])
def test_a_file_without_a_number_is_no_limit(version_2, text):
    version_2.write("memory.max", text)
    assert version_2.memory == MACHINE_BYTES


def test_a_system_without_control_groups(machine):
    assert (machine.memory, machine.processors) == (MACHINE_BYTES, MACHINE_PROCESSORS)


def test_the_limit_of_the_process_counts_if_it_is_less(version_2, soft_limit):
    version_2.write("memory.max", 2_000_000_000)
    soft_limit[:] = [1_000_000_000]
    assert version_2.memory == 1_000_000_000
