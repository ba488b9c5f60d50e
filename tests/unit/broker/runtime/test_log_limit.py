"""Lines that others can cause are limited, and the missing ones are counted."""

from leveret.broker.runtime.log_limit import LINES_A_MINUTE, MINUTE_MS, SUBJECTS_MAX, LogLimit


def test_a_subject_has_a_few_lines_a_minute():
    limit = LogLimit()
    assert [limit.permit("one", 0) for _ in range(6)] == [""] * LINES_A_MINUTE + [None] * 3
    assert limit.permit("another", 0) == ""
    assert limit.permit("one", MINUTE_MS) == " (3 more such lines were left out)"
    assert limit.permit("one", MINUTE_MS) == ""


def test_subjects_beyond_the_limit_share_one():
    limit = LogLimit()
    permitted = [limit.permit(f"subject {number}", 0) for number in range(10 * SUBJECTS_MAX)]
    assert sum(one is not None for one in permitted) == SUBJECTS_MAX + LINES_A_MINUTE


def test_subjects_that_are_quiet_make_room():
    limit = LogLimit()
    for number in range(SUBJECTS_MAX):
        limit.permit(f"subject {number}", 0)
    later = 2 * MINUTE_MS
    assert [limit.permit(f"new {number}", later) for number in range(SUBJECTS_MAX)] == (
        [""] * SUBJECTS_MAX
    )
