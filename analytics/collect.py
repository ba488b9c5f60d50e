"""Collects the aggregates of a report from the tables that the job has written.

Only sums are collected, and each query has a limit, so a report of a year needs no more memory than
one of an hour. Queues beyond the busiest `QUEUES_MAX` are counted in the totals only.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from leveret.analytics.aggregates import (
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
from leveret.analytics.output import BY_NAME, read_table

HEAT_QUEUES = 6
FEW = 50
SHORT_LIVED_US = 10_000_000

Rows = Sequence[Any]


def collect(session: SparkSession, out: str) -> Aggregates:
    """Return the aggregates of the tables below `out`."""
    for name in BY_NAME:
        read_table(session, out, name).createOrReplaceTempView(name)
    return collect_views(session)


def collect_views(session: SparkSession) -> Aggregates:
    """Return the aggregates of the tables, which exist as views."""
    return _Collecting(session).all()


class _Collecting:
    """Runs the queries and holds what they have returned so far."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self.data = Aggregates()

    def _rows(self, query: str, limit: int = ROWS_MAX) -> Rows:
        return self._session.sql(f"{query} limit {limit}").collect()

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
        for row in rows:
            data.events[row.event] = data.events.get(row.event, 0) + row.events
            data.sample = max(data.sample, row.sample or 1)
        data.vhosts = sorted({row.vhost for row in rows if row.vhost is not None})
        data.nodes = sorted({row.node for row in rows if row.node is not None})
        firsts = [row["first"] for row in rows if row["first"] is not None]
        if firsts:
            data.begins_us = min(firsts) // MINUTE_US * MINUTE_US
            data.ends_us = max(row["last"] for row in rows if row["last"] is not None) + 1
        minutes = -(-(data.ends_us - data.begins_us) // MINUTE_US)
        data.step_minutes = max(1, -(-minutes // STEPS_MAX))
        data.column_steps = max(1, -(-data.steps // COLUMNS_MAX))

    def _step(self, minutes: int | None = None) -> str:
        """Return SQL for the step of a minute."""
        size = (minutes or self.data.step_minutes) * MINUTE_US
        return f"cast((unix_micros(minute) - {self.data.begins_us}) div {size} as int)"

    # Series

    def _totals(self) -> None:
        published = (
            "case when kind = 'exchange' then published else 0 end",
            "case when kind = 'queue' then delivered else 0 end",
            "case when kind = 'queue' then acknowledged else 0 end",
        )
        sums = ", ".join(f"sum({column})" for column in published)
        rows = self._rows(
            f"select {self._step()} step, {sums} from traffic"
            " where kind in ('exchange', 'queue') group by 1",
            STEPS_MAX,
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
        by_queue = {Queue(row.vhost, row.name): QueueSeries(Queue(row.vhost, row.name))
                    for row in busiest}  # fmt: skip
        self.data.queues = list(by_queue.values())
        [counted] = self._rows(
            "select count(distinct vhost, name) queues from traffic where kind = 'queue'"
        )
        self.data.queues_total = counted.queues
        self._session.createDataFrame(
            [tuple(queue) for queue in by_queue], "vhost string, queue string"
        ).createOrReplaceTempView("busiest")
        step = self._step()
        columns = {
            ("came", "delivered", "acknowledged"):
                "select vhost, name queue, {step}, sum(published), sum(delivered),"
                " sum(acknowledged) from traffic left semi join busiest on traffic.vhost ="
                " busiest.vhost and traffic.name = busiest.queue where kind = 'queue'"
                " group by 1, 2, 3",
            ("wait_p99_us", "ack_p99_us"):
                "select vhost, queue, {step}, max(wait_p99_us), max(ack_p99_us) from latency"
                " left semi join busiest using (vhost, queue) group by 1, 2, 3",
            ("ready", "unacked"):
                "select vhost, queue, {step}, max(ready_max), max(unacked_max) from depth"
                " left semi join busiest using (vhost, queue) group by 1, 2, 3",
        }  # fmt: skip
        for names, query in columns.items():
            for vhost, queue, at, *values in self._rows(
                query.format(step=step), QUEUES_MAX * STEPS_MAX
            ):
                for name, value in zip(names, values, strict=True):
                    if value is not None:
                        getattr(by_queue[Queue(vhost, queue)], name)[at] = value
        for row in self._rows(
            "select vhost, queue, max_by(ready, minute) ready from depth"
            " left semi join busiest using (vhost, queue) group by 1, 2",
            QUEUES_MAX,
        ):
            by_queue[Queue(row.vhost, row.queue)].ready_at_end = row.ready or 0

    def _heat(self) -> None:
        step = self._step(self.data.step_minutes * self.data.column_steps)
        wanted = [None, *(series.queue for series in self.data.queues[:HEAT_QUEUES])]
        for vhost, queue, column, bound, messages in self._rows(
            f"select vhost, queue, {step}, up_to_us, sum(messages) from latency_histogram"
            " left semi join busiest using (vhost, queue) where measure = 'wait'"
            " group by vhost, queue, 3, up_to_us",
            QUEUES_MAX * COLUMNS_MAX * 64,
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
            " max(last_ack_us) from consumers group by 1, 2, 3, 4 order by 7 desc, 5 desc"
        )
        self.data.consumers = [Consumer(Queue(row[0], row[1]), *row[2:]) for row in rows]
        fates = self._rows(
            "select vhost, queue, fate, sum(messages) messages from outcomes group by 1, 2, 3"
            " order by 4 desc"
        )
        self.data.outcomes = {
            (Queue(row.vhost, row.queue), row.fate): row.messages for row in fates
        }

    def _messages(self) -> None:
        data = self.data
        poison = self._rows(
            "select vhost, queue, count(*), max(deliveries), max_by(message, deliveries),"
            " max_by(message_id, deliveries), max_by(fate, deliveries) from poison group by 1, 2"
            " order by 4 desc",
            FEW,
        )
        data.poison = [Poison(Queue(row[0], row[1]), *row[2:]) for row in poison]
        [repeated] = self._rows("select count(*) ids from duplicates")
        data.duplicates_total = repeated.ids
        duplicates = self._rows(
            "select vhost, message_id, messages from duplicates order by messages desc", FEW
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
            " count_if(coalesce(size(queues), 0) <= 0), min(time_us), max(time_us)"
            " from dead_letters group by 1, 2, 3, 4 order by 5 desc"
        )
        self.data.deaths = [Deaths(Queue(row[0], row[1]), *row[2:]) for row in rows]
        unroutable = self._rows(
            "select vhost, exchange, routing_key, sum(messages), sum(returned), any_value(user),"
            " any_value(connection) from unroutable group by 1, 2, 3 order by 4 desc",
            FEW,
        )
        self.data.unroutable = [Unroutable(*map(_text_or_number, row)) for row in unroutable]

    def _traffic(self) -> None:
        data = self.data
        hot = self._rows(
            "select vhost, exchange, routing_key, max(messages), max(share) from routing_keys"
            " where temperature = 'hot' group by 1, 2, 3 order by 4 desc",
            FEW,
        )
        data.hot_keys = [HotKey(*row) for row in hot]
        edges = self._rows(
            "select vhost, source_kind, source, target_kind, target, dead_letters, sum(messages)"
            " from topology group by 1, 2, 3, 4, 5, 6 order by 7 desc"
        )
        data.topology = [Edge(*row) for row in edges]
        churn = self._rows(
            f"select {self._step()}, sum(opened) from connection_churn group by 1 having"
            " sum(opened) > 0",
            STEPS_MAX,
        )
        data.churn = dict(_pairs(churn))
        short = self._rows(
            f"select user, count(*) from connections where lived_us < {SHORT_LIVED_US}"
            " group by 1 order by 2 desc",
            FEW,
        )
        data.short_lived = dict(_pairs(short))

    def _trace(self) -> None:
        data = self.data
        anomalies = self._rows(
            "select unix_micros(minute), score, reason from anomalies order by abs(score) desc", FEW
        )
        data.anomalies = [Anomaly(*row) for row in anomalies]
        [gaps] = self._rows("select count(*), coalesce(sum(lost), 0), min(time_us) from gaps")
        data.gaps, data.lost_records, data.first_gap_us = gaps[0], gaps[1], gaps[2] or 0
        rejected = self._rows(
            "select reason, count(*), min(file) from rejected group by 1 order by 2 desc", FEW
        )
        data.rejected = [Rejected(*map(_text_or_number, row)) for row in rejected]


def _pairs(rows: Rows) -> Iterator[tuple[Any, Any]]:
    return ((row[0], row[1]) for row in rows)


def _text_or_number(value: Any) -> Any:
    return "" if value is None else value
