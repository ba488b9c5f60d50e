"""Parties of the message flow that are alike are drawn as one."""

from leveret.analytics.report.aggregates import Edge
from leveret.analytics.report.topology_groups import ALONE_MAX, grouped


def to_consumer(number, host="10.0.0.8", queue="jobs", messages=2):
    name = f"ctag-{number} on {host}:{40_000 + number} -> 10.0.9.9:5672"
    return Edge("/", "queue", queue, "consumer", name, None, messages)


def targets(edges):
    return [(one.target, one.messages) for one in grouped(edges)]


def test_few_consumers_have_their_names():
    edges = [to_consumer(number) for number in range(ALONE_MAX)]
    assert grouped(edges) == edges


def test_hundreds_of_connections_are_one_party_of_each_host():
    killed = [to_consumer(number) for number in range(300)]
    other = to_consumer(7, "10.0.0.9", messages=900)
    assert targets([*killed, other]) == [(other.target, 900), ("300 consumers on 10.0.0.8", 600)]


def test_consumers_on_many_hosts_are_one_party_of_each_queue():
    many = [to_consumer(number, f"10.0.1.{number}") for number in range(20)]
    few = to_consumer(1, queue="mails", messages=1)
    assert targets([*many, few]) == [("20 consumers on 20 hosts", 40), (few.target, 1)]


def test_generated_queues_are_one_party_with_the_consumers_of_all():
    names = [f"amq.gen-{number}" for number in range(40)]
    group = "40 queues with generated names"
    assert grouped([
        *(Edge("/", "exchange", "", "queue", name, None, 3) for name in names),
        *(to_consumer(number, queue=name) for number, name in enumerate(names)),
    ]) == [
        Edge("/", "exchange", "", "queue", group, None, 120),
        Edge("/", "queue", group, "consumer", "40 consumers on 10.0.0.8", None, 80),
    ]  # fmt: skip


def test_dead_letters_of_generated_queues_stay_dashed():
    edges = [
        Edge("/", "queue", f"amq.gen-{number}", "exchange", "dead", "expired", 1)
        for number in range(ALONE_MAX + 1)
    ]
    [one] = grouped(edges)
    assert (one.target, one.dead_letters, one.messages) == ("dead", "expired", ALONE_MAX + 1)
