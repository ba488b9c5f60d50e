"""The topic exchange: a message matches a binding whose pattern matches its routing key.

Patterns are described in `topic_trie.py`.
"""

from collections.abc import Iterable

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.exchange_type import Destination, ExchangeType
from leveret.broker.exchanges.topic_trie import TopicTrie


class Topic(ExchangeType):
    """Matches patterns of words, `*` and `#`."""

    name = "topic"
    uses_every_key = True

    def __init__(self, arguments: Table) -> None:
        super().__init__(arguments)
        self._trie = TopicTrie()

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._trie.add(routing_key, destination)

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self._trie.remove(routing_key, destination)

    def route(self, routing_key: str, header: ContentHeader) -> Iterable[Destination | None]:
        return self._trie.match(routing_key)
