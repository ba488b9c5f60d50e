"""Dead letters: each dead-lettering (hop), and whole paths from queue to queue.

A dead letter is a new message; its record names the number of the original and of the new message,
so hops form chains. In each round every hop looks up its predecessor and takes over the path that
the predecessor has collected, so a chain of n hops is complete after log2(n) rounds, all of it in
Spark's workers.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.analytics.staging import stage
from leveret.analytics.tables import HOPS

ROUNDS_MAX = 20
"""Enough for chains of a million hops; longer ones lose their beginning."""

_FIRST = """
    select vhost, node, message, new_message, queue, reason, exchange, routing_keys, queues,
        time_us, if(message = new_message, null, message) as before,
        array(named_struct('queue', queue, 'reason', reason, 'exchange', exchange,
            'time_us', time_us, 'message', message)) as path
    from events where event = 'dead_letter'
"""

_ROUND = """
    select hop.vhost, hop.node, hop.message, hop.new_message, hop.queue, hop.reason, hop.exchange,
        hop.routing_keys, hop.queues, hop.time_us,
        if(earlier.new_message is null, null, earlier.before) as before,
        if(earlier.new_message is null, hop.path, concat(earlier.path, hop.path)) as path
    from hop_round as hop left join hop_round as earlier
        on earlier.node = hop.node and earlier.new_message = hop.before
"""

_HOPS = """
    select to_date(timestamp_micros(time_us)) as date, vhost, node, time_us,
        path[0].message as first_message, cast(size(path) as bigint) as hop, message, queue, reason,
        exchange, routing_keys, new_message, queues, path
    from hop_round
"""

DEAD_LETTERS = "select * except (path) from hops"

_WORDS = """
    concat('published to ', path[0].queue, array_join(transform(path, (hop, i) -> concat(
        if(i = 0, '', concat(', from there to ', hop.queue)),
        ' (', hop.reason, if(hop.exchange = '', '', concat(', by ', hop.exchange)), ')')), ''),
        if(size(queues) = 0, ' and lost: no queue took it',
            concat(', at last to ', array_join(queues, ' and '))))
"""

PATHS = f"""
    select date, vhost, node, first_message, new_message as last_message, hop as hops,
        cast(path as {HOPS}) as path, queues, {_WORDS} as words
    from hops left anti join (
        select node as on_node, message as died from events where event = 'dead_letter'
    ) on node = on_node and new_message = died and new_message != message
"""


def stage_hops(session: SparkSession, path: str) -> None:
    """Follow the chains and create the view `hops`. path: a directory with a subdirectory per
    round.
    """
    hops = stage(session.sql(_FIRST), f"{path}/0")
    for number in range(1, ROUNDS_MAX + 1):
        hops.createOrReplaceTempView("hop_round")
        if hops.where(F.col("before").isNotNull()).isEmpty():
            break
        hops = stage(session.sql(_ROUND), f"{path}/{number}")
    session.sql(_HOPS).createOrReplaceTempView("hops")


def dead_letter_tables(session: SparkSession) -> dict[str, DataFrame]:
    """Return the tables, made from the view `hops`."""
    return {
        "dead_letters": session.sql(DEAD_LETTERS),
        "dead_letter_paths": session.sql(PATHS),
    }
