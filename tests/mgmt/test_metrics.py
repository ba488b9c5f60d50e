"""The metrics of a node: names, totals, objects and details, as scraped."""

import gzip
import http.client
import urllib.error
import urllib.request
from contextlib import suppress
from urllib.parse import quote

import pika
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from leveret.mgmt.metrics.collector import FAMILIES
from tests.mgmt.served_node import ServedNode
from tests.patience import PATIENCE_SECONDS

CLASSIC = {"protocol": "amqp091", "queue_type": "rabbit_classic_queue"}
EVERYTHING = "/metrics/detailed?" + "&".join(f"family={name}" for name in sorted(FAMILIES))
WITHOUT_SAMPLES = {"ra_metrics", "stream_consumer_metrics", "channel_process_metrics"}
"""On a node without replicated queues."""
PAGES = ("/metrics", "/metrics/per-object", EVERYTHING)
OPEN_METRICS = "application/openmetrics-text"
PREFIXES = ("#", "rabbitmq_", "erlang_", "process_", "python_", "telemetry_")
WILD_NAMES = ['quo"te', "back\\slash", "käse ☃", 'a="b",c={}', "{x} # y", "tab\there"]


def samples(page):
    """Values by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse_text(page)
        for sample in family.samples
    }


def value(page, name, **labels):
    return samples(page)[name, tuple(sorted(labels.items()))]


def fetch(node, path="/metrics", method="GET", **headers):
    """Return the response unmodified."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", node.metrics_port, timeout=PATIENCE_SECONDS
    )
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    connection.request(method, path, headers=sent)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.fixture
def traffic(node, vhost, channel):
    """Five messages, two of them delivered and one of these acked."""
    channel.queue_declare("counted")
    channel.confirm_delivery()
    for _ in range(5):
        channel.basic_publish("", "counted", b"x")
    method, _, _ = channel.basic_get("counted")
    channel.basic_get("counted")
    channel.basic_ack(method.delivery_tag)
    node.wait_until(
        lambda: node.get(f"queues/{vhost}/counted")["messages_unacknowledged"] == 1, "it is acked"
    )


# Responses


@pytest.mark.parametrize("path", PAGES)
def test_every_page_can_be_parsed_in_both_formats(node, traffic, path):
    answer, body = fetch(node, path)
    assert answer.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    text = samples(body.decode())
    answer, body = fetch(node, path, Accept=OPEN_METRICS)
    assert answer.getheader("Content-Type").startswith(f"{OPEN_METRICS}; version=1.0.0")
    families = list(parse_open(body.decode()))
    names = {sample.name for family in families for sample in family.samples}
    assert {name for name, _ in text} <= names | {"telemetry_scrape_size_bytes_sum"}
    assert body.endswith(b"# EOF\n")


@pytest.mark.parametrize("path", PAGES)
def test_no_family_is_there_twice(node, traffic, path):
    lines = node.metrics(path).splitlines()
    names = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    assert len(names) == len(set(names))
    assert all(line.startswith(PREFIXES)
               for line in lines)  # fmt: skip


def test_a_page_can_be_compressed(node, traffic):
    answer, body = fetch(node, Accept_Encoding="gzip, deflate")
    assert answer.getheader("Content-Encoding") == "gzip"
    page = gzip.decompress(body).decode()
    assert value(page, "rabbitmq_identity_info", **identity(node)) == 1
    answer, body = fetch(node, Accept_Encoding="identity")
    assert answer.getheader("Content-Encoding") is None
    assert body.startswith(b"# TYPE ")


def identity(node):
    return {
        "rabbitmq_node": node.name,
        "rabbitmq_cluster": node.get("overview")["cluster_name"],
        "rabbitmq_cluster_permanent_id": node.get("global-parameters/internal_cluster_id")["value"],
    }


def test_head_has_no_body_and_other_methods_are_refused(node):
    answer, body = fetch(node, method="HEAD")
    assert (answer.status, body) == (200, b"")
    answer, _ = fetch(node, method="POST")
    assert (answer.status, answer.getheader("Allow")) == (405, "GET,HEAD")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/metrics/", 200), ("/metrics/per-object/", 200), ("/metrics/nonsense", 404), ("/", 404),
     ("/metrics/detailed?family=nonsense&vhost=%00", 200), ("/metrics/detailed", 200)],
)  # fmt: skip
def test_paths(node, path, status):
    assert fetch(node, path)[0].status == status


def test_a_scraper_that_goes_away_does_no_harm(node, traffic):
    for path in PAGES:
        connection = http.client.HTTPConnection(
            "127.0.0.1", node.metrics_port, timeout=PATIENCE_SECONDS
        )
        connection.request("GET", path)
        connection.close()
    assert fetch(node)[0].status == 200
    assert "Traceback" not in node.log


def test_scrapes_tell_what_they_cost(node):
    labels = {"registry": "default", "content_type": "text/plain; version=0.0.4; charset=utf-8"}
    fetch(node)
    before = node.metrics()
    name = "telemetry_scrape_duration_seconds_count"
    assert value(node.metrics(), name, **labels) > value(before, name, **labels)
    assert value(before, "telemetry_scrape_size_bytes_sum", **labels) > 10_000


# Totals


def test_totals_are_sums(node, vhost, traffic):
    page = node.metrics()
    ready = sum(queue["messages_ready"] for queue in node.get("queues"))
    assert value(page, "rabbitmq_queue_messages_ready") == ready
    assert value(page, "rabbitmq_queues") == len(node.get("queues"))
    received = value(page, "rabbitmq_global_messages_received_total", protocol="amqp091")
    confirmed = value(page, "rabbitmq_global_messages_confirmed_total", protocol="amqp091")
    assert received >= 5
    assert confirmed >= 5


def counters(page):
    return {
        key: number
        for key, number in samples(page).items()
        if key[0].endswith(("_total", "_count", "_sum", "_bucket"))
    }


def test_no_counter_goes_down_when_queues_channels_connections_and_vhosts_go(node):
    """Sums over objects do not decrease either."""
    name = "passing"
    assert node.put(f"vhosts/{name}").status == 201
    parameters = pika.ConnectionParameters("127.0.0.1", node.port, name)
    pages = []
    for _ in range(3):
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=False).method.queue
        channel.confirm_delivery()
        for _ in range(10):
            channel.basic_publish("", queue, b"x")
            channel.basic_publish("", "nowhere", b"x")
        for _ in range(5):
            channel.basic_get(queue)
        pages.append(node.metrics())
        channel.queue_delete(queue)
        pages.append(node.metrics())
        channel.close()
        pages.append(node.metrics())
        connection.close()
        pages.append(node.metrics())
    node.delete(f"vhosts/{name}")
    pages.append(node.metrics())
    for before, after in zip(map(counters, pages), map(counters, pages[1:]), strict=False):
        fallen = {key for key in before if key in after and after[key] < before[key]}
        assert fallen == set()
        gone = {key for key in before.keys() - after.keys() if not key[0].startswith("telemetry")}
        # A deleted queue's own age metrics disappear.
        assert all("queue_time_in_queue" in key[0] for key in gone)


def test_what_a_quorum_queue_gives_is_counted_under_its_type(node, vhost, channel):
    names = {
        "delivered": 4, "delivered_consume_manual_ack": 1, "delivered_consume_auto_ack": 0,
        "delivered_get_manual_ack": 2, "delivered_get_auto_ack": 1, "get_empty": 1,
        "redelivered": 1, "acknowledged": 2,
    }  # fmt: skip

    def counts(queue_type):
        page, labels = node.metrics(), {**CLASSIC, "queue_type": queue_type}
        return {name: value(page, f"rabbitmq_global_messages_{name}_total", **labels)
                for name in names}  # fmt: skip

    before, classic_before = counts("rabbit_quorum_queue"), counts("rabbit_classic_queue")
    channel.queue_declare("safe", durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    channel.basic_get("safe")
    for _ in range(3):
        channel.basic_publish("", "safe", b"x")
    channel.basic_get("safe", auto_ack=True)
    method, _, _ = channel.basic_get("safe")
    channel.basic_ack(method.delivery_tag)
    method, _, _ = channel.basic_get("safe")
    channel.basic_nack(method.delivery_tag)
    method, _, _ = next(channel.consume("safe"))
    channel.basic_ack(method.delivery_tag)
    channel.queue_declare("safe", passive=True)
    expected = {name: before[name] + count for name, count in names.items()}
    assert counts("rabbit_quorum_queue") == expected
    channel.queue_delete("safe")
    assert counts("rabbit_quorum_queue") == expected
    assert counts("rabbit_classic_queue") == classic_before


def test_deaths_are_counted_by_their_reasons_and_whether_they_were_wanted(node, vhost, channel):
    name = "rabbitmq_global_messages_dead_lettered_rejected_total"

    def count(strategy):
        labels = {"queue_type": "rabbit_classic_queue", "dead_letter_strategy": strategy}
        return value(node.metrics(), name, **labels)

    before = count("at_most_once"), count("disabled")
    channel.queue_declare("dying", arguments={"x-dead-letter-exchange": "amq.fanout"})
    channel.queue_declare("gone")
    for queue in ("dying", "gone", "gone"):
        channel.basic_publish("", queue, b"x")
        method = None
        while method is None:
            method, _, _ = channel.basic_get(queue)
        channel.basic_reject(method.delivery_tag, requeue=False)
    channel.queue_declare("dying", passive=True)
    assert (count("at_most_once"), count("disabled")) == (before[0] + 1, before[1] + 2)


def test_letters_of_quorum_queues_are_counted_when_they_die_and_when_they_are_confirmed(
    node, vhost, channel
):
    def count(what):
        labels = {"queue_type": "rabbit_quorum_queue", "dead_letter_strategy": "at_least_once"}
        name = f"rabbitmq_global_messages_dead_lettered_{what}_total"
        return value(node.metrics(), name, **labels)

    expired, confirmed = count("expired"), count("confirmed")
    arguments = {
        "x-queue-type": "quorum", "x-dead-letter-exchange": "dead-letters",
        "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
    }  # fmt: skip
    channel.queue_declare("dying", durable=True, arguments=arguments)
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "dying", b"12", pika.BasicProperties(expiration="0"))
    assert (count("expired"), count("confirmed")) == (expired + 3, confirmed)
    shown = node.get(f"queues/{vhost}/dying")
    assert (shown["messages"], shown["messages_dlx"], shown["message_bytes_dlx"]) == (3, 3, 6)
    channel.queue_declare("graves")
    channel.exchange_declare("dead-letters", "fanout")
    channel.queue_bind("graves", "dead-letters")
    node.wait_until(lambda: count("confirmed") == confirmed + 3, "all of them are confirmed")
    assert count("expired") == expired + 3


def test_the_store_tells_what_it_does(node, vhost, channel):
    names = (
        "rabbitmq_io_write_ops_total", "rabbitmq_io_write_bytes_total",
        "rabbitmq_io_sync_ops_total", "rabbitmq_io_sync_time_seconds_total",
        "rabbitmq_schema_db_disk_tx_total",
    )  # fmt: skip
    before = samples(node.metrics())
    channel.queue_declare("durable", durable=True)
    channel.confirm_delivery()
    kept = pika.BasicProperties(delivery_mode=2)
    channel.basic_publish("", "durable", b"x" * 10_000, kept)
    after = samples(node.metrics())
    for name in names:
        assert after[name, ()] > before[name, ()], name
    written = "rabbitmq_io_write_bytes_total"
    assert after[written, ()] - before[written, ()] >= 10_000


def test_messages_that_are_paged_out_and_in_are_counted(node, vhost, channel):
    lazy = {"x-queue-mode": "lazy"}
    channel.queue_declare("lazy", durable=True, arguments=lazy)
    channel.confirm_delivery()
    for _ in range(500):
        channel.basic_publish("", "lazy", b"x" * 1000, pika.BasicProperties(delivery_mode=2))

    def of_queue(name):
        page = node.metrics(f"/metrics/detailed?family=queue_metrics&vhost={vhost}")
        return value(page, f"rabbitmq_detailed_{name}", vhost=vhost, queue="lazy")

    node.wait_until(lambda: of_queue("queue_messages_paged_out") >= 100, "much is on disk only")
    assert of_queue("queue_disk_writes_total") >= 100
    # Nothing was consumed, and a scrape does not read from disk.
    assert of_queue("queue_disk_reads_total") == 0
    while channel.basic_get("lazy", auto_ack=True)[0] is not None:
        pass
    assert of_queue("queue_disk_reads_total") >= 100
    total = value(node.metrics(), "rabbitmq_queue_disk_reads_total")
    channel.queue_delete("lazy")
    assert value(node.metrics(), "rabbitmq_queue_disk_reads_total") >= total


# Objects


def test_each_object_has_its_own(node, vhost, traffic):
    page = node.metrics("/metrics/per-object")
    assert value(page, "rabbitmq_queue_messages_ready", vhost=vhost, queue="counted") == 3
    assert value(page, "rabbitmq_queue_messages_unacked", vhost=vhost, queue="counted") == 1
    of_queue = {"vhost": vhost, "queue": "counted"}
    assert value(page, "rabbitmq_channel_get_ack_total", **of_queue) == 2
    assert value(page, "rabbitmq_channel_messages_acked_total", **of_queue) == 1
    published = {"queue_vhost": vhost, "queue": "counted"}
    assert value(page, "rabbitmq_queue_messages_published_total", **published) == 5
    (channel,) = [one for one in node.get("channels") if one["vhost"] == vhost]
    assert value(page, "rabbitmq_channel_messages_unacked", channel=channel["name"]) == 1
    name = channel["connection_details"]["name"]
    assert value(page, "rabbitmq_connection_channels", channel=name) == 1


def test_the_timestamp_of_the_first_message_is_there_if_it_has_one(node, vhost, channel):
    for queue, stamp in (("stamped", 1_700_000_000), ("plain", None)):
        channel.queue_declare(queue)
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"x", pika.BasicProperties(timestamp=stamp))
    found = samples(node.metrics("/metrics/per-object"))
    name = "rabbitmq_queue_head_message_timestamp"
    assert found[name, (("queue", "stamped"), ("vhost", vhost))] == 1_700_000_000
    assert (name, (("queue", "plain"), ("vhost", vhost))) not in found


@pytest.mark.parametrize("path", PAGES[1:])
@pytest.mark.parametrize("accept", ["text/plain", OPEN_METRICS])
def test_wild_names_come_back_as_they_are(node, vhost, channel, path, accept):
    for name in WILD_NAMES:
        channel.queue_declare(name)
    parse = parse_open if accept == OPEN_METRICS else parse_text
    page = fetch(node, path, Accept=accept)[1].decode()
    found = {
        sample.labels["queue"]
        for family in parse(page)
        for sample in family.samples
        if sample.labels.get("vhost") == vhost and "queue" in sample.labels
    }
    assert found == set(WILD_NAMES)


# Details


def test_details_are_chosen_by_family_and_vhost(node, vhost, traffic):
    page = node.metrics(f"/metrics/detailed?family=queue_coarse_metrics&vhost={vhost}")
    found = {name for name, _ in samples(page) if name.startswith("rabbitmq_detailed_")}
    assert found == {
        "rabbitmq_detailed_queue_messages", "rabbitmq_detailed_queue_messages_ready",
        "rabbitmq_detailed_queue_messages_unacked",
    }  # fmt: skip
    assert value(page, "rabbitmq_detailed_queue_messages", vhost=vhost, queue="counted") == 4
    assert {dict(labels).get("vhost", vhost) for _, labels in samples(page)} == {vhost}
    nowhere = samples(node.metrics("/metrics/detailed?family=queue_metrics&vhost=no"))
    assert {name for name, _ in nowhere} == {"rabbitmq_build_info", "rabbitmq_identity_info"}


def test_details_without_a_family_only_identify_the_node(node):
    names = {name for name, _ in samples(node.metrics("/metrics/detailed"))}
    assert names == {"rabbitmq_build_info", "rabbitmq_identity_info"}


@pytest.mark.parametrize("family", sorted(FAMILIES - WITHOUT_SAMPLES))
def test_every_family_of_details_has_something_to_tell(node, traffic, family):
    names = {name for name, _ in samples(node.metrics(f"/metrics/detailed?family={family}"))}
    assert names - {"rabbitmq_build_info", "rabbitmq_identity_info"}
    assert all(name.startswith(("rabbitmq_detailed_", "rabbitmq_cluster_"))
               for name in names - {"rabbitmq_build_info", "rabbitmq_identity_info"})  # fmt: skip


def test_exchanges_and_vhosts_are_the_clusters(node, vhost, channel):
    channel.exchange_declare("mine", "topic")
    channel.queue_declare("q")
    channel.queue_bind("q", "mine", "a")
    channel.queue_bind("q", "mine", "b")
    families = ("exchange_bindings", "exchange_names", "vhost_status")
    query = "&".join(f"family={name}" for name in families)
    page = node.metrics(f"/metrics/detailed?{query}&vhost={quote(vhost)}")
    mine = {"vhost": vhost, "exchange": "mine", "type": "topic"}
    assert value(page, "rabbitmq_cluster_exchange_bindings", **mine) == 2
    assert value(page, "rabbitmq_cluster_exchange_name", **mine) == 1
    assert value(page, "rabbitmq_cluster_vhost_status", vhost=vhost) == 1
    exchanges = {dict(labels).get("exchange") for _, labels in samples(page)}
    assert "" not in exchanges


def test_logins_are_counted_by_where_they_came_from(node, channel):
    page = node.metrics("/metrics/detailed?family=auth_attempt_detailed_metrics")
    labels = {"remote_address": "127.0.0.1", "protocol": "amqp091"}
    assert value(page, "rabbitmq_detailed_auth_attempts_detailed_succeeded_total", **labels) >= 1


# Settings


def test_ages_are_of_the_busiest_queues_and_of_the_others_together(node, vhost, channel):
    for number in range(30):
        channel.queue_declare(f"busy{number}")
        channel.basic_publish("", f"busy{number}", b"x")
    channel.queue_declare("last")
    node.wait_until(lambda: node.get(f"queues/{vhost}/busy29")["messages"] == 1, "all is there")
    for path in ("/metrics", "/metrics/per-object"):
        queues = {
            dict(labels)["queue"]
            for name, labels in samples(node.metrics(path))
            if name == "rabbitmq_queue_oldest_ready_age_seconds"
        }
        assert "(others)" in queues
        assert len(queues) == 21


@pytest.fixture
def other_node(tmp_path):
    """A node with settings of its own."""
    served = []

    def serve(configuration):
        served.append(ServedNode(tmp_path, configuration))
        return served[0]

    yield serve
    for node in served:
        node.stop()


def test_settings_of_metrics(other_node):
    node = other_node(
        "prometheus.return_per_object_metrics = true\nprometheus.path = /m\n"
        "prometheus.age_queues = 2\nprometheus.filter_aggregated_queue_metrics_pattern = ^hidden"
    )
    for number in range(4):
        node.put(f"queues/%2F/hidden{number}")
        node.publish("/", f"hidden{number}", "x")
    found = samples(node.metrics("/m"))
    labels = (("queue", "hidden0"), ("vhost", "/"))
    assert found["rabbitmq_queue_messages_ready", labels] == 1
    ages = [key for key in found if key[0] == "rabbitmq_queue_oldest_ready_age_seconds"]
    assert len(ages) == 3
    with pytest.raises(urllib.error.HTTPError, match="404"):
        node.metrics("/metrics")


def test_queues_can_be_left_out_of_the_sums(other_node):
    node = other_node(r"prometheus.filter_aggregated_queue_metrics_pattern = ^(?<n>\Qhidden\E)")
    for name in ("hidden", "seen"):
        node.put(f"queues/%2F/{name}")
        node.publish("/", name, "x")
    page = node.metrics()
    assert value(page, "rabbitmq_queue_messages_ready") == 1
    assert value(page, "rabbitmq_queues") == 2


def test_metrics_can_ask_for_a_monitor(other_node):
    node = other_node("prometheus.authentication.enabled = true")
    for name, tags in (("watcher", "monitoring"), ("manager", "management")):
        assert node.put(f"users/{name}", {"password": "p", "tags": tags}).status == 201

    def status(user):
        url = f"http://127.0.0.1:{node.metrics_port}/metrics"
        passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
        with suppress(ValueError):
            passwords.add_password(None, url, *user.split(":"))
        opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
        try:
            return opener.open(url, timeout=PATIENCE_SECONDS).status
        except urllib.error.HTTPError as error:
            return error.code

    assert fetch(node)[0].getheader("WWW-Authenticate") == 'Basic realm="RabbitMQ Prometheus"'
    assert status("watcher:p") == status("guest:guest") == 200
    assert fetch(node)[0].status == fetch(node, "/metrics/detailed")[0].status == 401
    assert status("manager:p") == status("watcher:wrong") == 401
