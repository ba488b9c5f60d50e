"""Common code of exchange types: counting the bindings of a destination."""

from leveret.broker.exchanges.exchange_type import DestinationCounts


def test_a_destination_comes_once_however_often_it_was_added() -> None:
    destinations = DestinationCounts()
    destinations.add("queue")
    destinations.add("queue")
    assert list(destinations) == ["queue"]


def test_a_destination_stays_until_its_last_binding_goes() -> None:
    destinations = DestinationCounts()
    destinations.add("queue")
    destinations.add("queue")
    destinations.remove("queue")
    assert list(destinations) == ["queue"]
    destinations.remove("queue")
    assert not destinations
