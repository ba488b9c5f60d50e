"""Collects what rejected, requeued, expired and dropped messages have in common (trait.py).

The engine counts the values of each property, among these messages and among all messages of their
queues; only the most frequent ones are read.
"""

from typing import NamedTuple

from leveret.analytics.findings.evidence import Evidence
from leveret.analytics.findings.finding import Queue
from leveret.analytics.findings.trait import MESSAGES_MIN, REQUEUED, Trait
from leveret.analytics.formatting import amount
from leveret.analytics.tables.buckets import UP_TO
from leveret.analytics.tables.engine import Engine

VALUES_MAX, ROWS_MAX = 50, 50_000
_SIZE = "size"

_KIND = "user, content_type, app_id, type"
_TOLD = f"""
    select vhost, queue, what, coalesce(exchange, '') as exchange,
        get(routing_keys, 0) as routing_key, connection, consumer_tag, consumer_connection, {_KIND},
        {UP_TO.format("body_size")} as up_to_bytes
    from (
        select vhost, queue, coalesce(reason, fate) as what, exchange, routing_keys, connection,
            consumer_tag, consumer_connection, {_KIND}, body_size
        from fates where fate in ('rejected', 'dead_lettered', 'expired', 'dropped')
        union all
        select vhost, queue, '{REQUEUED}', exchange, routing_keys, connection, null, null, {_KIND},
            body_size
        from poison
    ) as happened where user is not null
"""
_PROPERTIES = {
    "content type": "content_type", "type": "type", "app-id": "app_id", "publisher": "user",
    _SIZE: "cast(up_to_bytes as string)", "publisher connection": "connection",
    "consumer": "consumer_tag", "consumer connection": "consumer_connection",
}  # fmt: skip
"""By their names in sentences. The first one that explains most is told."""
_OF_KIND = ("content type", "type", "app-id", "publisher", _SIZE)

_COUNTED = " union all ".join(
    f"select vhost, queue, what, '{name}' as name, coalesce({column}, '(none)') as value,"
    " count(*) as messages from told group by 1, 2, 3, 5"
    for name, column in _PROPERTIES.items()
)
_USUAL = " union all ".join(
    f"select vhost, queue, '{name}' as name, coalesce({_PROPERTIES[name]}, '(none)') as value,"
    " sum(messages) as messages from kinds group by 1, 2, 4"
    for name in _OF_KIND
)
_USUAL += """
    union all
    select vhost, queue, 'publisher connection', connection, sum(messages) from publishers
    group by 1, 2, 4
    union all
    select vhost, queue, 'consumer', coalesce(consumer_tag, '(none)'), sum(delivered)
    from consumers group by 1, 2, 4
    union all
    select vhost, queue, 'consumer connection', connection, sum(delivered)
    from consumers group by 1, 2, 4
"""
_TRAITS = f"""
    with counted as ({_COUNTED}), usual as ({_USUAL}), placed as (
        select *, sum(messages) over (partition by vhost, queue, what, name) as in_all,
            row_number() over (partition by vhost, queue, what, name
                order by messages desc, value) as place
        from counted
    ), sums as (
        select vhost, queue, name, sum(messages) as all_usual from usual group by 1, 2, 3
    )
    select vhost, queue, what, name, value, placed.messages, in_all,
        coalesce(usual.messages, 0) as usual_messages, all_usual
    from placed join sums using (vhost, queue, name)
        left join usual using (vhost, queue, name, value)
    where place <= {VALUES_MAX} and in_all >= {MESSAGES_MIN}
"""
_KEYS = f"""
    with counted as (
        select vhost, queue, what, exchange, routing_key, count(*) as messages from told
        where exchange != '' and routing_key is not null group by 1, 2, 3, 4, 5
    ), placed as (
        select *, sum(messages) over (partition by vhost, queue, what, exchange) as in_all,
            row_number() over (partition by vhost, queue, what, exchange
                order by messages desc, routing_key) as place
        from counted
    ), usual as (
        select vhost, exchange, routing_key, sum(messages) as usual_messages from routing_keys
        group by 1, 2, 3
    ), sums as (
        select vhost, exchange, sum(usual_messages) as all_usual from usual group by 1, 2
    )
    select vhost, queue, what, 'routing key', routing_key, messages, in_all,
        coalesce(usual_messages, 0), all_usual
    from placed join sums using (vhost, exchange)
        left join usual using (vhost, exchange, routing_key)
    where place = 1 and in_all >= {MESSAGES_MIN}
"""


class _Counted(NamedTuple):
    """A value: messages that something happened to, of `happened`; all messages, of `all_usual`."""

    value: str
    messages: int
    happened: int
    usual: int
    all_usual: int


def collect_traits(engine: Engine, found: Evidence) -> None:
    """Add the traits of messages, by queue and by what happened to them."""
    engine.view("told", _TOLD)
    counted: dict[tuple[Queue, str, str], list[_Counted]] = {}
    for query in (_TRAITS, _KEYS):
        ordered = f"select * from ({query}) as rows order by 1, 2, 3, 4, 6 desc, 5 limit {ROWS_MAX}"
        for vhost, name, what, of_property, *row in engine.rows(ordered):
            place = (Queue(vhost, name), what, of_property)
            counted.setdefault(place, []).append(_Counted(*row))
    for (queue, what, name), values in counted.items():
        traits = found.traits.setdefault((queue, what), [])
        if name == _SIZE:
            traits += _sizes(values)
        else:
            traits += [_trait(name, one) for one in values]


def _trait(name: str, one: _Counted) -> Trait:
    """Compare with the messages that it did not happen to."""
    others = one.all_usual - one.happened
    usual = min(1.0, max(0, one.usual - one.messages) / others) if others > 0 else 1.0
    return Trait(name, one.value, one.messages / one.happened, usual)


def _sizes(values: list[_Counted]) -> list[Trait]:
    """Return the trait of being larger than each of the sizes."""
    known = sorted((one for one in values if one.value != "(none)"), key=lambda one: int(one.value))
    found = []
    for place, one in enumerate(known):
        larger = known[place:]
        summed = one._replace(
            messages=sum(each.messages for each in larger), usual=sum(each.usual for each in larger)
        )
        found.append(_trait(_SIZE, summed)._replace(value=f"above {amount(int(one.value) / 2)}"))
    return found
