"""The memory and disk monitors: limits, measurements, and when alarms are set and cleared."""

import gc
import logging
import mmap
import os
import resource
import weakref

import pytest

from leveret.broker.config import Config, DiskSettings, MemorySettings
from leveret.broker.resources import memory_measures, memory_monitor
from leveret.broker.resources.alarms import DISK, MEMORY, Alarms
from leveret.broker.resources.disk_monitor import DiskMonitor, disk_limit_bytes, free_bytes
from leveret.broker.resources.memory_measures import (
    allocated_bytes,
    give_back_freed_memory,
    mapped_bytes,
    resident_bytes,
)
from leveret.broker.resources.memory_monitor import (
    COLLECTION_INTERVAL_MS,
    MemoryMonitor,
    memory_limit_bytes,
    total_memory_bytes,
)
from leveret.broker.runtime.virtual_clock import VirtualClock

INTERVAL_S = 2.5
ALLOCATED, RESIDENT = 111, 222
MEGABYTE = 1_000_000


class Cycle:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self):
        self.itself = self


class Measured:
    """A measurement that a test changes. looks: number of calls."""

    def __init__(self, value):
        self.value = value
        self.looks = 0

    def __call__(self):
        self.looks += 1
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.fixture(autouse=True)
def _log_everything(caplog):
    caplog.set_level(logging.INFO, logger="leveret")


@pytest.fixture(autouse=True)
def _no_look_at_imported_tests(monkeypatch):
    """A monitor collects what the test has made; a million other objects would take half a second.

    test_garbage_collections.py is about `collect_everything`.
    """
    monkeypatch.setattr(memory_monitor, "collect_everything", gc.collect)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def alarms():
    return Alarms()


@pytest.fixture
def used():
    return Measured(0)


@pytest.fixture
def trims(monkeypatch):
    """Called when the C library is asked to release memory: a test adds functions."""
    calls = []
    monkeypatch.setattr(
        memory_monitor, "give_back_freed_memory", lambda: [call() for call in calls]
    )
    return calls


@pytest.fixture
def memory(clock, alarms, used, trims):
    """A running monitor with a limit of 1000 bytes, and paging from 500."""
    monitor = MemoryMonitor(MemorySettings(high_watermark_bytes=1000), clock, alarms, used)
    monitor.start()
    return monitor


class TestMemoryAlarm:
    def test_is_set_at_the_limit_and_clears_by_itself(self, memory, clock, alarms, used):
        used.value = 999
        clock.advance(INTERVAL_S)
        assert not alarms.are_in_force
        used.value = 1000
        clock.advance(INTERVAL_S)
        assert alarms.reason == "low on memory"
        clock.advance(INTERVAL_S)
        assert alarms.are_in_force
        used.value = 950
        clock.advance(INTERVAL_S)
        assert alarms.are_in_force
        used.value = 949
        clock.advance(INTERVAL_S)
        assert not alarms.are_in_force
        assert memory.used_bytes == 949

    def test_is_not_set_because_of_garbage(self, memory, clock, alarms, monkeypatch):
        garbage = Cycle()
        seen = weakref.ref(garbage)
        del garbage
        monkeypatch.setattr(memory, "_measure", lambda: 2000 if seen() else 400)
        clock.advance(INTERVAL_S)
        assert not alarms.are_in_force
        assert memory.used_bytes == 400

    def test_clears_when_what_held_it_up_is_garbage(self, memory, clock, alarms, monkeypatch):
        held = Cycle()
        seen = weakref.ref(held)
        monkeypatch.setattr(memory, "_measure", lambda: 2000 if seen() else 400)
        clock.advance(INTERVAL_S)
        assert alarms.are_in_force
        del held
        clock.advance(COLLECTION_INTERVAL_MS / 1000 + INTERVAL_S)
        assert not alarms.are_in_force

    def test_does_not_collect_garbage_at_each_check(self, memory, clock, used, monkeypatch):
        collections = []
        monkeypatch.setattr(memory_monitor, "collect_everything", lambda: collections.append(1))
        used.value = 2000
        clock.advance(COLLECTION_INTERVAL_MS / 1000 - INTERVAL_S)
        assert len(collections) == 1

    def test_is_logged_once_with_both_figures(self, memory, clock, used, caplog):
        used.value = 1234
        clock.advance(4 * INTERVAL_S)
        used.value = 432
        clock.advance(4 * INTERVAL_S)
        warning, info = caplog.records
        assert (warning.levelno, info.levelno) == (logging.WARNING, logging.INFO)
        assert "1234" in warning.message
        assert "1000" in warning.message
        assert "432" in info.message

    def test_is_in_force_before_the_first_interval_is_over(self, clock, alarms, used, trims):
        used.value = 2000
        MemoryMonitor(MemorySettings(high_watermark_bytes=1000), clock, alarms, used).start()
        assert alarms.are_in_force

    @pytest.mark.parametrize(
        "watermark",
        [MemorySettings(high_watermark_relative=0.0), MemorySettings(high_watermark_bytes=0)],
    )
    def test_a_watermark_of_0_holds_back_all_publishers_at_once(self, clock, alarms, watermark):
        MemoryMonitor(watermark, clock, alarms).start()
        assert alarms.are_in_force

    def test_a_monitor_looks_as_often_as_configured_until_it_is_stopped(self, clock, alarms, used):
        monitor = MemoryMonitor(MemorySettings(monitor_interval_ms=100), clock, alarms, used)
        monitor.start()
        clock.advance(1)
        assert used.looks == 11
        monitor.stop()
        clock.advance(10)
        assert used.looks == 11

    def test_does_not_clear_an_alarm_of_another_source(self, memory, clock, alarms, used):
        alarms.set(MEMORY)
        used.value = 1000
        clock.advance(INTERVAL_S)
        used.value = 0
        clock.advance(INTERVAL_S)
        assert alarms.reason == "low on memory"
        alarms.clear(MEMORY)
        assert not alarms.are_in_force


class TestFreedMemory:
    def test_is_given_back_before_an_alarm_is_set(self, memory, clock, alarms, used, trims):
        def give_back():
            used.value = 800

        used.value = 1200
        trims.append(give_back)
        clock.advance(INTERVAL_S)
        assert not alarms.are_in_force
        assert memory.used_bytes == 800

    def test_does_not_keep_an_alarm_in_force(self, memory, clock, alarms, used, trims):
        used.value = 1200
        clock.advance(INTERVAL_S)
        assert alarms.are_in_force
        trims.append(lambda: setattr(used, "value", 400))
        clock.advance(INTERVAL_S)
        assert not alarms.are_in_force

    def test_is_asked_for_once_an_interval_and_only_where_paging_begins(
        self, memory, clock, used, trims
    ):
        calls = []
        trims.append(lambda: calls.append(used.value))
        used.value = 500
        clock.advance(4 * INTERVAL_S)
        assert calls == []
        used.value = 501
        clock.advance(4 * INTERVAL_S)
        assert calls == [501] * 4

    def test_goes_back_to_the_system(self):
        """Blocks of the C library, of which only the last one keeps the heap from shrinking."""
        blocks = [bytes(1000) for _ in range(50_000)]
        full = resident_bytes()
        del blocks[:-1]
        give_back_freed_memory()
        assert resident_bytes() < full - 30 * MEGABYTE


class TestWhatMessagesMayTake:
    @pytest.mark.parametrize(
        ("in_use", "held", "allowed"),
        [
            pytest.param(300, 100, 300, id="what is left beside all else"),
            pytest.param(900, 600, 200, id="less than they take"),
            pytest.param(2000, 0, 50, id="a tenth at least"),
            pytest.param(100, 400, 500, id="all, if they count for more than there is"),
        ],
    )
    def test_is_what_is_left_to_the_paging_limit(self, clock, alarms, trims, in_use, held, allowed):
        told = []
        settings = MemorySettings(high_watermark_bytes=1000)
        monitor = MemoryMonitor(
            settings, clock, alarms, Measured(in_use), held=lambda: held, allow=told.append
        )
        monitor.check()
        assert told == [allowed]

    def test_the_ratio_is_configured(self, clock, alarms):
        settings = MemorySettings(high_watermark_bytes=1000, paging_ratio=0.75)
        assert MemoryMonitor(settings, clock, alarms, Measured(0)).paging_bytes == 750


class TestLimits:
    def test_a_share_of_the_memory(self):
        assert memory_limit_bytes(MemorySettings(total_bytes=10_000)) == 4000

    def test_an_amount_goes_before_the_share(self):
        settings = MemorySettings(total_bytes=10_000, high_watermark_bytes=123)
        assert memory_limit_bytes(settings) == 123

    def test_of_the_disk(self):
        assert disk_limit_bytes(Config()) == 50_000_000
        config = Config(
            memory=MemorySettings(total_bytes=10_000), disk=DiskSettings(free_limit_relative=1.5)
        )
        assert disk_limit_bytes(config) == 15_000


class TestTotalMemory:
    def test_is_what_the_process_can_have(self, monkeypatch):
        monkeypatch.setattr(memory_monitor, "available_bytes", lambda: 5_000_000_000)
        assert total_memory_bytes(MemorySettings()) == 5_000_000_000

    def test_is_what_is_configured_before_all_else(self):
        assert total_memory_bytes(MemorySettings(total_bytes=8_000_000_000)) == 8_000_000_000


class TestMeasures:
    @pytest.mark.parametrize(
        ("strategy", "measured"),
        [("rss", RESIDENT), ("allocated", ALLOCATED), ("erlang", ALLOCATED), ("legacy", ALLOCATED)],
    )
    def test_are_known_by_rabbitmqs_names(self, clock, alarms, monkeypatch, strategy, measured):
        monkeypatch.setattr(memory_monitor, "allocated_bytes", lambda: ALLOCATED)
        monkeypatch.setattr(memory_monitor, "resident_bytes", lambda: RESIDENT)
        settings = MemorySettings(calculation_strategy=strategy)
        monitor = MemoryMonitor(settings, clock, alarms)
        monitor.check()
        assert monitor.used_bytes == measured

    def test_the_system_counts_what_was_written_to(self):
        before = resident_bytes()
        with mmap.mmap(-1, 40 * MEGABYTE) as mapped:
            for page in range(0, len(mapped), mmap.PAGESIZE):
                mapped[page] = 1
            assert resident_bytes() - before > 30 * MEGABYTE

    def test_pages_of_files_are_measured_apart(self, tmp_path):
        path = tmp_path / "library"
        path.write_bytes(bytes(20 * MEGABYTE))
        before, allocated = mapped_bytes(), bytes(20 * MEGABYTE)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            assert mapped.find(b"x") < 0
            assert 15 * MEGABYTE < mapped_bytes() - before < 25 * MEGABYTE
        assert allocated

    @pytest.mark.parametrize("size", [200, 10_000, 8 * MEGABYTE])
    def test_blocks_of_every_size_are_allocated(self, size):
        before = allocated_bytes()
        blocks = [bytearray(b"x") * size for _ in range(40 * MEGABYTE // size)]
        assert allocated_bytes() - before > 30 * MEGABYTE
        del blocks

    def test_what_was_freed_is_not_allocated(self):
        before = allocated_bytes()
        blocks = [bytes(200) for _ in range(100_000)]
        del blocks
        assert allocated_bytes() - before < MEGABYTE

    def test_without_glibc_the_system_is_asked(self, monkeypatch):
        monkeypatch.setattr(memory_measures.ctypes, "CDLL", lambda _: object())
        monkeypatch.setattr(memory_measures, "resident_bytes", lambda: RESIDENT)
        assert allocated_bytes() == RESIDENT
        give_back_freed_memory()

    @pytest.mark.parametrize(
        ("report", "expected"),
        [
            pytest.param(rb"nothing that is known", RESIDENT, id="an unknown report"),
            pytest.param(rb"", ALLOCATED, id="not Python's allocator"),
        ],
    )
    def test_what_python_does_not_tell(self, monkeypatch, report, expected):
        def write(stream):
            memory_measures.ctypes.CDLL(None).fwrite(report, 1, len(report), stream)

        python = type("Python", (), {"_PyObject_DebugMallocStats": staticmethod(write)})
        monkeypatch.setattr(memory_measures.ctypes, "pythonapi", python)
        monkeypatch.setattr(memory_measures, "_large_block_bytes", lambda: ALLOCATED)
        monkeypatch.setattr(memory_measures, "resident_bytes", lambda: RESIDENT)
        assert allocated_bytes() == expected

    def test_without_proc_the_most_it_ever_was(self, monkeypatch, tmp_path):
        monkeypatch.setattr(memory_measures, "Path", lambda _: tmp_path / "missing")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        assert resident_bytes() >= peak > 0


class TestDiskAlarm:
    @pytest.fixture
    def free(self):
        return Measured(10_000 * MEGABYTE)

    @pytest.fixture
    def disk(self, clock, alarms, free):
        """A running monitor with a limit of 1 GB."""
        monitor = DiskMonitor(
            Config(disk=DiskSettings(free_limit_bytes=1000 * MEGABYTE)), clock, alarms, free
        )
        monitor.start()
        return monitor

    def test_is_set_below_the_limit_and_clears_by_itself(self, disk, clock, alarms, free, caplog):
        free.value = 1000 * MEGABYTE
        clock.advance(10)
        assert not alarms.are_in_force
        free.value -= 1
        clock.advance(10)
        assert alarms.reason == "low on disk"
        free.value = 1050 * MEGABYTE - 1
        clock.advance(10)
        assert alarms.reason == "low on disk"
        free.value += 1
        clock.advance(10)
        assert not alarms.are_in_force
        warning, info = caplog.records
        assert (warning.levelno, info.levelno) == (logging.WARNING, logging.INFO)
        assert "999999999" in warning.message
        assert "1000000000" in warning.message
        assert "1050000000" in info.message

    @pytest.mark.parametrize(
        ("left", "looks"),
        [
            pytest.param(9000 * MEGABYTE, 1, id="far: every ten seconds"),
            pytest.param(250 * MEGABYTE, 10, id="nearer: every second"),
            pytest.param(0, 100, id="at the limit: ten times a second"),
            pytest.param(-500 * MEGABYTE, 100, id="below it too"),
        ],
    )
    def test_comes_the_sooner_the_less_is_left(self, clock, alarms, left, looks):
        free = Measured(1000 * MEGABYTE + left)
        config = Config(disk=DiskSettings(free_limit_bytes=1000 * MEGABYTE))
        DiskMonitor(config, clock, alarms, free).start()
        clock.advance(10)
        assert free.looks == looks + 1

    def test_comes_no_more_once_stopped(self, disk, clock, alarms, free):
        disk.stop()
        free.value = 0
        clock.advance(60)
        assert not alarms.are_in_force

    def test_stays_as_it_is_while_the_directory_cannot_be_looked_at(
        self, disk, clock, alarms, free, caplog
    ):
        free.value = 0
        clock.advance(10)
        free.value = OSError(5, "Input/output error")
        clock.advance(10)
        assert alarms.reason == "low on disk"
        errors = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert ["Input/output error" in record.message for record in errors] == [True]
        free.value = 10_000 * MEGABYTE
        clock.advance(10)
        assert not alarms.are_in_force

    def test_each_time_that_it_goes_blind_is_logged(self, disk, clock, free, caplog):
        for value in (OSError("once"), 10_000 * MEGABYTE, OSError("twice")):
            free.value = value
            clock.advance(20)
        assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]

    def test_lasts_while_the_store_finds_no_room_either(self, disk, clock, alarms, free):
        free.value = 0
        clock.advance(10)
        alarms.set(DISK, "store")
        free.value = 10_000 * MEGABYTE
        clock.advance(10)
        assert alarms.reason == "low on disk"
        alarms.clear(DISK, "store")
        assert not alarms.are_in_force

    def test_free_space_is_what_an_ordinary_user_may_write(self, tmp_path):
        found = os.statvfs(tmp_path)
        assert 0 < free_bytes(tmp_path) <= found.f_blocks * found.f_frsize
        with pytest.raises(OSError, match="missing"):
            free_bytes(tmp_path / "missing")
