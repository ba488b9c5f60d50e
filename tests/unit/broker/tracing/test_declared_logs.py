"""Trace logs are declared: a node begins and ends its part when it applies the declaration."""

import pytest

from leveret.broker.config import Config, TcpSettings
from leveret.broker.config.tracing_settings import TracingSettings
from leveret.broker.declarations.values import DeleteParameter, PutParameter
from leveret.broker.node.broker import Broker

LOG = {"format": "log", "pattern": "#"}


@pytest.fixture
async def broker(tmp_path):
    config = Config(tcp=TcpSettings(listeners=()), tracing=TracingSettings(dir=tmp_path))
    broker = Broker(config)
    await broker.start()
    yield broker
    await broker.stop()


def running(broker):
    return [one.trace.name for one in broker.traces]


async def test_a_log_begins_and_ends_with_its_declaration(broker):
    registry = broker.services.registry
    registry.apply(PutParameter("trace-log", "/", "log", LOG))
    assert running(broker) == ["log"]
    assert broker.services.vhosts["/"].tracer is not None
    registry.apply(PutParameter("trace-log", "/", "log", {**LOG, "sample": 10}))
    assert [one.trace.sample for one in broker.traces] == [10]
    registry.apply(DeleteParameter("trace-log", "/", "log"))
    assert running(broker) == []
    assert broker.services.vhosts["/"].tracer is None


@pytest.mark.parametrize(
    ("vhost", "value"),
    [("gone", LOG), ("/", {"format": "xml", "pattern": "#"}), ("/", "not an object"), ("/", 7)],
)
async def test_a_declaration_without_sense_is_applied_and_logged(broker, caplog, vhost, value):
    broker.services.registry.apply(PutParameter("trace-log", vhost, "log", value))
    assert running(broker) == []
    assert "cannot be written" in caplog.text


async def test_a_vhost_has_one_log_also_if_two_nodes_declare_one_each(broker, caplog):
    for name in ("first", "second"):
        broker.services.registry.apply(PutParameter("trace-log", "/", name, LOG))
    assert running(broker) == ["first"]
    assert "already has a log" in caplog.text
    broker.services.registry.apply(DeleteParameter("trace-log", "/", "first"))
    assert running(broker) == ["second"]
