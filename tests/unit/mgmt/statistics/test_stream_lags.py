"""The lags of a stream's consumers over time, by their names, and on several nodes."""

from leveret.mgmt.node_facade.facts import StreamFacts
from leveret.mgmt.statistics.stream_lags import NAMES_MAX, StreamLags, StreamUse
from leveret.mgmt.views.stream_lags import add_part

PLACE = "/", "s"


def use(first=0, end=100, **lags):
    return StreamUse(StreamFacts(first, end, 0, []), lags)


def test_a_name_has_samples_while_it_has_consumers():
    lags = StreamLags()
    lags.sample(1000, {PLACE: use(audit=1, billing=5)})
    lags.sample(6000, {PLACE: use(billing=7)})
    assert {name: series.last for name, series in lags.of(PLACE).items()} == {"billing": (7,)}
    lags.sample(11_000, {PLACE: use()})
    assert lags.of(PLACE) == {}


def test_of_very_many_names_those_that_are_furthest_behind_have_samples():
    lags = StreamLags()
    lags.sample(1000, {PLACE: use(first_one=0)})
    many = {f"c{number}": number for number in range(100)}
    lags.sample(6000, {PLACE: use(first_one=0, **many)})
    found = lags.of(PLACE)
    assert list(found) == ["first_one", *(f"c{99 - number}" for number in range(NAMES_MAX - 1))]


def test_retention_may_overtake_a_consumer_once_it_has_removed_messages():
    assert use(0, 100, slow=100).near_retention == 0
    assert use(50, 150, slow=91, late=100, quick=90).near_retention == 2


def test_of_a_group_on_several_nodes_the_active_member_counts():
    def part(lag, *samples):
        return {"lag": lag, "lag_details": {"samples": [{"sample": one} for one in samples]}}

    shown = {"group": part(0, 0, 0), "own": part(3)}
    add_part(shown, {"group": part(5, 5, 4), "other": part(1)}, "two")
    add_part(shown, {"group": part(0, 0, 0)}, "three")
    assert {name: one["lag"] for name, one in shown.items()} == {"group": 5, "own": 3, "other": 1}
