"""MQTT: where clients are sent when their node is put under maintenance."""

from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.properties import SERVER_REFERENCE, read_properties
from leveret.broker.protocols.mqtt.redirection import server_reference
from leveret.broker.services.client_addresses import ClientAddress
from leveret.broker.sessions.served_connection import DRAINED
from tests.protocol.mqtt_peer import MqttNode


async def told_when_drained(node):
    """The reason code and the properties of DISCONNECT."""
    client = await node.connect().connected("client", level=5)
    client.connection.force_close(DRAINED)
    (found,) = [one.body for one in await client.packets() if one.kind == codes.DISCONNECT]
    properties = read_properties(found, 1, len(found))[0] if len(found) > 1 else {}
    return found[0], properties


async def test_a_client_is_told_another_node():
    async with MqttNode() as node:
        others = node.broker.services.mqtt_addresses.of_others
        others["b@two"] = ClientAddress("two.example", 1883)
        expected = codes.USE_ANOTHER_SERVER, {SERVER_REFERENCE: "two.example:1883"}
        assert await told_when_drained(node) == expected


async def test_a_client_of_the_only_node_is_told_that_it_stops():
    async with MqttNode() as node:
        assert await told_when_drained(node) == (codes.SERVER_SHUTTING_DOWN, {})


def test_clients_spread_over_the_nodes_that_serve_them():
    addresses = {
        "b@two": ClientAddress("two", 1883, "two", 8883),
        "c@three": ClientAddress("::1", 1884),
        "d@four": ClientAddress(),
    }
    references = {server_reference(addresses, f"client {n}", False) for n in range(20)}
    assert references == {"two:1883", "[::1]:1884"}
    assert server_reference(addresses, "any", True) == "two:8883"
    assert server_reference({}, "any", False) is None
