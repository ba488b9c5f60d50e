"""A consumer as RabbitMQ's JSON."""

from types import SimpleNamespace

from msgspec.structs import replace

from leveret.broker.queues.contract.status import UP
from leveret.mgmt.views.channels import consumer_view
from tests.unit.broker.queues.fakes import FakeConsumer

SAMPLER = SimpleNamespace(
    facade=SimpleNamespace(name="a@host"), stalled_since_s=lambda consumer: None
)


def test_a_consumer_of_a_log_has_an_offset_and_others_have_none():
    figures = FakeConsumer().figures(UP)
    assert "offset" not in consumer_view(figures, "/", "q", SAMPLER)
    view = consumer_view(replace(figures, offset=5, lag=2), "/", "log", SAMPLER)
    assert (view["offset"], view["offset_lag"]) == (5, 2)
