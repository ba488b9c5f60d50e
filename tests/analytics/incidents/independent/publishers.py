"""Incidents that begin at publishers, bindings and connections."""

from tests.analytics.incidents.connections import every, opens_and_closes
from tests.analytics.incidents.incident import (
    BACKLOG,
    BURST,
    CHURN,
    HOT_KEY,
    HOT_QUEUE,
    NO_CONSUMER,
    OVERFLOW,
    REMOVED,
    SYMPTOMS,
    UNROUTABLE,
)
from tests.analytics.incidents.independent.form import DAY, HOUR, LAG, Cause, incident


@incident(1500, Cause((UNROUTABLE,), ("shop.events",), ("order.create",), 700))
def a_wrong_routing_key_after_a_release(day):
    """A release publishes `order.create`, and the binding is `order.created`."""
    day.queue("fulfilment")
    day.bind("shop.events", "order.created", "fulfilment")
    day.publisher("checkout", lambda _, now_s: "order.create" if now_s > 700 else "order.created",
                  1.5, "shop.events")  # fmt: skip
    day.consumer("fulfilment", takes_s=0.1, tag="ff-1")
    day.busy_pair("stock", 0.5)


@incident(1200, Cause((UNROUTABLE,), ("default exchange", "faktury.pdf"), ("faktury.pdf",), 400),
          also=[((REMOVED, NO_CONSUMER), "faktury.pdf")])  # fmt: skip
def a_queue_that_is_deleted_by_mistake(day):
    """A clean-up deletes a queue that is in use; messages are returned, and no one looks."""
    queue = day.queue("faktury.pdf")
    day.publisher("ucetni", "faktury.pdf", 0.8, mandatory=True)
    day.consumer(queue, takes_s=0.4, tag="pdf-1", dies_s=400)
    day.at(400, queue.delete)


@incident(DAY // 4, Cause((BURST, *LAG), ("reports.gen",), ("crond",)))
def programs_that_start_at_the_full_hour(day):
    """Each full hour 450 reports come at once and occupy most of the hour; users wait."""
    day.queue("reports.gen")
    day.publisher("portal", "reports.gen", 0.02)
    day.publisher("crond", "reports.gen",
                  bursts=tuple((at, 450, 5) for at in range(HOUR, DAY // 4, HOUR)))  # fmt: skip
    day.consumer("reports.gen", takes_s=6, prefetch=2, tag="gen")


@incident(1800, Cause((*LAG, BURST), ("заказы",), ("mobile-api",), 900))
def a_publisher_that_doubles_its_rate(day):
    """A campaign doubles what the phones send; the consumers did that with little to spare."""
    day.queue("заказы")
    day.publisher("web", "заказы", 0.4)
    day.publisher("mobile-api", "заказы", [(0, 0.8), (900, 1.6)])
    for number in range(2):
        day.consumer("заказы", takes_s=1.25, prefetch=10, tag=f"обработчик-{number}")


@incident(900, Cause((HOT_QUEUE, HOT_KEY, BACKLOG), ("part-4", "partitions"),
                     (("c-4711", "part-4"),)),
          also=[((HOT_QUEUE, HOT_KEY, BURST), "part-4"), ((HOT_KEY,), "partitions")])  # fmt: skip
def one_customer_fills_a_partition(day):
    """Customers are hashed to six queues; one customer has half of the traffic."""
    customers = ["c-4711", *(f"c-{number}" for number in range(1000, 1060))]
    for number in range(6):
        day.queue(f"part-{number}")
        day.consumer(f"part-{number}", takes_s=0.6, prefetch=5, tag=f"owner-{number}")
    for place, customer in enumerate(customers):
        day.bind("partitions", customer, f"part-{4 if not place else place % 6}")
    day.publisher("events", lambda random, _: random.choices(customers, [60, *[1] * 60])[0], 4,
                  "partitions")  # fmt: skip


@incident(HOUR, Cause((NO_CONSUMER, BACKLOG), ("audit.legacy.v1",)))
def a_queue_that_nobody_reads(day):
    """The program behind an audit queue was retired; its queue is still bound."""
    day.queue("billing.invoices")
    day.queue("audit.legacy.v1")
    day.bind("billing", "invoice.paid", "billing.invoices", "audit.legacy.v1")
    day.publisher("billing", "invoice.paid", 1, "billing")
    day.consumer("billing.invoices", takes_s=0.1, tag="inv")


@incident(1800, Cause((NO_CONSUMER, *LAG, HOT_QUEUE, BURST), ("analytics.everything",), (), 600))
def somebody_binds_everything(day):
    """A new program binds its queue to all keys, and gets ten times what it can do."""
    keys = [f"{what}.{verb}" for what in ("user", "cart", "page") for verb in ("new", "gone")]
    for key in keys:
        day.queue(f"{key}.handler")
        day.bind("bus", key, f"{key}.handler")
        day.consumer(f"{key}.handler", takes_s=0.02, tag=f"{key}-1")
    day.publisher("site", lambda random, _: random.choice(keys), 2, "bus")
    day.queue("analytics.everything")
    day.at(600, day.bind, "bus", "#", "analytics.everything")
    day.consumer("analytics.everything", takes_s=5, prefetch=10, tag="notebook", from_s=600)


@incident(1500, Cause((OVERFLOW,), ("crawl.frontier",), ("sitemap",), 620, 120),
          also=[((BURST,), "crawl.frontier")])  # fmt: skip
def a_full_queue_forgets_the_oldest(day):
    """A sitemap of 1,500 pages comes to a queue of 400, which drops what was there before."""
    day.queue("crawl.frontier", length_max=400)
    day.publisher("links", "crawl.frontier", 0.8)
    day.publisher("sitemap", "crawl.frontier", bursts=((600, 1500, 60),))
    day.consumer("crawl.frontier", takes_s=1, prefetch=5, tag="fetch")


@incident(900, Cause((CHURN,), ("fn-worker",)), also=[(SYMPTOMS, "invoices.render")])
def a_function_for_each_message(day):
    """A function connects, takes one message, and leaves, about once a second."""
    day.queue("invoices.render")
    day.publisher("shop", "invoices.render", 0.7)
    for at_s in every(0.9, 1, 898):
        day.consumer("invoices.render", takes_s=0.5, prefetch=1, user="fn-worker", from_s=at_s,
                     dies_s=at_s + 0.8, tag=f"fn-{at_s:.0f}")  # fmt: skip


@incident(1800, Cause((CHURN,), ("sensor-gw",), (), 600))
def a_network_that_flaps(day):
    """For ten minutes the connections of a gateway last for a few seconds."""
    day.busy_pair("sensor.readings", 1)
    opens_and_closes(day, "sensor-gw", every(1.1, 600, 1200), 4, "sensor.readings", "10.77.0.4")


@incident(1800, Cause((), ("meter-gw", "meters.raw"), (), 900, 120))
def a_publisher_that_falls_silent(day):
    """A gateway that has always sent two values a second stops, though it stays connected."""
    day.queue("meters.raw")
    day.publisher("meter-gw", "meters.raw", [(0, 2), (900, 0)], even=True)
    day.consumer("meters.raw", takes_s=0.05, tag="tsdb")
    day.busy_pair("alarms", 0.5)
