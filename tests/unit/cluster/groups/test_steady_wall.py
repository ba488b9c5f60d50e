"""The wall clock of groups while the system's clock is set (cluster/groups/steady_wall.py)."""

from types import SimpleNamespace

from leveret.cluster.groups.steady_wall import SteadyWall

HOUR_MS = 3_600_000


def test_a_step_back_is_made_up_for_slowly_and_a_step_forward_at_once():
    now = SimpleNamespace(ms=0, step_ms=0)
    wall = SteadyWall(
        SimpleNamespace(
            now_ms=lambda: now.ms, wall_time_s=lambda: (HOUR_MS + now.ms + now.step_ms) / 1000
        )
    )
    now.ms = 1000
    assert wall.ms() == HOUR_MS + 1000
    now.step_ms = -60_000
    assert wall.ms() == HOUR_MS + 1000
    now.ms = 101_000
    assert wall.ms() == HOUR_MS + 100_000
    now.ms = 101_000 + 100 * 59_000
    assert wall.ms() == HOUR_MS + now.ms - 60_000
    now.step_ms = HOUR_MS
    assert wall.ms() == 2 * HOUR_MS + now.ms
