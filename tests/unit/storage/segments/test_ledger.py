"""What a restart has to know of a queue, and the records that say it."""

from leveret.storage.messages.formats import UNCOUNTED, decode_progress, decode_state, read_record
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message import Entry, Message
from leveret.storage.segments.ledger import SEGMENT_POSITIONS, Ledger, positions_of, segment_number
from tests.unit.storage.fakes import ADDRESS

KEY = 7


def progress_of(ledger):
    return decode_progress(read_record(ledger.take_progress(), 0).head)


def state_of(ledger):
    return decode_state(read_record(ledger.encode_state(3, 500, False), 0).head)


def entries_at(*positions, size=10):
    return [Entry(Message(ADDRESS, None, bytes(size)), position) for position in positions]


def test_progress_is_recorded_once():
    ledger = Ledger(KEY)
    assert ledger.take_progress() is None
    ledger.fetched_to = 3
    ledger.all_gone(entries_at(0, 1), 100)
    assert ledger.is_gone(1)
    assert 1 not in ledger.gone
    progress = progress_of(ledger)
    assert (progress.key, progress.fetched_to, progress.gone) == (KEY, 3, [(0, 2)])
    assert 1 in ledger.gone
    assert ledger.take_progress() is None


def test_a_state_has_fresh_entries_and_so_has_the_next_progress():
    ledger = Ledger(KEY)
    ledger.flushed_to, ledger.segment_bytes = 10, 100
    ledger.all_gone(entries_at(2), 100)
    state = state_of(ledger)
    assert (state.flushed_to, state.segment_bytes, state.tail_number) == (10, 90, 3)
    assert list(state.gone) == [(2, 3)]
    assert progress_of(ledger).gone == [(2, 3)]


def test_bytes_that_leave_segments_after_the_state_are_in_the_progress():
    ledger = Ledger(KEY)
    ledger.flushed_to, ledger.segment_bytes = 10, 100
    state_of(ledger)
    ledger.all_gone(entries_at(2, 3, 11), 100)
    assert ledger.segment_bytes == 80
    assert progress_of(ledger).segment_bytes == 20


def test_only_large_bodies_in_segments_are_garbage_of_the_message_store():
    ledger = Ledger(KEY)
    ledger.flushed_to = 5
    assert ledger.all_gone(entries_at(1, size=99), embed_below=100) == 0
    assert ledger.all_gone(entries_at(2, 4, 6, size=100), embed_below=100) == 200
    assert list(ledger.fresh) == [(1, 3), (4, 5), (6, 7)]


def test_positions_that_are_settled_join_those_that_are_gone():
    ledger = Ledger(KEY)
    ledger.gone = Intervals([(0, 2), (4, 6), (9, 10)])
    ledger.settled_each(entries_at(2, 3, 6, 12, 13))
    assert list(ledger.fresh) == [(0, 7), (12, 14)]
    ledger.settled_each(entries_at(14, 8))
    assert list(ledger.fresh) == [(0, 7), (8, 10), (12, 15)]


def test_a_loss_is_not_counted():
    ledger = Ledger(KEY)
    ledger.flushed_to, ledger.segment_bytes = 10, 100
    ledger.lost(30)
    ledger.fresh.add_range(0, 5)
    assert progress_of(ledger).segment_bytes == UNCOUNTED
    assert state_of(ledger).segment_bytes == UNCOUNTED


def test_while_many_messages_are_counted_no_record_has_the_bytes():
    ledger = Ledger(KEY)
    ledger.flushed_to, ledger.segment_bytes = 10, 100
    ledger.begin_count()
    ledger.fresh.add_range(0, 5)
    assert progress_of(ledger).segment_bytes == UNCOUNTED
    ledger.left_segment(0, 20)
    assert state_of(ledger).segment_bytes == UNCOUNTED
    ledger.left_segment(1, 20)
    ledger.end_count()
    assert state_of(ledger).segment_bytes == 60


def test_segments_whose_transient_messages_are_all_gone_are_not_named():
    ledger = Ledger(KEY)
    ledger.transient_segments = {0, 1}
    ledger.fresh.add_range(0, SEGMENT_POSITIONS)
    assert state_of(ledger).transient_segments == [1]


def test_a_restart_goes_on_from_the_state():
    ledger, other = Ledger(KEY), Ledger(KEY)
    ledger.flushed_to, ledger.fetched_to, ledger.segment_bytes = 10, 4, 60
    ledger.gone = Intervals([(0, 4)])
    other.restore(state_of(ledger))
    assert (other.flushed_to, other.fetched_to, other.segment_bytes) == (10, 4, 60)
    assert other.gone == ledger.gone
    assert other.take_progress() is None


def test_segments_hold_positions_in_a_row():
    assert segment_number(SEGMENT_POSITIONS - 1) == 0
    assert positions_of(2) == (2 * SEGMENT_POSITIONS, 3 * SEGMENT_POSITIONS)
