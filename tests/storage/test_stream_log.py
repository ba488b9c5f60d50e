"""The log of a stream over power cuts at any point: a restart finds what was written."""

import random
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.storage.check.check_streams import StreamCheck
from leveret.storage.disk.disk import STREAM_POINTS, Disk
from leveret.storage.stream_log.segment_heads import SegmentHead
from tests.storage.power_cut_disk import PowerCutDisk, PowerIsOff
from tests.unit.storage.stream_log.stream_under_test import StreamUnderTest

SEGMENT_BYTES = 400
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 4), st.sampled_from((3, 150, 1_300))),
        st.tuples(st.just("publish"), st.integers(1, 4), st.sampled_from((3, 150, 1_300))),
        st.tuples(st.just("start_term")),
        st.tuples(st.just("track")),
        st.tuples(st.just("truncate"), st.integers(1, 9)),
        st.tuples(st.just("remove"), st.integers(1, 3)),
        st.tuples(st.just("begin_segment")),
        st.tuples(st.just("reset")),
        st.tuples(st.just("write")),
        st.tuples(st.just("write")),
        st.tuples(st.just("write")),
        st.tuples(st.just("crash"), st.sampled_from((None, *STREAM_POINTS)), st.integers(1, 4)),
        st.tuples(st.just("crash"), st.sampled_from(STREAM_POINTS), st.integers(1, 2)),
        st.tuples(st.just("crash"), st.just("stream.indexed"), st.integers(1, 3)),
    ),
    max_size=60,
)


@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(OPERATIONS, st.integers(0, 1 << 32))
def test_power_cuts_leave_what_was_written(operations, seed):
    with tempfile.TemporaryDirectory() as directory:
        life = Life(Path(directory) / "stream", random.Random(seed))
        for operation in operations:
            life.step(*operation)
        life.crash(None, 1)


class Life:
    """A stream, what its log has to have, and what a restart may find.

    entries: (chunk, term, kind) of each, from the entry `first` on. term: of the stream's leader.
    """

    def __init__(self, directory, chance):
        self.chance = chance
        self.term = 1
        self.first, self.entries = 1, []
        self.directory = directory
        self.stream = StreamUnderTest(directory, PowerCutDisk(chance))
        self.stream.log.segment_bytes = SEGMENT_BYTES
        self.allowed = [self.view()]

    def view(self):
        return self.first, tuple(self.entries)

    def step(self, what, *arguments):
        self.stream.now_ms += 1
        try:
            getattr(self, what)(*arguments)
        except PowerIsOff:
            self.restart()
        self.allowed.append(self.view())
        assert self.found() == self.view()

    def found(self):
        """What the log has."""
        stream = self.stream
        kinds = [
            (run.term, run.kind)
            for run in stream.log.runs
            for _ in range(run.count)
            if run.end > stream.log.first_entry
        ]
        chunks = stream.chunks()
        assert len(kinds) == len(chunks)
        found = tuple((chunk, *kind) for chunk, kind in zip(chunks, kinds, strict=True))
        return stream.log.first_entry, found

    # What happens to it

    def publish(self, count, size):
        self._appended(self.stream.publish, *[self.chance.randbytes(size) for _ in range(count)])

    def start_term(self):
        self.term += 1
        self._appended(self.stream.start_term)

    def track(self):
        self._appended(self.stream.track)

    def _appended(self, append, *bodies):
        append(*bodies, term=self.term)
        log = self.stream.log
        self.entries.append(
            (*log.read(log.last_entry, log.last_entry, 0), self.term, log.runs[-1].kind)
        )

    def truncate(self, count):
        """Remove the last entries. A cut may leave some of them."""
        for _ in range(min(count, len(self.entries))):
            self.entries.pop()
            self.allowed.append(self.view())
        self.stream.log.truncate(self.first + len(self.entries))
        self.term += 1

    def remove(self, count):
        """Remove the first segments. A cut may leave some of them."""
        log = self.stream.log
        for _ in range(min(count, len(log.segments) - 1)):
            del self.entries[: log.segments[0].count]
            log.remove_segments(1)
            self.first = log.first_entry
            self.allowed.append(self.view())

    def begin_segment(self):
        if self.stream.log.next_offset > self.stream.log.segments[-1].first_offset:
            self.stream.log.begin_segment(self.stream.now_ms)

    def reset(self):
        self.first = max(1, self.stream.log.last_entry + self.chance.randint(-2, 50))
        self.entries = []
        offset = self.chance.randint(0, self.stream.log.next_offset + 9)
        self.stream.log.reset(SegmentHead(self.first, offset, 1_000, []))

    def write(self):
        self.stream.write()
        self.allowed = []

    def crash(self, point, times):
        """Cut the power now, or when it passes a point."""
        if point is None:
            self.restart()
        else:
            self.stream.disk.dies_at((point, times))

    def check(self):
        """A check of the files finds nothing, whatever the cut has left."""
        if self.directory.exists():
            check = StreamCheck(Disk(), self.directory)
            assert not check.has_problems, [file for file in check.files if file.problems]

    def restart(self):
        self.stream.disk.cut()
        self.check()
        point = self.chance.choice(STREAM_POINTS), 1
        try:
            self.stream.use(PowerCutDisk(self.chance, point))
        except PowerIsOff:
            self.stream.disk.cut()
            self.check()
            self.stream.use(PowerCutDisk(self.chance))
        self.stream.log.segment_bytes = SEGMENT_BYTES
        found = self.found()
        assert found in self.allowed
        self.first, self.entries = found[0], [*found[1]]
        self.allowed = [self.view()]
        self.term += 1
