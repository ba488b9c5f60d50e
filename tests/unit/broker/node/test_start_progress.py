"""A start that takes long says how far it is, and one that does not says nothing."""

from leveret.broker.node.start_progress import StartProgress


def test_the_first_line_comes_after_a_second_and_others_every_two(caplog):
    caplog.set_level("INFO", "leveret.broker")
    now_s = 5.0
    progress = StartProgress(lambda: now_s)
    reading = progress.of_step("reading the log", "MB", 1_000_000)
    restoring = progress.of_step("restoring queues", "queues")
    for tenth in range(36):
        now_s = 5 + tenth / 10
        if tenth < 20:
            reading(tenth * 1_000_000, 36_000_000)
        else:
            restoring(tenth, 36)
    assert caplog.messages == [
        "starting: reading the log: 10 of 36 MB",
        "starting: restoring queues: 30 of 36 queues",
    ]


def test_a_short_start_says_nothing(caplog):
    caplog.set_level("INFO", "leveret.broker")
    now_s = 5.0
    note = StartProgress(lambda: now_s).of_step("restoring queues", "queues")
    now_s = 5.9
    note(1, 2)
    assert caplog.messages == []
