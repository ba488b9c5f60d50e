"""Which messages the log has on disk, by the batches they were appended in."""

from leveret.storage.log.log_batches import LogBatches

NEXT = 100


def test_nothing_was_appended():
    assert LogBatches().logged_to(0, NEXT) == NEXT


def test_a_batch_that_gathers_is_not_on_disk():
    batches = LogBatches()
    batches.begin(10, 1)
    assert batches.logged_to(0, NEXT) == 10
    assert batches.logged_to(1, NEXT) == NEXT


def test_one_batch_gathers_while_another_is_written():
    batches = LogBatches()
    batches.begin(10, 1)
    batches.begin(20, 2)
    assert batches.logged_to(0, NEXT) == 10
    assert batches.logged_to(1, NEXT) == 20
    assert batches.logged_to(2, NEXT) == NEXT
