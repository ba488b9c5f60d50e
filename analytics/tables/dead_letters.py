"""Dead letters: each dead-lettering (hop), and whole paths from queue to queue.

A dead letter is a new message; its record names the number of the original and of the new message,
so hops form chains. In each round every hop looks up its predecessor and takes over the path that
the predecessor has collected, so a chain of n hops is complete after log2(n) rounds, all of it in
the engine.
"""

from leveret.analytics.tables.engine import Engine

ROUNDS_MAX = 20
"""Enough for chains of a million hops; longer ones lose their beginning."""

_FIRST = """
    select vhost, node, message, new_message, queue, reason, exchange, routing_keys, queues,
        time_us, if(message = new_message, null, message) as before,
        array(struct(queue, reason, exchange, time_us, message)) as path,
        concat(queue, ' (', reason, if(exchange = '', '', concat(', by ', exchange)), ')') as words
    from events where event = 'dead_letter'
"""

_ROUND = """
    select hop.vhost, hop.node, hop.message, hop.new_message, hop.queue, hop.reason, hop.exchange,
        hop.routing_keys, hop.queues, hop.time_us, earlier.before,
        if(earlier.new_message is null, hop.path, earlier.path || hop.path) as path,
        if(earlier.new_message is null, hop.words,
            concat(earlier.words, ', from there to ', hop.words)) as words
    from {hops} as hop left join {hops} as earlier
        on earlier.vhost = hop.vhost and earlier.new_message = hop.before
"""

_HOPS = """
    select to_date(timestamp_micros(time_us)) as date, vhost, node, time_us,
        get(path, 0).message as first_message, cast(array_size(path) as bigint) as hop, message,
        queue, reason, exchange, routing_keys, new_message, queues, path, words
    from {hops}
"""

DEAD_LETTERS = """
    select date, vhost, node, time_us, first_message, hop, message, queue, reason, exchange,
        routing_keys, new_message, queues
    from hops
"""

PATHS = """
    select date, vhost, node, first_message, new_message as last_message, hop as hops, path, queues,
        concat('published to ', words, if(array_size(queues) = 0, ' and lost: no queue took it',
            concat(', at last to ', array_join(queues, ' and ')))) as words
    from hops anti join (
        select vhost as in_vhost, message as died from events where event = 'dead_letter'
    ) as later on vhost = in_vhost and new_message = died and new_message != message
"""

QUERIES = {"dead_letters": DEAD_LETTERS, "dead_letter_paths": PATHS}
"""The tables, made from the view `hops`."""


def stage_hops(engine: Engine) -> None:
    """Follow the chains and create the view `hops`."""
    engine.stage("hops_0", _FIRST)
    last = "hops_0"
    for number in range(1, ROUNDS_MAX + 1):
        if not engine.rows(f"select 1 from {last} where before is not null limit 1"):
            break
        engine.stage(f"hops_{number}", _ROUND.format(hops=last))
        last = f"hops_{number}"
    engine.view("hops", _HOPS.format(hops=last))
