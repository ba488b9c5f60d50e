"""Counts events once that were traced in several formats: the broker's log, JSON and text.

An event of a poorer format (text, then JSON) is a copy if a richer one has an event of the same
node, channel, exchange, queues, keys and size, within the time that both cover. Traces note an
event at slightly different times, so such events are paired in the order of time; events of either
format without a partner are used, too.
"""

from leveret.analytics.tables.engine import Engine
from leveret.analytics.traces.schema import COLUMNS

TOLERANCE_US = 100_000
"""Two traces note an event at times that differ by less."""
POORER = ("json", "text")
"""The formats of RabbitMQ's tracing plugin, the richer first."""

_FORMATS = "select distinct format from plausible where event in ('publish', 'deliver')"
_SPAN = f"""
    select vhost as in_vhost, node as at_node, min(time_us) - {TOLERANCE_US} as first_us,
        max(time_us) + {TOLERANCE_US} as last_us
    from {{}} where event in ('publish', 'deliver') group by 1, 2
"""
_KEY = (
    "xxhash64(xxhash64(vhost, node, event), xxhash64(connection, channel, exchange, queue),"
    " xxhash64(sort_array(queues), routing_keys, body_size), message_id)"
)
_ONCE = f"""
    with richer_span as ({_SPAN.format("{richer}")}), poorer_span as ({_SPAN.format("{poorer}")}),
    richer as (
        select {_KEY} as richer_key, count(*) as events
        from {{richer}} join poorer_span on in_vhost = vhost and at_node = node
        where event in ('publish', 'deliver') and time_us between first_us and last_us group by 1
    ), paired as (
        select {{poorer}}.*, {_KEY} as poorer_key, row_number() over (
            partition by {_KEY}, time_us between first_us and last_us
            order by time_us, message) as place,
            coalesce(time_us between first_us and last_us, false) as is_in_both
        from {{poorer}} left join richer_span on in_vhost = vhost and at_node = node
    )
    select {", ".join(f"`{name}`" for name in COLUMNS)} from {{richer}}
    union all
    select {", ".join(f"`{name}`" for name in COLUMNS)}
    from paired left join richer on poorer_key = richer_key
    where not is_in_both or event not in ('publish', 'deliver') or place > coalesce(events, 0)
"""


def count_once(engine: Engine) -> dict[str, int]:
    """Create the view `events` of the view `plausible`; return the number of copies by format."""
    formats = {name for (name,) in engine.rows(_FORMATS)}
    poorer = [name for name in POORER if name in formats]
    if len(formats) < 2:
        engine.view("events", "select * from plausible")
        return {}
    richer = _of_format(engine, None)
    copies = {}
    for name in poorer:
        poorer_view = _of_format(engine, name)
        once = f"{name}_once"
        engine.stage(once, _ONCE.format(richer=richer, poorer=poorer_view))
        found = _count(engine, richer) + _count(engine, poorer_view) - _count(engine, once)
        if found:
            copies[name] = found
        richer = once
    engine.view("events", f"select * from {richer}")
    return copies


def _of_format(engine: Engine, name: str | None) -> str:
    """Create a view of the records of a format, and return its name."""
    view = f"records_of_{name or 'log'}"
    condition = f"format = '{name}'" if name else "format is null"
    engine.view(view, f"select * from plausible where {condition}")
    return view


def _count(engine: Engine, view: str) -> int:
    [(count,)] = engine.rows(f"select count(*) from {view}")
    return int(count)
