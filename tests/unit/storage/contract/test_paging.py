"""Distribution of memory between queues."""

from hypothesis import given
from hypothesis import strategies as st

from leveret.storage.contract.paging import DURATION_SECONDS, Figures, targets

FIGURES = st.lists(
    st.builds(
        Figures,
        pageable_bytes=st.integers(0, 10**9),
        rate=st.floats(0, 1e8),
        is_lazy=st.booleans(),
    ),
    max_size=8,
)


def test_within_the_budget_all_may_keep_everything():
    assert targets([Figures(100, 0, False), Figures(200, 5, False)], 300) is None


def test_an_idle_queue_gives_way_to_a_busy_one():
    idle, busy = targets([Figures(10_000, 0, False), Figures(10_000, 900, False)], 10_000)
    demand = 900 * DURATION_SECONDS
    # The remaining thousand bytes are shared by what each queue holds beyond its demand.
    assert busy == demand + 1000 * 1000 // 11_000
    assert idle == 10_000 * 1000 // 11_000


def test_busy_queues_share_a_short_budget_by_their_rates():
    slow, fast = targets([Figures(10**6, 1000, False), Figures(10**6, 3000, False)], 20_000)
    assert (slow, fast) == (5000, 15_000)


def test_a_lazy_queue_may_keep_nothing():
    assert targets([Figures(10_000, 900, True), Figures(300, 0, False)], 200) == [0, 200]


@given(FIGURES, st.integers(-(10**6), 10**9))
def test_no_queue_gets_more_than_it_holds_nor_all_more_than_the_budget(queues, budget):
    found = targets(queues, budget)
    if found is None:
        return
    assert len(found) == len(queues)
    assert all(
        0 <= target <= queue.pageable_bytes for target, queue in zip(found, queues, strict=True)
    )
    assert sum(found) <= max(0, budget)
