"""Users of network backends, whose permissions another node asks of the node of their login."""

from types import SimpleNamespace

import msgspec
import pytest

from leveret.broker.auth.access_control import AccessControl
from leveret.broker.auth.identity import BackendUnavailable, Identity
from leveret.broker.config import Config
from leveret.broker.runtime.pending_in_task import in_task
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.rpc.rpc import NotAnswered
from leveret.mgmt.api.asked_permissions import (
    TOPIC,
    AskedPermissions,
    PermissionQuestion,
    answer_for_permissions,
    numbered,
)
from tests.linked_rpc import linked

CHECKS = [
    ("may_use_vhost", ("/\udcff", "192.0.2.1")),
    ("may_use", ("/", "queue", "jobs", "read")),
    ("may_use_topic", ("/", "logs", "app.error", "write")),
]
"""The methods of a backend, with arguments."""


class Backend:
    """Allows one thing. asked: for whose login, and about what."""

    def __init__(self, *allowed):
        self.allowed, self.asked = allowed, []

    async def _answer(self, identity, question):
        self.asked.append((identity.state, question))
        return question == self.allowed

    def may_use_vhost(self, identity, *texts):
        return self._answer(identity, ("may_use_vhost", texts))

    def may_use(self, identity, *texts):
        return self._answer(identity, ("may_use", texts))

    def may_use_topic(self, identity, *texts):
        return self._answer(identity, ("may_use_topic", texts))


@pytest.fixture
async def asking():
    """The node of the login."""
    access = AccessControl(Config(), VirtualClock(), internal=None, chain=None)
    return SimpleNamespace(users_passed_on={}, facade=SimpleNamespace(access=access))


@pytest.fixture
async def questions(asking):
    """Those of the other node, `b`."""
    questions_of_a, questions_of_b, _, _ = linked()
    answer_for_permissions(asking, questions_of_a)
    return questions_of_b


@pytest.mark.parametrize(("check", "texts"), CHECKS)
@pytest.mark.parametrize("is_allowed", [True, False])
async def test_the_backend_of_the_login_decides_with_what_it_knows_of_it(
    asking, questions, check, texts, is_allowed
):
    backend = Backend(check, texts) if is_allowed else Backend()
    anna = Identity("anna", ("management",), backend, state="her token")
    with numbered(asking, anna) as number:
        permissions = AskedPermissions(questions, "a", number)
        there = Identity("anna", ("management",), permissions)
        assert await getattr(permissions, check)(there, *texts) is is_allowed
    assert backend.asked == [("her token", (check, texts))]


async def test_no_backend_is_asked_about_an_answered_request(asking, questions):
    with numbered(asking, Identity("anna", (), Backend())) as number:
        pass
    with pytest.raises(BackendUnavailable, match="no longer under way"):
        await AskedPermissions(questions, "a", number).may_use_vhost(Identity("anna"), "/", "")


async def test_a_permission_counts_as_denied_if_the_node_of_the_login_is_gone(questions):
    access = AccessControl(Config(), VirtualClock(), internal=None, chain=None)
    anna = Identity("anna", authorization=AskedPermissions(questions, "z", 1))
    assert await allowed(access, anna) is False


async def allowed(access, identity):
    return await in_task(access.may_use(identity, "/", "queue", "q", "read"))


async def test_answers_for_two_logins_of_one_name_are_not_mixed_up(asking, questions):
    access = AccessControl(Config(), VirtualClock(), internal=None, chain=None)
    found = []
    for backend in (Backend("may_use", ("/", "queue", "q", "read")), Backend()):
        with numbered(asking, Identity("anna", (), backend)) as number:
            anna = Identity("anna", authorization=AskedPermissions(questions, "a", number))
            found.append(await allowed(access, anna))
    assert found == [True, False]


async def test_a_check_of_a_later_release_is_refused(asking, questions):
    with numbered(asking, Identity("anna", (), Backend())) as number:
        asked = msgspec.msgpack.encode(PermissionQuestion(number, "weather", ()))
        with pytest.raises(NotAnswered, match="weather"):
            await questions.ask("a", TOPIC, asked, 60)
