"""Collects the aggregates of a report from the tables that the job has written.

Only sums are collected, and each query has a limit, so a report of a year needs no more memory than
one of an hour. Queues beyond the busiest `QUEUES_MAX` are counted in the totals only.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from leveret.analytics.findings.finding import Queue
from leveret.analytics.formatting import MINUTE_US
from leveret.analytics.report.aggregates import (
    ACTIVITY_US,
    COLUMNS_MAX,
    QUEUES_MAX,
    ROWS_MAX,
    STEPS_MAX,
    Aggregates,
    Anomaly,
    Edge,
    QueueSeries,
    ReportedConsumer,
    Size,
)
from leveret.analytics.report.topology_groups import grouped
from leveret.analytics.tables.engine import Engine, Row
from leveret.analytics.tables.percentiles import percentile
from leveret.analytics.tables.tables import BY_NAME

HEAT_QUEUES = 6
FEW = 50
EDGES_MAX = 5_000
"""Edges of the topology that are read; most of those of hundreds of connections become a few."""
_QUEUE_COLUMNS = pa.schema([("vhost", pa.string()), ("queue", pa.string())])

_USER_COLUMN = pa.schema([("user", pa.string())])
_IN_STEPS = "cast(({0} - {0} % :size_us) / :size_us as int)"
STEP = _IN_STEPS.format("(at_us - :begins_us)")
STEP_OF_MINUTE = _IN_STEPS.format("greatest(0, unix_micros(minute) - :begins_us)")
"""SQL for the step of ten seconds, and of a minute, which may begin before the first step."""
_SERIES = {
    ("came", "delivered", "acknowledged", "ready", "unacked", "wait_max_us"):
        f"select vhost, queue, {STEP}, sum(came), sum(delivered), sum(acknowledged),"
        " max(ready_max), max(unacked_max), max(wait_max_us) from queue_activity"
        " semi join busiest using (vhost, queue) group by vhost, queue, 3 order by 1, 2, 3",
    ("hold_p50_us", "hold_max_us"):
        f"select vhost, queue, {STEP}, {percentile('hold_p50_us', 0.5)},"
        " max(hold_max_us) from consumer_activity"
        " semi join busiest using (vhost, queue) group by vhost, queue, 3 order by 1, 2, 3",
}  # fmt: skip


Rows = Sequence[Row]


def collect(engine: Engine, where: str) -> Aggregates:
    """Return the aggregates of the tables below `where`. Raises MissingTablesError."""
    for name in BY_NAME:
        engine.open_table(where, name)
    return collect_views(engine)


def collect_views(engine: Engine) -> Aggregates:
    """Return the aggregates of the tables, which exist as views."""
    return _Collecting(engine).all()


class _Collecting:
    """Runs the queries and holds their results so far."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.data = Aggregates()

    def _rows(self, query: str, limit: int = ROWS_MAX, **values: int) -> Rows:
        return self._engine.rows(f"{query} limit :limit", {**values, "limit": limit})

    def all(self) -> Aggregates:
        """Run all queries."""
        self._summary()
        self._totals()
        self._queues()
        self._heat()
        self._consumers()
        self._publishers()
        self._messages()
        self._traffic()
        self._trace()
        return self.data

    # Time

    def _summary(self) -> None:
        data = self.data
        rows = self._rows(
            "select vhost, node, event, sum(events) events, max(sample) sample,"
            " min(first_us) first, max(last_us) last from summary group by 1, 2, 3 order by 1, 2, 3"
        )
        for _, _, event, events, sample, _, _ in rows:
            data.events[event] = data.events.get(event, 0) + events
            data.sample = max(data.sample, sample or 1)
        data.vhosts = sorted({vhost for vhost, *_ in rows if vhost is not None})
        data.nodes = sorted({node for _, node, *_ in rows if node is not None})
        firsts = [first for *_, first, _ in rows if first is not None]
        if firsts:
            data.begins_us = min(firsts) // ACTIVITY_US * ACTIVITY_US
            data.heat_begins_us = min(firsts) // MINUTE_US * MINUTE_US
            data.ends_us = max(last for *_, last in rows if last is not None) + 1
        tens = -(-(data.ends_us - data.begins_us) // ACTIVITY_US)
        data.step_us = ACTIVITY_US * max(1, -(-tens // STEPS_MAX))
        minutes = -(-(data.ends_us - data.heat_begins_us) // MINUTE_US)
        data.column_us = MINUTE_US * max(1, -(-minutes // COLUMNS_MAX))
        [(data.published,)] = self._rows(
            "select coalesce(sum(published), 0) from traffic where kind = 'exchange'"
        )

    def _scale(self) -> dict[str, int]:
        """Return the values of STEP and STEP_OF_MINUTE."""
        return {"begins_us": self.data.begins_us, "size_us": self.data.step_us}

    # Series

    def _totals(self) -> None:
        rows = self._rows(
            f"select {STEP} step, sum(came), sum(delivered), sum(acknowledged)"
            " from queue_activity group by 1 order by 1",
            STEPS_MAX,
            **self._scale(),
        )
        data = self.data
        for step, *values in rows:
            series = (data.came, data.delivered, data.acknowledged)
            for one, value in zip(series, values, strict=True):
                one[step] = value or 0

    def _queues(self) -> None:
        busiest = self._rows(
            "select vhost, name, sum(published) + sum(delivered) messages from traffic"
            " where kind = 'queue' group by 1, 2 order by 3 desc, 1, 2",
            QUEUES_MAX,
        )
        queues = [Queue(vhost, name) for vhost, name, _ in busiest]
        by_queue = {queue: QueueSeries(queue) for queue in queues}
        self.data.queues = list(by_queue.values())
        [(self.data.queues_total,)] = self._rows(
            "select count(*) from (select distinct vhost, name from traffic where kind = 'queue')"
            " as queues"
        )
        of_busiest = {"vhost": [one.vhost for one in queues], "queue": [one.name for one in queues]}
        self._engine.put("busiest", pa.table(of_busiest, _QUEUE_COLUMNS))
        for names, query in _SERIES.items():
            for vhost, queue, at, *values in self._rows(
                query, QUEUES_MAX * STEPS_MAX, **self._scale()
            ):
                for name, value in zip(names, values, strict=True):
                    if value is not None:
                        getattr(by_queue[Queue(vhost, queue)], name)[at] = value
        for vhost, queue, ready in self._rows(
            "select vhost, queue, max_by(ready, minute) ready from depth"
            " semi join busiest using (vhost, queue) group by 1, 2",
            QUEUES_MAX,
        ):
            by_queue[Queue(vhost, queue)].ready_at_end = ready or 0
        self._worst_minutes(by_queue)

    def _worst_minutes(self, by_queue: dict[Queue, QueueSeries]) -> None:
        for measure in ("wait", "ack"):
            for vhost, queue, longest, minute_us in self._rows(
                f"select vhost, queue, {measure}_p99_us, min(unix_micros(minute)) from latency"
                f" semi join (select vhost, queue, max({measure}_p99_us) as {measure}_p99_us"
                f" from latency group by 1, 2) as worst using (vhost, queue, {measure}_p99_us)"
                " semi join busiest using (vhost, queue) group by 1, 2, 3",
                QUEUES_MAX,
            ):
                setattr(by_queue[Queue(vhost, queue)], f"worst_{measure}", (longest, minute_us))

    def _heat(self) -> None:
        wanted = [None, *(series.queue for series in self.data.queues[:HEAT_QUEUES])]
        for vhost, queue, column, bound, messages in self._rows(
            f"select vhost, queue, {STEP_OF_MINUTE}, up_to_us, sum(messages) from latency_histogram"
            " semi join busiest using (vhost, queue) where measure = 'wait'"
            " group by vhost, queue, 3, up_to_us order by 1, 2, 3, 4",
            QUEUES_MAX * COLUMNS_MAX * 64,
            begins_us=self.data.heat_begins_us,
            size_us=self.data.column_us,
        ):
            for one in (None, Queue(vhost, queue)):
                if one in wanted:
                    cells = self.data.heat.setdefault(one, {})
                    cells[column, bound] = cells.get((column, bound), 0) + messages
        order = {queue: place for place, queue in enumerate(wanted)}
        self.data.heat = dict(sorted(self.data.heat.items(), key=lambda item: order[item[0]]))

    # Rows

    def _consumers(self) -> None:
        rows = self._rows(
            "select vhost, queue, connection, consumer_tag, sum(delivered), sum(no_ack),"
            " sum(acknowledged), sum(unacknowledged), max(ack_p50_us), min(first_us),"
            " max(last_delivery_us), max(last_ack_us) from consumers group by 1, 2, 3, 4"
            " order by 8 desc, 5 desc, 1, 2, 3, 4"
        )
        self.data.consumers = [ReportedConsumer(Queue(row[0], row[1]), *row[2:]) for row in rows]
        for vhost, queue, count in self._rows(
            "select vhost, queue, sum(no_ack) from consumers group by 1, 2 order by 3 desc, 1, 2"
        ):
            if count:
                self.data.no_ack[Queue(vhost, queue)] = count
        self._outcomes()

    def _outcomes(self) -> None:
        """Collect fates; those with a reason are shown by it."""
        outcomes = self.data.outcomes
        for vhost, queue, fate, messages in self._rows(
            "select vhost, queue, fate, sum(messages) messages from outcomes group by 1, 2, 3"
            " order by 4 desc, 1, 2, 3"
        ):
            outcomes[Queue(vhost, queue), fate, None] = messages
        for vhost, queue, fate, reason, count in self._rows(
            "select vhost, queue, fate, reason, count(*) from fates where reason is not null"
            " group by 1, 2, 3, 4 order by 5 desc, 1, 2, 3, 4"
        ):
            key, messages = Queue(vhost, queue), count * self.data.sample
            if (key, fate, None) in outcomes:
                outcomes[key, fate, reason] = messages
                outcomes[key, fate, None] = max(0, outcomes[key, fate, None] - messages)
        self.data.outcomes = {key: count for key, count in outcomes.items() if count}

    def _publishers(self) -> None:
        data = self.data
        busiest = self._rows(
            "select user, sum(messages) from publishers group by 1 order by 2 desc, 1", FEW
        )
        data.publishers_total = {user or "": messages for user, messages in busiest}
        data.publishers = {user: {} for user in data.publishers_total}
        self._engine.put("busiest_users", pa.table({"user": list(data.publishers)}, _USER_COLUMN))
        for user, step, messages in self._rows(
            f"select user, {STEP}, sum(messages) from publishers"
            " semi join busiest_users using (user) group by 1, 2 order by 1, 2",
            FEW * STEPS_MAX,
            **self._scale(),
        ):
            data.publishers[user or ""][step] = messages

    def _messages(self) -> None:
        data = self.data
        data.sizes = [
            Size(*row) for row in self._rows(
                "select up_to_bytes, sum(messages) from sizes group by 1 order by 1", 64
            )
        ]  # fmt: skip

    def _traffic(self) -> None:
        data = self.data
        edges = self._rows(
            "select vhost, source_kind, source, target_kind, target, dead_letters, sum(messages)"
            " from topology group by 1, 2, 3, 4, 5, 6 order by 7 desc, 1, 2, 3, 4, 5, 6",
            EDGES_MAX,
        )
        data.topology = grouped(Edge(*row) for row in edges)[:ROWS_MAX]
        churn = self._rows(
            f"select {STEP_OF_MINUTE}, sum(opened) from connection_churn group by 1 having"
            " sum(opened) > 0 order by 1",
            STEPS_MAX,
            **self._scale(),
        )
        data.churn = dict(_pairs(churn))

    def _trace(self) -> None:
        data = self.data
        anomalies = self._rows(
            "select unix_micros(minute), score, reason from anomalies"
            " order by abs(score) desc, 1, 3",
            FEW,
        )
        data.anomalies = [Anomaly(*row) for row in anomalies]
        faults = self._rows("select sentence from trust order by lost_records desc, 1", FEW)
        data.faults = [sentence for (sentence,) in faults]


def _pairs(rows: Rows) -> Iterator[tuple[Any, Any]]:
    return ((row[0], row[1]) for row in rows)
