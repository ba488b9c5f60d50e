"""A channel without a socket, for management."""

import pytest

from leveret.broker.amqp.errors import ConnectionFault
from leveret.broker.auth.identity import Identity
from leveret.broker.declarations.requester import Requester
from leveret.broker.declarations.values import DeleteVhost, PutVhost
from leveret.broker.sessions.declaring_queues import QueueProperties
from leveret.broker.sessions.direct import DirectConnection
from leveret.testing import EmbeddedBroker
from tests import declaring


class Directory:
    """A user directory that knows nothing of the node's vhosts."""

    def __init__(self, vhost_is_open=True):
        self.vhost_is_open = vhost_is_open

    def may_use_vhost(self, identity, vhost, peer_host):
        return self.vhost_is_open

    def may_use(self, identity, vhost, kind, name, permission):
        return True


async def declare(services, vhost, directory):
    anna = Identity("anna", ("administrator",), authorization=directory)
    with DirectConnection(services, anna, vhost, "127.0.0.1", Requester("anna")) as connection:
        await connection.declare_queue("q", QueueProperties({}, durable=True))


async def test_a_user_without_access_to_the_vhost_does_nothing_in_it():
    async with EmbeddedBroker() as embedded:
        services = embedded.broker.services
        with pytest.raises(ConnectionFault, match="access to vhost '/' refused for user 'anna'"):
            await declare(services, services.vhosts["/"], Directory(vhost_is_open=False))
        assert not services.vhosts["/"].queues


async def test_a_vhost_that_has_gone_meanwhile_gets_no_queue():
    async with EmbeddedBroker() as embedded:
        services = embedded.broker.services
        declaring.declare(embedded, PutVhost("going"))
        vhost = services.vhosts["going"]
        declaring.declare(embedded, DeleteVhost("going"))
        with pytest.raises(ConnectionFault, match="vhost going not found"):
            await declare(services, vhost, Directory())
        assert not vhost.queues
