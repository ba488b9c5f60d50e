"""A second set: written after the findings that the first set had led to, and before a run of it.

Its author knows how findings are made, so it shows less than the first set, but nothing was tuned
on it before its first run, whose figures are in docs/operate/report.md.
"""

from tests.analytics.incidents.connections import every
from tests.analytics.incidents.incident import (
    BURST,
    CHURN,
    CIRCLE,
    DEAD_LETTERS,
    HOT_KEY,
    HOT_QUEUE,
    NO_CONSUMER,
    OUT_OF_ORDER,
    POISON,
    PREFETCH_HIGH,
    REJECTED,
    REPLAY,
    SLOW,
    STALLED,
    SYMPTOMS,
)
from tests.analytics.incidents.independent.form import HOUR, LAG, Cause, healthy_day, incident
from tests.analytics.incidents.simulated_clients import ACK, REJECT, REQUEUE


@incident(1500, Cause((STALLED, SLOW), ("trades.settle",), ("settle-2",), 400, 120))
def a_virtual_machine_that_collects_garbage(day):
    """Since minute seven one of three consumers stands still for 25 s every 150 s."""
    day.queue("trades.settle")
    day.publisher("desk", "trades.settle", 3)
    for number in range(3):
        stalls = tuple((at_s, at_s + 25) for at_s in range(400, 1450, 150)) if number == 2 else ()
        day.consumer("trades.settle", takes_s=0.2, prefetch=20, tag=f"settle-{number}",
                     host=f"10.5.0.{number}", stalls=stalls)  # fmt: skip


@incident(2400, Cause((PREFETCH_HIGH, SLOW, STALLED), ("exports",), ("export-9",)),
          also=[((PREFETCH_HIGH, SLOW, STALLED), "exports")])  # fmt: skip
def a_slow_worker_that_prefetches_500(day):
    """A worker of another team joins at minute fifteen, takes 2 s, and prefetches 500."""
    day.queue("exports")
    day.publisher("bi", "exports", 3)
    for number in range(2):
        day.consumer("exports", takes_s=0.3, prefetch=10, tag=f"export-{number}")
    day.consumer("exports", takes_s=2, prefetch=500, tag="export-9", host="10.9.0.9", from_s=900)


@incident(1800, Cause((HOT_QUEUE, HOT_KEY, BURST, *LAG), ("shard-3", "tenants"),
                      (("t-77", "shard-3"),), 600, 180),
          also=[((HOT_QUEUE, HOT_KEY, BURST), "shard-3"), ((HOT_KEY,), "tenants")])  # fmt: skip
def a_tenant_that_makes_a_shard_hot(day):
    """Eight shards have a thirtieth of the tenants each; since minute ten one tenant imports."""
    tenants = [f"t-{number}" for number in range(40, 100)]
    for shard in range(8):
        name = f"shard-{shard}"
        day.queue(name)
        day.consumer(name, takes_s=0.7, prefetch=5, tag=f"{name}-owner")
    for place, tenant in enumerate(tenants):
        day.bind("tenants", tenant, "shard-3" if tenant == "t-77" else f"shard-{place % 8}")
    day.publisher("api", lambda random, _: random.choice(tenants), 3, "tenants")
    day.publisher("api", "t-77", [(600, 1.8)], "tenants")


@incident(1800, Cause((), ("loader", "rows.in"), (), 900, 60))
def a_publisher_whose_confirms_become_slow(day):
    """A program that waits for confirms sends eight rows a second, and two for ten minutes."""
    day.queue("rows.in")
    day.publisher("loader", "rows.in", [(0, 8), (900, 2), (1500, 8)], even=True)
    day.consumer("rows.in", takes_s=0.05, prefetch=50, tag="writer")
    day.busy_pair("health", 0.5)


CATALOG = ("catalog.search", "catalog.cache", "catalog.feed")


@incident(2400, *(Cause((SLOW, *LAG), (name,), (("v2", "10.8.0.4", "fan"),), 1200, 240)
                  for name in CATALOG),
          also=[(SYMPTOMS, f"{name}.v2") for name in CATALOG])  # fmt: skip
def a_deployment_that_doubles_the_fan_out(day):
    """Three queues become six, with consumers on one host, which take three times as long."""
    for version, from_s in (("", 0), (".v2", 1200)):
        for name in CATALOG:
            day.queue(f"{name}{version}")
            day.at(from_s, day.bind, "catalog", "#", f"{name}{version}")
            day.consumer(
                f"{name}{version}",
                prefetch=10,
                tag=f"{name}{version}-1",
                host="10.8.0.4",
                takes_s=lambda _, now_s: 0.4 if now_s < 1200 else 1.2,
                from_s=from_s,
            )
    day.publisher("pim", "item.changed", 1, "catalog")


@incident(1800, Cause((CHURN, NO_CONSUMER, STALLED, POISON, REPLAY), ("reports.pdf", "reports"),
                      ("pdf-1",), 100, 120),
          also=[((CHURN, NO_CONSUMER, STALLED, POISON, REPLAY), "reports.pdf")])  # fmt: skip
def a_worker_that_runs_out_of_memory_again_and_again(day):
    """A worker is killed every 100 s with what it holds, and is back after 15 s."""
    day.queue("reports.pdf")
    day.publisher("web", "reports.pdf", 1)
    worker = day.consumer("reports.pdf", takes_s=0.7, prefetch=20, user="reports", tag="pdf-1",
                          back_after_s=15)  # fmt: skip
    for at_s in every(100, 100, 1790):
        day.at(at_s, worker.die)


@incident(1200, Cause((POISON, CIRCLE, DEAD_LETTERS, REJECTED), ("crm.sync",), ("legacy",)),
          also=[((POISON, CIRCLE, DEAD_LETTERS, REJECTED, OUT_OF_ORDER), "crm.sync"),
                ((NO_CONSUMER, *SYMPTOMS), "crm.failed")])  # fmt: skip
def messages_of_an_old_program_are_tried_three_times(day):
    """What an old program sends is requeued three times, and then rejected."""
    day.queue("crm.failed")
    day.queue("crm.sync", dead_letter_to=("", "crm.failed"))
    day.publisher("shop", "crm.sync", 1, properties={"app_id": "shop"})
    day.publisher("legacy", "crm.sync", 0.1, properties={"app_id": "legacy"})

    def ends(entry, _):
        if entry.message.properties["app_id"] != "legacy":
            return ACK
        return REQUEUE if entry.deliveries <= 3 else REJECT

    for number in range(2):
        day.consumer("crm.sync", takes_s=0.2, prefetch=10, tag=f"sync-{number}", ends=ends)


@incident(4 * HOUR, Cause((SLOW, STALLED, *LAG), ("ledger.rows",), (), HOUR, 300),
          also=[((SLOW, STALLED), "ledger.rows")])  # fmt: skip
def a_table_that_is_locked_each_hour(day):
    """At each full hour a backup locks a table for six minutes, and all consumers take 20 times."""
    day.queue("ledger.rows")
    day.publisher("core", "ledger.rows", 0.5)
    for number in range(2):
        day.consumer("ledger.rows", prefetch=5, tag=f"ledger-{number}", host=f"10.7.0.{number}",
                     takes_s=lambda _, now_s: 4 if now_s > HOUR and now_s % HOUR < 360 else 0.2,
                     )  # fmt: skip


@incident(1800, Cause((SLOW,), ("mail.render",), ("render-v2",), 900, 120),
          also=[((SLOW, STALLED), "mail.render")])  # fmt: skip
def a_canary_that_is_slow(day):
    """One of five consumers is replaced by a new version, which takes eight times as long."""
    day.queue("mail.render")
    day.publisher("crm", "mail.render", 2)
    for number in range(5):
        day.consumer("mail.render", takes_s=0.3, prefetch=5, tag=f"render-v1-{number}",
                     dies_s=900 if number == 4 else None)  # fmt: skip
    day.consumer("mail.render", takes_s=2.4, prefetch=5, tag="render-v2", from_s=902)


@incident(1800, Cause((), ("cron-php",)))
def a_program_that_leaks_connections(day):
    """A program opens a connection every six seconds, publishes a message, and never closes one."""
    day.busy_pair("pages", 0.5)
    for at_s in every(6, 5, 1790):
        day.publisher("cron-php", "pages", bursts=((at_s + 0.1, 1, 1),), opens=True, from_s=at_s)


@healthy_day(1800)
def an_update_of_one_consumer_after_the_other(day):
    """Five consumers are replaced at intervals of a minute; what each holds comes again."""
    day.queue("events.store")
    day.publisher("app", "events.store", 2)
    for number in range(5):
        at_s = 600 + 60 * number
        for version, times in (("v1", {"dies_s": at_s}), ("v2", {"from_s": at_s + 3})):
            day.consumer("events.store", takes_s=0.5, prefetch=5, host=f"10.3.0.{number}",
                         tag=f"store-{version}-{number}", **times)  # fmt: skip


@healthy_day(HOUR)
def an_export_that_is_done_after_twenty_minutes(day):
    """An export sends three rows a second until it is done, and closes its connection."""
    day.queue("warehouse.rows")
    export = day.publisher("export", "warehouse.rows", 3, even=True, until_s=1200)
    day.at(1201, lambda: day.broker.write("close", **{**export.who, "channel": 0}))
    day.consumer("warehouse.rows", takes_s=0.1, prefetch=20, tag="warehouse")
    day.busy_pair("orders.live", 0.5)


@healthy_day(1800)
def meters_that_report_at_the_same_time(day):
    """Two hundred meters send a value each, every minute, within a second, as they always do."""
    day.queue("meters.values")
    day.publisher("meters", "meters.values",
                  bursts=tuple((at_s, 200, 1) for at_s in range(30, 1790, 60)))  # fmt: skip
    day.consumer("meters.values", takes_s=0.1, prefetch=50, tag="meter-db")
    day.busy_pair("alarms.live", 0.3)


@healthy_day(1800)
def a_cache_that_is_cold_after_a_restart(day):
    """Two consumers restart at minute ten, and take five times as long for forty seconds."""
    day.queue("prices.update")
    day.publisher("erp", "prices.update", 1)
    for number in range(2):
        day.consumer("prices.update", takes_s=0.1, prefetch=5, tag=f"price-{number}", dies_s=600)
        day.consumer("prices.update", prefetch=5, tag=f"price-new-{number}", from_s=605,
                     takes_s=lambda _, now_s: 0.5 if now_s < 645 else 0.1)  # fmt: skip


@healthy_day(4 * HOUR, begins_s=15 * HOUR)
def an_evening_on_which_people_go_home(day):
    """People send forms until five o'clock, and machines go on as before."""
    day.queue("forms.new")
    day.publisher("office", "forms.new", [(0, 0.6), (2 * HOUR, 0)])
    day.consumer("forms.new", takes_s=0.2, prefetch=5, tag="forms")
    day.queue("telemetry.in")
    day.publisher("plant", "telemetry.in", 0.2, even=True)
    day.consumer("telemetry.in", takes_s=0.1, prefetch=5, tag="plant-db")
