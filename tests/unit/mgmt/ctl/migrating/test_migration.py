"""The steps of a migration between two brokers in memory, one of which may go away."""

import pytest

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.errors import UNAVAILABLE, CtlError
from leveret.mgmt.ctl.migrating.brokers import MigrationBroker
from leveret.mgmt.ctl.migrating.migration import Migration
from leveret.mgmt.ctl.migrating.other_broker import OtherBroker
from leveret.mgmt.ctl.migrating.state import (
    BACK,
    FINISHING,
    IMPORTING,
    IN,
    MOVING,
    RUN,
    MigrationState,
    OnlyRun,
    load,
)

CREDENTIALS = "amqp://old", "http://old"
REFUSED = "refused"


class KeptBroker:
    """Answers as the HTTP API does. fails_after: how many requests it still answers."""

    timeout_s = 60

    def __init__(self, queues=(), version="rabbitmq_version"):
        self.queues = dict.fromkeys(queues, 0)
        self.parameters = {}
        self.imported = []
        self.delayed = 0
        self.fails_after = None
        self.connections = []
        self.definitions = {}
        self._overview = {"rabbitmq_version": "3.10.8", version: "0.1.0"}

    def wait_longer(self, seconds):
        """There is no limit."""

    def request(self, method, path, *, body=None, query=None):
        if self.fails_after is not None:
            self.fails_after -= 1
            if self.fails_after < 0:
                raise CtlError("it does not answer", UNAVAILABLE)
        return getattr(self, method.lower())(path, body, query or {})

    def get(self, path, _body, _query):
        kind = path[0]
        if kind in ("parameters", "global-parameters"):
            return self._parameters(path)
        queues = [{"vhost": "/", "name": name, "arguments": {}} for name in self.queues]
        return {
            "overview": self._overview,
            "cluster-name": {"name": "old"},
            "whoami": {"tags": "administrator"},
            "nodes": [{"enabled_plugins": ["rabbitmq_of_ours"]}],
            "definitions": {**self.definitions, "queues": queues},
            "connections": self.connections,
            "queues": [
                {**one, "type": "classic", "messages": self.queues[one["name"]]} for one in queues
            ],
            "exchanges": [{"name": "later", "messages_delayed": self.delayed}, {"name": ""}],
            "users": [{"vhost": "/", "read": ".*", "write": ".*"}],
        }.get(kind, [])

    def _parameters(self, path):
        if path in self.parameters:
            return {"value": self.parameters[path]}
        within = [one for one in self.parameters if one[: len(path)] == path]
        if not within and len(path) > 2 - (path[0] == "global-parameters"):
            raise HttpError(404, "not found")
        return [{"vhost": "/", "name": one[-1], "value": self.parameters[one]} for one in within]

    def put(self, path, body, _query):
        self.parameters[path] = body["value"]

    def delete(self, path, _body, _query):
        self.parameters.pop(path, None)

    def post(self, _path, body, query):
        if query.get("dry_run"):
            problems = [
                {"path": f"queues[{number}].name", "reason": "too long"}
                for number, one in enumerate(body.get("queues", []))
                if one["name"] == REFUSED
            ]
            return {"problems": problems, "changes": []}
        for one in body.get("queues", []):
            if one["name"] == REFUSED:
                raise HttpError(400, "too long")
            self.queues.setdefault(one["name"], 0)
            self.imported.append(one["name"])
        return None

    def links(self):
        return [path[-1] for path in self.parameters if path[0] == "parameters"]


class OtherKept(OtherBroker):
    """The other broker, whose API is kept in memory."""

    def __init__(self, api):
        super().__init__(CREDENTIALS[0], CREDENTIALS[1], "secret", 60)
        self.api = api

    def require_connections(self):
        """There is no AMQP listener."""


@pytest.fixture
def old():
    return KeptBroker(["bills", REFUSED, "orders"])


@pytest.fixture
def new():
    return KeptBroker(version="leveret_version")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr("leveret.mgmt.ctl.migrating.migration.time.sleep", lambda _seconds: None)


def migration(here, other, run=None, **values):
    """The migration that this node's state names, or a new one."""
    node = MigrationBroker(here, "this node")
    state = load(node) or MigrationState(*CREDENTIALS, **values)
    return Migration(node, OtherKept(other), state, run or OnlyRun(node))


def carry_out(old, new):
    """Each step of a migration, from where it is on."""
    run = OnlyRun(MigrationBroker(new, "this node"))
    with run.alone():
        _carry_out(migration(new, old, run))


def _carry_out(one):
    if one.state.step in ("none", IMPORTING):
        one.import_definitions(one.plan())
    if one.state.step == MOVING:
        one.resume()
        one.adjust(one.look())
    one.finish(also_connected=False)


def test_a_name_that_the_target_refuses_is_left_out_with_the_reason(old, new):
    plan = migration(new, old).plan()
    assert "queue 'refused' in vhost '/': too long" in str(plan.left_out[0])
    assert plan.unlinked == {"it is not at the target": 1}
    assert new.imported == []


@pytest.mark.parametrize("way", [IN, BACK])
def test_many_objects_are_imported_by_several_requests(old, new, monkeypatch, way):
    monkeypatch.setattr("leveret.mgmt.ctl.migrating.migration.SLICE", 2)
    source, target = (old, new) if way == IN else (new, old)
    source.queues = dict.fromkeys((f"q{number}" for number in range(5)), 0)
    target.queues, sizes, post = {}, [], target.post

    def counted(path, body, query):
        if not query.get("dry_run"):
            sizes.append(len(body["queues"]))
        return post(path, body, query)

    target.post = counted
    one = migration(new, old, way=way)
    one.import_definitions(one.plan())
    assert (sizes, len(target.imported)) == ([2, 2, 1], 5)


def test_definitions_are_checked_in_slices_with_what_they_refer_to(old, new, monkeypatch):
    monkeypatch.setattr("leveret.mgmt.ctl.migrating.plan.SLICE", 1)
    bound = {"vhost": "/", "source": "x", "destination_type": "queue"}
    old.definitions = {
        "vhosts": [{"name": "/"}],
        "exchanges": [{"vhost": "/", "name": name, "type": "topic"} for name in "wx"],
        "bindings": [{**bound, "destination": name} for name in ("bills", "orders")],
    }
    checked, post = [], new.post
    new.post = lambda path, body, query: checked.append(body) or post(path, body, query)
    plan = migration(new, old).plan()
    names = {
        kind: [one["name"] for one in checked[-1][kind]]
        for kind in ("vhosts", "exchanges", "queues")
    }
    assert names == {"vhosts": ["/"], "exchanges": ["x"], "queues": ["orders"]}
    assert [one["name"] for one in plan.definitions["queues"]] == ["bills", "orders"]
    assert len(plan.definitions["bindings"]) == 2


def test_a_source_from_which_another_migration_takes_messages(old, new):
    old.connections = [{"name": "there:1 -> old:5672", "user_provided_name": "Shovel migration a"}]
    with pytest.raises(CtlError, match="two migrations would divide the messages"):
        migration(new, old).plan()


def test_messages_that_no_link_moves_are_named(old, new):
    """An end would otherwise seem to be a matter of time."""
    old.queues[REFUSED] = 2
    one = migration(new, old)
    one.import_definitions(one.plan())
    with pytest.raises(CtlError) as refusal:
        one.finish(also_connected=True)
    assert "queues of amqp://old have messages that no link moves" in refusal.value.text
    assert "queue 'refused' in vhost '/', 2 messages: it is not at the target" in refusal.value.text


def test_rabbitmq_says_what_it_refuses_when_it_imports(old, new):
    one = migration(old, new, way=BACK)
    refused = one.import_definitions(one.plan())
    assert [item.what for item in refused] == ["queue 'refused'"]
    assert set(new.imported) == {"bills", "orders"}


def test_a_plugin_that_leveret_does_not_know_is_named(old, new):
    new.get = lambda path, *rest: [] if path[0] == "nodes" else KeptBroker.get(new, path, *rest)
    plan = migration(new, old).plan()
    assert any("plugin rabbitmq_of_ours: Leveret does not know it" in str(one)
               for one in plan.left_out)  # fmt: skip


@pytest.mark.parametrize("gone", ["old", "new"])
def test_a_broker_that_goes_away_after_any_request(old, new, gone):
    """What was done so far is kept, and carrying it out again leads to the same end."""
    for answered in range(100):
        source, target = KeptBroker(["bills", "orders"]), KeptBroker(version="leveret_version")
        broken = source if gone == "old" else target
        broken.fails_after = answered
        try:
            carry_out(source, target)
            break
        except CtlError:
            broken.fails_after = None
        # The process has ended, and its sign does not count.
        target.parameters = {
            path: value for path, value in target.parameters.items() if RUN not in path[-1]
        }
        carry_out(source, target)
        assert sorted(set(target.imported)) == ["bills", "orders"]
        assert [path for path in target.parameters if RUN not in path[-1]] == []
    assert 5 < answered < 99


def test_a_step_counts_when_the_node_has_it(old, new):
    one = migration(new, old)
    one.import_definitions(one.plan())
    new.fails_after = 0
    with pytest.raises(CtlError):
        one.start_roll_back()
    assert one.state.step == MOVING


def test_delayed_messages_are_waited_for(old, new):
    one = migration(new, old)
    one.import_definitions(one.plan())
    old.delayed = 2
    assert not one.is_done(one.look())
    with pytest.raises(CtlError, match="2 messages are delayed"):
        one.finish(also_connected=True)
    old.delayed = 0
    assert one.finish(also_connected=True) == []


def test_messages_that_come_late_keep_the_links(old, new):
    one = migration(new, old)
    one.import_definitions(one.plan())
    old.queues["orders"] = 3
    one.adjust(one.look())
    with pytest.raises(CtlError, match="messages are left"):
        one.finish(also_connected=False)
    assert one.state.step == FINISHING
    assert "migration orders" in new.links()
