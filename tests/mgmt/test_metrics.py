"""The metrics: RabbitMQ's names, totals and objects, and ages with bounded cardinality."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

OVERVIEW_DASHBOARD = (
    "rabbitmq_build_info",
    "rabbitmq_channels",
    "rabbitmq_channels_closed_total",
    "rabbitmq_channels_opened_total",
    "rabbitmq_connections",
    "rabbitmq_connections_closed_total",
    "rabbitmq_connections_opened_total",
    "rabbitmq_consumers",
    "rabbitmq_disk_space_available_bytes",
    "rabbitmq_global_messages_acknowledged_total",
    "rabbitmq_global_messages_confirmed_total",
    "rabbitmq_global_messages_delivered_consume_auto_ack_total",
    "rabbitmq_global_messages_delivered_consume_manual_ack_total",
    "rabbitmq_global_messages_delivered_get_auto_ack_total",
    "rabbitmq_global_messages_delivered_get_manual_ack_total",
    "rabbitmq_global_messages_get_empty_total",
    "rabbitmq_global_messages_received_confirm_total",
    "rabbitmq_global_messages_received_total",
    "rabbitmq_global_messages_redelivered_total",
    "rabbitmq_global_messages_routed_total",
    "rabbitmq_global_messages_unroutable_dropped_total",
    "rabbitmq_global_messages_unroutable_returned_total",
    "rabbitmq_global_publishers",
    "rabbitmq_identity_info",
    "rabbitmq_process_max_fds",
    "rabbitmq_process_max_tcp_sockets",
    "rabbitmq_process_open_fds",
    "rabbitmq_process_open_tcp_sockets",
    "rabbitmq_process_resident_memory_bytes",
    "rabbitmq_queue_messages_ready",
    "rabbitmq_queue_messages_unacked",
    "rabbitmq_queues",
    "rabbitmq_queues_created_total",
    "rabbitmq_queues_declared_total",
    "rabbitmq_queues_deleted_total",
    "rabbitmq_resident_memory_limit_bytes",
)
"""What the expressions of RabbitMQ's Overview dashboard for Grafana ask for."""


def samples(page):
    """Values by name and labels."""
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def value(page, name, **labels):
    return samples(page)[name, tuple(sorted(labels.items()))]


@pytest.fixture
def traffic(node, vhost, channel):
    """Five messages, two of them taken and one of these acked."""
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


def test_the_overview_dashboard_finds_all_it_asks_for(node, traffic):
    names = {name for name, _ in samples(node.metrics())}
    assert set(OVERVIEW_DASHBOARD) - names == set()


def test_totals_are_sums(node, vhost, traffic):
    page = node.metrics()
    ready = sum(queue["messages_ready"] for queue in node.get("queues"))
    assert value(page, "rabbitmq_queue_messages_ready") == ready
    assert value(page, "rabbitmq_queues") == len(node.get("queues"))
    received = value(page, "rabbitmq_global_messages_received_total", protocol="amqp091")
    confirmed = value(page, "rabbitmq_global_messages_confirmed_total", protocol="amqp091")
    assert received >= 5
    assert confirmed >= 5


def test_each_object_has_its_own(node, vhost, traffic):
    page = node.metrics("/metrics/per-object")
    assert value(page, "rabbitmq_queue_messages_ready", vhost=vhost, queue="counted") == 3
    assert value(page, "rabbitmq_queue_messages_unacked", vhost=vhost, queue="counted") == 1


def test_details_are_chosen_by_family_and_vhost(node, vhost, traffic):
    page = node.metrics(f"/metrics/detailed?family=queue_coarse_metrics&vhost={vhost}")
    found = {name for name, _ in samples(page) if name.startswith("rabbitmq_detailed_")}
    assert found == {
        "rabbitmq_detailed_queue_messages", "rabbitmq_detailed_queue_messages_ready",
        "rabbitmq_detailed_queue_messages_unacked",
        "rabbitmq_detailed_queue_process_reductions_total",
    }  # fmt: skip
    assert value(page, "rabbitmq_detailed_queue_messages", vhost=vhost, queue="counted") == 4
    assert "rabbitmq_detailed_queue" not in node.metrics(
        "/metrics/detailed?family=queue_metrics&vhost=no"
    )


def test_ages_are_of_the_busiest_queues_and_of_the_others_together(node, vhost, channel):
    for number in range(30):
        channel.queue_declare(f"busy{number}")
        channel.basic_publish("", f"busy{number}", b"x")
    channel.queue_declare("last")
    node.wait_until(lambda: node.get(f"queues/{vhost}/busy29")["messages"] == 1, "all is there")
    page = node.metrics()
    queues = {
        dict(labels)["queue"]
        for name, labels in samples(page)
        if name == "rabbitmq_queue_oldest_ready_age_seconds"
    }
    assert "(others)" in queues
    assert len(queues) == 21


def test_deaths_are_counted_by_their_reasons(node, vhost, channel):
    name = "rabbitmq_global_messages_dead_lettered_rejected_total"
    labels = {"queue_type": "rabbit_classic_queue", "dead_letter_strategy": "at_most_once"}
    before = value(node.metrics(), name, **labels)
    channel.queue_declare("dying", arguments={"x-dead-letter-exchange": "amq.fanout"})
    channel.basic_publish("", "dying", b"x")
    method = None
    while method is None:
        method, _, _ = channel.basic_get("dying")
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.connection.process_data_events(0)
    node.wait_until(lambda: value(node.metrics(), name, **labels) == before + 1, "it is counted")
