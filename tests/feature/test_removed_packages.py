"""A node does not start while the package of a stored queue's kind is missing.

It starts without that of an exchange's type: the exchange stays, and routes nothing.
"""

import pytest

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.config import Config, TcpSettings
from leveret.broker.declarations.values import PutExchange, PutQueue, PutVhost
from leveret.broker.exchanges.missing_type import MissingType
from leveret.broker.node.broker import Broker, RestoreError
from leveret.broker.registry.stored import write
from leveret.storage.metadata.metadata import SqliteMetadata

IS_MAILBOX = encode_table({"x-queue-type": ("S", "mailbox")})


@pytest.mark.parametrize(
    ("declaration", "text"),
    [
        (
            PutQueue("/", "m", durable=True, arguments=IS_MAILBOX),
            "queue 'm' in vhost '/' cannot be restored: invalid arg 'x-queue-type' for queue 'm' "
            "in vhost '/': \"this node does not serve mailbox queues\"; ",
        ),
    ],
)
async def test_the_start_ends_with_the_object_and_its_type(tmp_path, declaration, text):
    metadata = SqliteMetadata(tmp_path / "metadata.sqlite")
    for one in (PutVhost("/"), declaration):
        write(one, metadata)
    broker = Broker(Config(tcp=TcpSettings(listeners=())), metadata)
    with pytest.raises(RestoreError) as error:
        await broker.start()
    assert str(error.value) == (
        text + "if its type is of a package that was removed, install the package again"
    )
    await broker.stop()


async def test_an_exchange_stays_without_the_package_of_its_type(tmp_path):
    metadata = SqliteMetadata(tmp_path / "metadata.sqlite")
    for one in (PutVhost("/"), PutExchange("/", "e", "x-first-word", durable=True)):
        write(one, metadata)
    broker = Broker(Config(tcp=TcpSettings(listeners=())), metadata)
    await broker.start()
    exchange = broker.services.vhosts["/"].exchanges["e"]
    assert (exchange.type_name, type(exchange.type)) == ("x-first-word", MissingType)
    await broker.stop()
