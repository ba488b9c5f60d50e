"""Incidents that begin at consumers."""

from tests.analytics.incidents.incident import (
    BACKLOG,
    CHURN,
    CIRCLE,
    DEAD_LETTERS,
    NO_CONSUMER,
    POISON,
    PREFETCH_HIGH,
    PREFETCH_LOW,
    REJECTED,
    REPLAY,
    SLOW,
    STALLED,
    SYMPTOMS,
)
from tests.analytics.incidents.independent.form import (
    DAY,
    HOUR,
    LAG,
    Cause,
    absent,
    incident,
    message_consumer,
    the_first_after,
)
from tests.analytics.incidents.simulated_clients import ACK, CRASH, KEEP, REJECT


@incident(600, Cause((PREFETCH_HIGH, SLOW, STALLED), ("thumbnails.render",), ("pod-3",)),
          also=[((PREFETCH_HIGH, SLOW, STALLED), "thumbnails.render")])  # fmt: skip
def a_prefetch_of_250_and_one_slow_pod(day):
    """Four pods prefetch 250 each; one needs 6 s for an image, and sits on its share."""
    day.queue("thumbnails.render")
    day.publisher("uploads", "thumbnails.render", 6)
    for pod in range(4):
        day.consumer("thumbnails.render", takes_s=6 if pod == 3 else 0.1, prefetch=250,
                     tag=f"pod-{pod}", host=f"10.42.1.{pod}")  # fmt: skip
    day.busy_pair("avatars", 0.5)


@incident(1200, Cause((STALLED,), ("Rechnungen",), ("rechnungsdienst",)),
          also=[((NO_CONSUMER,), "Rechnungen")])  # fmt: skip
def a_branch_that_forgets_to_ack(day):
    """One branch of a program never acknowledges; when its prefetch limit is used up, it stops."""
    day.queue("Rechnungen")
    day.publisher("filiale", "Rechnungen", 2)
    day.consumer("Rechnungen", takes_s=0.1, prefetch=30, tag="rechnungsdienst",
                 ends=lambda entry, _: KEEP if entry.message.number % 25 == 0 else ACK)  # fmt: skip


@incident(HOUR, Cause((SLOW,), ("ledger.postings",), (("ledger-b", "10.1.2.21"),), 1200),
          also=[((STALLED, PREFETCH_HIGH), "ledger.postings")])  # fmt: skip
def a_host_with_a_slow_database(day):
    """For ten minutes one of two hosts of consumers has a slow database."""
    day.queue("ledger.postings")
    day.publisher("core", "ledger.postings", 0.8)
    for number in range(2):
        day.consumer("ledger.postings", takes_s=0.2, prefetch=10, tag=f"ledger-a{number}",
                     host="10.1.2.20")  # fmt: skip
        day.consumer("ledger.postings", prefetch=10, tag=f"ledger-b{number}", host="10.1.2.21",
                     takes_s=lambda _, now_s: 4 if 1200 < now_s < 1800 else 0.2)  # fmt: skip


@incident(1500, Cause((*LAG, NO_CONSUMER), ("pedidos.pago",), (("pago-3", "pago-4", "pago-5"),),
                      900))  # fmt: skip
def a_deploy_that_halves_the_consumers(day):
    """Six consumers become three, which cannot do what comes."""
    day.queue("pedidos.pago")
    day.publisher("tienda", "pedidos.pago", 1.5)
    for number in range(6):
        day.consumer("pedidos.pago", takes_s=3, prefetch=4, tag=f"pago-{number}",
                     dies_s=900 + number if number > 2 else None)  # fmt: skip


@incident(900, Cause((POISON, CIRCLE, CHURN, STALLED), ("inventory-sync", "inventory"),
                     (("sync-a", "inventory"),), 300, 90),
          also=[((POISON, CIRCLE, STALLED, NO_CONSUMER, REPLAY), "inventory-sync"),
                ((CHURN,), "inventory")])  # fmt: skip
def a_message_that_crashes_its_consumer(day):
    """A message makes the only consumer crash, again each time it has restarted."""
    day.queue("inventory-sync")
    day.publisher("erp", "inventory-sync", 1.5)
    day.consumer("inventory-sync", takes_s=0.2, prefetch=40, tag="sync-a", user="inventory",
                 ends=the_first_after(300, CRASH), back_after_s=6)  # fmt: skip


@incident(900, Cause((DEAD_LETTERS, REJECTED), ("events.ingest",), ("application/avro",), 400),
          also=[((NO_CONSUMER, *SYMPTOMS), "events.ingest.dlq"),
                ((DEAD_LETTERS, REJECTED), "events.ingest")])  # fmt: skip
def a_version_that_cannot_read_avro(day):
    """Version 3 replaces version 2, and rejects all messages of one content type."""
    day.queue("events.ingest.dlq")
    day.queue("events.ingest", dead_letter_to=("", "events.ingest.dlq"))
    for user, rate, kind in (("app", 2, "application/json"), ("kiosk", 0.8, "application/avro")):
        day.publisher(user, "events.ingest", rate, properties={"content_type": kind})

    def cannot_read_avro(entry, _):
        return REJECT if entry.message.properties["content_type"].endswith("avro") else ACK

    for number in range(2):
        day.consumer("events.ingest", takes_s=0.05, tag=f"ingest-v2-{number}",
                     dies_s=398 + number)  # fmt: skip
        day.consumer("events.ingest", takes_s=0.05, tag=f"ingest-v3-{number}", from_s=400,
                     ends=cannot_read_avro)  # fmt: skip


@incident(DAY, Cause((NO_CONSUMER,), ("soporte.tickets",), (), 7 * HOUR, 900), begins_s=0)
def consumers_in_another_time_zone(day):
    """Customers write from 7 to 19 h, and the programs that answer run from 14 to 23 h."""
    day.queue("soporte.tickets")
    day.publisher("web", "soporte.tickets", [(0, 0), (7 * HOUR, 0.03), (19 * HOUR, 0)])
    for number in range(3):
        day.consumer("soporte.tickets", takes_s=20, prefetch=2, tag=f"agente-{number}",
                     from_s=14 * HOUR, dies_s=23 * HOUR + number)  # fmt: skip


@incident(HOUR, Cause((NO_CONSUMER, STALLED), ("telemetria",), ("leitor-1",), 300, 90))
def a_consumer_that_comes_and_goes(day):
    """Every five minutes the only consumer cancels for 90 s, though its connection stays."""
    day.queue("telemetria")
    day.publisher("veiculo", "telemetria", 1)
    reader = day.consumer("telemetria", takes_s=0.05, prefetch=10, tag="leitor-1")
    for at_s in range(300, HOUR - 100, 300):
        absent(day, reader, at_s, at_s + 90)


@incident(600, Cause((PREFETCH_LOW,), ("pcr.results",), ("prefetch",)))
def one_at_a_time_across_the_ocean(day):
    """The consumer is 180 ms away, works for 5 ms, and prefetches 1; most of its time it waits."""
    day.queue("pcr.results")
    day.publisher("lab", "pcr.results", 8)
    day.consumer("pcr.results", takes_s=0.005, prefetch=1, round_trip_s=0.18, tag="sydney")


@incident(HOUR, Cause((SLOW, BACKLOG), ("crm.contacts",), (("crm-sync", "slower"),)))
def a_leak_that_makes_a_consumer_slower(day):
    """A consumer leaks memory, and takes ten times as long after an hour, in small steps."""
    day.queue("crm.contacts")
    day.publisher("crm", "crm.contacts", 0.5)
    day.consumer("crm.contacts", prefetch=15, tag="crm-sync",
                 takes_s=lambda _, now_s: 0.3 + 2.7 * now_s / HOUR)  # fmt: skip


@incident(1800, Cause((STALLED,), ("wallet-transfers",), ("wallet-2",), 240))
def one_thread_of_four_deadlocks(day):
    """One of the four threads of a consumer never ends its work, while the others go on."""
    day.queue("wallet-transfers")
    day.publisher("wallet", "wallet-transfers", 2)
    day.consumer("wallet-transfers", takes_s=0.2, workers=4, prefetch=8, tag="wallet-1")
    day.consumer("wallet-transfers", takes_s=0.2, workers=4, prefetch=8, tag="wallet-2",
                 ends=the_first_after(240, KEEP))  # fmt: skip


@incident(1800, Cause((*LAG, NO_CONSUMER), ("matching.tasks",),
                      (tuple(f"matcher-{number}" for number in range(4)),)))  # fmt: skip
def consumers_are_killed_one_by_one(day):
    """Every five minutes the kernel kills one of five consumers for want of memory."""
    day.queue("matching.tasks")
    day.publisher("web", "matching.tasks", 1.5)
    for number in range(5):
        day.consumer("matching.tasks", takes_s=2, prefetch=3, tag=f"matcher-{number}",
                     dies_s=300 * (number + 1) if number < 4 else None)  # fmt: skip


QUEUES_OF_HOST = ("notify.email", "notify.sms", "notify.push")


@incident(1500, *(Cause((SLOW,), (name,), (("10.4.0.13", f"{name}@node13"),), 600)
                  for name in QUEUES_OF_HOST),
          also=[((STALLED, PREFETCH_HIGH), name) for name in QUEUES_OF_HOST])  # fmt: skip
def a_host_whose_disk_fails(day):
    """The consumers of three queues on one host take twenty times as long for six minutes."""
    for name in QUEUES_OF_HOST:
        day.queue(name)
        day.publisher("core", name, 0.6)
        day.consumer(name, takes_s=0.15, prefetch=8, tag=f"{name}@node12", host="10.4.0.12")
        day.consumer(name, prefetch=8, tag=f"{name}@node13", host="10.4.0.13",
                     takes_s=lambda _, now_s: 3 if 600 < now_s < 960 else 0.15)  # fmt: skip


@incident(1500, Cause((NO_CONSUMER,), ("checkout.fulfil",), (("ful-0", "ful-1"),), 600))
def a_deploy_with_a_gap(day):
    """The old version is stopped four minutes before the new one is ready."""
    day.queue("checkout.fulfil")
    day.publisher("checkout", "checkout.fulfil", 2)
    for number in range(2):
        day.consumer("checkout.fulfil", takes_s=0.4, tag=f"ful-{number}", dies_s=600 + number)
        day.consumer("checkout.fulfil", takes_s=0.4, tag=f"ful-new-{number}", from_s=840)


@incident(HOUR, Cause((SLOW, BACKLOG), ("documents",), ("letter.pdf",), 1200, 120),
          also=[((SLOW, STALLED), "documents")])  # fmt: skip
def one_kind_of_message_takes_long(day):
    """Since minute twenty the conversion of one kind of document takes 14 s; others take 50 ms."""
    day.queue("documents")
    day.bind("convert", "letter.pdf", "documents")
    day.bind("convert", "letter.txt", "documents")
    day.publisher("office", "letter.txt", 0.6, "convert")
    day.publisher("archive", "letter.pdf", 0.15, "convert")
    clock = day.broker

    def takes_s(message):
        return 14 if message.key == "letter.pdf" and clock.now_s > 1200 else 0.05

    for number in range(2):
        message_consumer(day, "documents", takes_s, prefetch=10, tag=f"convert-{number}")
