"""The number of a start grows, whatever the clock says."""

from leveret.cluster.links.incarnation import INCARNATION_FILE, next_incarnation


def test_it_is_the_time_in_microseconds(tmp_path):
    assert next_incarnation(tmp_path, 1_700_000_000.5) == 1_700_000_000_500_000
    assert next_incarnation(tmp_path, 1_700_000_009.0) == 1_700_000_009_000_000


def test_it_grows_when_the_clock_was_put_back_by_hours(tmp_path):
    first = next_incarnation(tmp_path, 1_700_000_000)
    assert next_incarnation(tmp_path, 1_600_000_000) == first + 1
    assert next_incarnation(tmp_path, 1_600_000_000) == first + 2


def test_a_damaged_file_is_logged_and_the_clock_counts(tmp_path, caplog):
    for content in (b"", b"-5", b"x", b"9" * 30):
        (tmp_path / INCARNATION_FILE).write_bytes(content)
        assert next_incarnation(tmp_path, 1) == 1_000_000
        assert "does not contain the number of a start" in caplog.text
        caplog.clear()
