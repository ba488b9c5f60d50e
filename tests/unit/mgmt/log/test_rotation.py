"""When a log file is rotated by date: the last time at which one was due."""

from datetime import datetime

import pytest

from leveret.broker.config import ConfigError, load_config
from leveret.mgmt.log.rotation import last_turn


@pytest.mark.parametrize(("date", "now", "turn"), [
    ("$D0", "2026-11-22 12:00", "2026-11-22 00:00"),
    ("$D23", "2026-11-22 12:00", "2026-11-21 23:00"),
    ("D23", "2026-11-22 23:00", "2026-11-22 23:00"),
    ("$W0D23", "2026-11-22 12:00", "2026-11-15 23:00"),
    ("$W0D2", "2026-11-22 12:00", "2026-11-22 02:00"),
    ("$W5D16", "2026-11-22 12:00", "2026-11-20 16:00"),
    ("$W0", "2026-11-21 12:00", "2026-11-15 00:00"),
    ("$M1D0", "2026-11-22 12:00", "2026-11-01 00:00"),
    ("$M5D6", "2026-03-04 12:00", "2026-02-05 06:00"),
    ("$M31", "2026-03-04 12:00", "2026-02-28 00:00"),
    ("$ML", "2026-01-04 12:00", "2025-12-31 00:00"),
    ("$H30", "2026-11-22 12:10", "2026-11-22 11:30"),
    ("$H30", "2026-11-22 00:10", "2026-11-21 23:30"),
    ("$H5", "2026-11-22 12:10", "2026-11-22 12:05"),
])  # fmt: skip
def test_the_last_turn(date, now, turn):
    assert last_turn(date)(datetime.fromisoformat(now)) == datetime.fromisoformat(turn)


@pytest.mark.parametrize("date", ["$D24", "$W7", "$M32", "daily", "$D", "$M0"])
def test_invalid_dates(tmp_path, date):
    file = tmp_path / "rabbitmq.conf"
    file.write_text(f"log.file.rotation.date = {date}\n")
    with pytest.raises(ConfigError, match="line 1: log.file.rotation.date"):
        load_config(file, {}, {})
