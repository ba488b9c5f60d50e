"""Sets aside records with implausible times: a single wrong year would stretch every series.

Days that have records and are less than 30 days apart form a span. The span with most records is
used; so is another one that has at least 1% of the records and is of the years 2007 to 2099. The
records of other spans are set aside.
"""

from typing import NamedTuple

from leveret.analytics.tables.engine import Engine

DAY_US, DAYS_APART = 86_400_000_000, 30
PART_MIN = 0.01
FIRST_US, LAST_US = 1_167_609_600_000_000, 4_102_444_800_000_000
"""From the year in which RabbitMQ appeared to the end of this century."""
SPANS_MAX = 1_000

DAYS = f"""
    select time_us - time_us % {DAY_US} as day_us, count(*) as records,
        min(time_us) as first_us, max(time_us) as last_us
    from valid where time_us is not null group by 1
"""
"""The view `days`."""

_SPANS = f"""
    with begun as (
        select *, if(day_us - lag(day_us) over (order by day_us) < {DAYS_APART * DAY_US}, 0, 1)
            as begins
        from days
    ), numbered as (
        select *, sum(begins) over (order by day_us) as span from begun
    )
    select min(first_us), max(last_us), cast(sum(records) as bigint) as records
    from numbered group by span order by records desc, 1 limit {SPANS_MAX}
"""


class Span(NamedTuple):
    """Records whose days are less than 30 days apart: times of the first and last, number."""

    first_us: int
    last_us: int
    records: int


def implausible(engine: Engine) -> list[Span]:
    """Create the view `plausible` of the view `valid`, and return the spans that it leaves out."""
    engine.view("days", DAYS)
    used, set_aside = spans(engine)
    view_plausible(engine, used if set_aside else None)
    return set_aside


def view_plausible(engine: Engine, used: list[Span] | None) -> None:
    """Create the view `plausible` of the records in some spans; None for all."""
    query = "select * from valid"
    if used is not None:
        ranges = " or ".join(f"time_us between {one.first_us} and {one.last_us}" for one in used)
        query = f"{query} where {ranges}"
    engine.view("plausible", query)


def spans(engine: Engine) -> tuple[list[Span], list[Span]]:
    """Return the spans to use, and those to set aside, of the view `days`."""
    return chosen([Span(*row) for row in engine.rows(_SPANS)])


def chosen(spans: list[Span]) -> tuple[list[Span], list[Span]]:
    """Return the spans to use, and those to set aside. spans: the largest first."""
    total = sum(one.records for one in spans)
    used = [
        one for place, one in enumerate(spans)
        if place == 0
        or (one.records >= PART_MIN * total and FIRST_US <= one.first_us < LAST_US)
    ]  # fmt: skip
    return used, [one for one in spans if one not in used]
