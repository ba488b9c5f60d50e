"""Definitions exported by RabbitMQ can be imported and exported unchanged, and vice versa.

`golden/definitions.json` was exported by RabbitMQ 3.10.8. The other direction needs a running one:

    REPLAY_HTTP_PORT=15672 pytest tests/mgmt/test_definitions_of_rabbitmq.py
"""

import json
import os

import pytest

from tests.mgmt.recorder import definitions
from tests.mgmt.recorder.broker import Broker

EXPORTED = json.loads(definitions.PATH.read_text())


@pytest.fixture
def broker(node):
    broker = Broker(node.port, node.http_port)
    definitions.clean(broker)
    yield broker
    definitions.clean(broker)
    broker.close()


def exported_by(broker):
    return definitions.ours(broker.ask("GET", "definitions").body)


def comparable(exported):
    """For vhosts keep only names, which are all that RabbitMQ 3.10 exports."""
    names = sorted(vhost["name"] for vhost in exported["vhosts"])
    return {**exported, "vhosts": [{"name": name} for name in names]}


def without_salt(exported):
    """Hashes are salted, and RabbitMQ hashes an empty password for a user without one."""
    users = [{**user, "password_hash": ""} for user in exported["users"]]
    return {**exported, "users": sorted(users, key=lambda user: user["name"])}


def test_what_rabbitmq_exported_comes_in_and_goes_out_as_it_was(broker):
    answer = broker.ask("POST", "definitions", EXPORTED)
    assert answer.status == 204, answer
    assert comparable(exported_by(broker)) == comparable(EXPORTED)


def test_the_same_requests_make_the_same_definitions(broker):
    definitions.make(broker)
    assert without_salt(comparable(exported_by(broker))) == without_salt(comparable(EXPORTED))


def test_a_second_import_changes_nothing(broker):
    broker.ask("POST", "definitions", EXPORTED)
    planned = broker.ask("POST", "definitions?dry_run=true", EXPORTED).body
    assert (planned["changes"], planned["problems"]) == ([], [])


def test_tags_as_a_text_are_the_same_tags(broker):
    """RabbitMQ before 3.9 exports them so."""
    broker.ask("POST", "definitions", EXPORTED)
    users = [one | {"tags": ",".join(one["tags"])} for one in EXPORTED["users"]]
    planned = broker.ask("POST", "definitions?dry_run=true", EXPORTED | {"users": users}).body
    assert planned["changes"] == []


def test_users_of_rabbitmq_log_in_with_their_passwords(broker):
    broker.ask("POST", "definitions", EXPORTED)
    assert broker.ask("GET", "whoami", user="defs-plain:secret").status == 200
    assert broker.ask("GET", "whoami", user="defs-plain:wrong").status == 401
    assert broker.ask("GET", "whoami", user="defs-without:").status == 401


@pytest.mark.skipif("REPLAY_HTTP_PORT" not in os.environ, reason="needs a RabbitMQ that runs")
def test_an_export_from_here_is_imported_by_rabbitmq_and_back(broker):
    rabbitmq = Broker(0, int(os.environ["REPLAY_HTTP_PORT"]))
    definitions.clean(rabbitmq)
    broker.ask("POST", "definitions", EXPORTED)
    exported = exported_by(broker)
    answer = rabbitmq.ask("POST", "definitions", exported)
    assert answer.status == 204, answer
    assert comparable(exported_by(rabbitmq)) == comparable(exported)
    definitions.clean(rabbitmq)
    rabbitmq.close()
