"""Collects the aggregates of a report from the tables that the job has written.

Only sums are collected, and each query has a limit, so a report of a year needs no more memory than
one of an hour. Queues beyond the busiest `QUEUES_MAX` are counted in the totals only.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from leveret.analytics.report.aggregates import (
    COLUMNS_MAX,
    MINUTE_US,
    QUEUES_MAX,
    ROWS_MAX,
    STEPS_MAX,
    Aggregates,
    Anomaly,
    Consumer,
    Deaths,
    Duplicate,
    Edge,
    HotKey,
    Poison,
    Queue,
    QueueSeries,
    Rejected,
    Size,
    Unroutable,
)
from leveret.analytics.tables.engine import Engine, Row
from leveret.analytics.tables.tables import BY_NAME

HEAT_QUEUES = 6
FEW = 50
_QUEUE_COLUMNS = pa.schema([("vhost", pa.string()), ("queue", pa.string())])
SHORT_LIVED_US = 10_000_000

_SINCE = "(unix_micros(minute) - :begins_us)"
STEP = f"cast(({_SINCE} - {_SINCE} % :size_us) / :size_us as int)"
"""SQL for the step of a minute."""

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
    """Runs the queries and holds what they have returned so far."""

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
        self._messages()
        self._dead_letters()
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
            data.begins_us = min(firsts) // MINUTE_US * MINUTE_US
            data.ends_us = max(last for *_, last in rows if last is not None) + 1
        minutes = -(-(data.ends_us - data.begins_us) // MINUTE_US)
        data.step_minutes = max(1, -(-minutes // STEPS_MAX))
        data.column_steps = max(1, -(-data.steps // COLUMNS_MAX))

    def _scale(self, steps: int = 1) -> dict[str, int]:
        """Return the values of STEP, for columns of so many steps."""
        size_us = self.data.step_minutes * steps * MINUTE_US
        return {"begins_us": self.data.begins_us, "size_us": size_us}

    # Series

    def _totals(self) -> None:
        published = (
            "case when kind = 'exchange' then published else 0 end",
            "case when kind = 'queue' then delivered else 0 end",
            "case when kind = 'queue' then acknowledged else 0 end",
        )
        sums = ", ".join(f"sum({column})" for column in published)
        rows = self._rows(
            f"select {STEP} step, {sums} from traffic"
            " where kind in ('exchange', 'queue') group by 1 order by 1",
            STEPS_MAX,
            **self._scale(),
        )
        data = self.data
        for step, *values in rows:
            series = (data.published, data.delivered, data.acknowledged)
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
        columns = {
            ("came", "delivered", "acknowledged"):
                f"select vhost, name queue, {STEP}, sum(published), sum(delivered),"
                " sum(acknowledged) from traffic semi join busiest on traffic.vhost ="
                " busiest.vhost and traffic.name = busiest.queue where kind = 'queue'"
                " group by 1, 2, 3 order by 1, 2, 3",
            ("wait_p99_us", "ack_p99_us"):
                f"select vhost, queue, {STEP}, max(wait_p99_us), max(ack_p99_us) from latency"
                " semi join busiest using (vhost, queue) group by 1, 2, 3 order by 1, 2, 3",
            ("ready", "unacked"):
                f"select vhost, queue, {STEP}, max(ready_max), max(unacked_max) from depth"
                " semi join busiest using (vhost, queue) group by 1, 2, 3 order by 1, 2, 3",
        }  # fmt: skip
        for names, query in columns.items():
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

    def _heat(self) -> None:
        wanted = [None, *(series.queue for series in self.data.queues[:HEAT_QUEUES])]
        for vhost, queue, column, bound, messages in self._rows(
            f"select vhost, queue, {STEP}, up_to_us, sum(messages) from latency_histogram"
            " semi join busiest using (vhost, queue) where measure = 'wait'"
            " group by vhost, queue, 3, up_to_us order by 1, 2, 3, 4",
            QUEUES_MAX * COLUMNS_MAX * 64,
            **self._scale(self.data.column_steps),
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
            "select vhost, queue, connection, consumer_tag, sum(delivered), sum(acknowledged),"
            " sum(unacknowledged), max(ack_p50_us), min(first_us), max(last_delivery_us),"
            " max(last_ack_us) from consumers group by 1, 2, 3, 4"
            " order by 7 desc, 5 desc, 1, 2, 3, 4"
        )
        self.data.consumers = [Consumer(Queue(row[0], row[1]), *row[2:]) for row in rows]
        fates = self._rows(
            "select vhost, queue, fate, sum(messages) messages from outcomes group by 1, 2, 3"
            " order by 4 desc, 1, 2, 3"
        )
        self.data.outcomes = {
            (Queue(vhost, queue), fate): messages for vhost, queue, fate, messages in fates
        }

    def _messages(self) -> None:
        data = self.data
        poison = self._rows(
            "select vhost, queue, count(*), max(deliveries), max_by(message, deliveries),"
            " max_by(message_id, deliveries), max_by(fate, deliveries) from poison group by 1, 2"
            " order by 4 desc, 1, 2",
            FEW,
        )
        data.poison = [Poison(Queue(row[0], row[1]), *row[2:]) for row in poison]
        [(data.duplicates_total,)] = self._rows("select count(*) from duplicates")
        duplicates = self._rows(
            "select vhost, message_id, messages from duplicates order by messages desc, 1, 2", FEW
        )
        data.duplicates = [Duplicate(*row) for row in duplicates]
        data.sizes = [
            Size(*row) for row in self._rows(
                "select up_to_bytes, sum(messages) from sizes group by 1 order by 1", 64
            )
        ]  # fmt: skip

    def _dead_letters(self) -> None:
        rows = self._rows(
            "select vhost, queue, reason, coalesce(exchange, '') exchange, count(*),"
            " count_if(coalesce(array_size(queues), 0) = 0), min(time_us), max(time_us)"
            " from dead_letters group by 1, 2, 3, 4 order by 5 desc, 1, 2, 3, 4"
        )
        self.data.deaths = [Deaths(Queue(row[0], row[1]), *row[2:]) for row in rows]
        unroutable = self._rows(
            "select vhost, exchange, routing_key, sum(messages), sum(returned), min(user),"
            " min(connection) from unroutable group by 1, 2, 3 order by 4 desc, 1, 2, 3",
            FEW,
        )
        self.data.unroutable = [Unroutable(*map(_text_or_number, row)) for row in unroutable]

    def _traffic(self) -> None:
        data = self.data
        hot = self._rows(
            "select vhost, exchange, routing_key, max(messages), max(share) from routing_keys"
            " where temperature = 'hot' group by 1, 2, 3 order by 4 desc, 1, 2, 3",
            FEW,
        )
        data.hot_keys = [HotKey(*row) for row in hot]
        edges = self._rows(
            "select vhost, source_kind, source, target_kind, target, dead_letters, sum(messages)"
            " from topology group by 1, 2, 3, 4, 5, 6 order by 7 desc, 1, 2, 3, 4, 5, 6"
        )
        data.topology = [Edge(*row) for row in edges]
        churn = self._rows(
            f"select {STEP}, sum(opened) from connection_churn group by 1 having"
            " sum(opened) > 0 order by 1",
            STEPS_MAX,
            **self._scale(),
        )
        data.churn = dict(_pairs(churn))
        short = self._rows(
            "select user, count(*) from connections where lived_us < :lived_us"
            " group by 1 order by 2 desc, 1",
            FEW,
            lived_us=SHORT_LIVED_US,
        )
        data.short_lived = dict(_pairs(short))

    def _trace(self) -> None:
        data = self.data
        anomalies = self._rows(
            "select unix_micros(minute), score, reason from anomalies"
            " order by abs(score) desc, 1, 3",
            FEW,
        )
        data.anomalies = [Anomaly(*row) for row in anomalies]
        [gaps] = self._rows("select count(*), coalesce(sum(lost), 0), min(time_us) from gaps")
        data.gaps, data.lost_records, data.first_gap_us = gaps[0], gaps[1], gaps[2] or 0
        rejected = self._rows(
            "select reason, count(*), min(file) from rejected group by 1 order by 2 desc, 1", FEW
        )
        data.rejected = [Rejected(*map(_text_or_number, row)) for row in rejected]


def _pairs(rows: Rows) -> Iterator[tuple[Any, Any]]:
    return ((row[0], row[1]) for row in rows)


def _text_or_number(value: Any) -> Any:
    return "" if value is None else value
