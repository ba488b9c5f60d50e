"""Routing from exchange to exchange to queues, compared with RabbitMQ 3.10.8."""

from typing import Any

from leveret.broker.amqp.content_header import ContentHeader, read_header
from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.exchanges import create_exchange_type
from leveret.broker.exchanges.recent_history import RecentHistory
from tests.routes import route

HEADER = read_header(b"\0\0")


class Queue:
    is_exchange = is_deleted = is_down = False

    def __init__(self, name: str) -> None:
        self.name = name


class Exchange:
    is_exchange = True
    is_deleted = False

    def __init__(self, type_name: str, **arguments: Field) -> None:
        table: Table = {name.replace("_", "-"): field for name, field in arguments.items()}
        self.type = create_exchange_type(type_name, table)
        self.alternate: Exchange | None = None

    def lead_to(self, *destinations: "Queue | Exchange", key: str = "") -> "Exchange":
        for destination in destinations:
            self.type.bind(destination, key, {})
        return self


def reached(exchange: Exchange, *routing_keys: str, header: ContentHeader = HEADER) -> list[Any]:
    return route(exchange, routing_keys or ("",), header).queues


def delayed_header() -> ContentHeader:
    return read_header(encode_properties({"headers": {"x-delay": ("I", 500)}}))


def test_an_exchange_leads_to_its_queues() -> None:
    one, two = Queue("one"), Queue("two")
    exchange = Exchange("direct").lead_to(one, two, key="red")
    assert reached(exchange, "red") == [one, two]
    assert reached(exchange, "blue") == []


def test_each_exchange_on_the_way_is_asked_with_the_same_key() -> None:
    queue = Queue("queue")
    inner = Exchange("topic").lead_to(queue, key="big.*")
    outer = Exchange("topic").lead_to(inner, key="#.red")
    assert reached(outer, "big.red") == [queue]
    assert reached(outer, "big.blue") == []
    assert reached(outer, "small.red") == []


def test_a_queue_found_on_several_ways_comes_once_in_the_order_found() -> None:
    near, far = Queue("near"), Queue("far")
    left = Exchange("fanout").lead_to(far, near)
    right = Exchange("fanout").lead_to(far)
    assert reached(Exchange("fanout").lead_to(left, near, right)) == [near, far]


def test_a_cycle_ends() -> None:
    queue = Queue("queue")
    one = Exchange("fanout")
    two = Exchange("fanout").lead_to(one, queue)
    one.lead_to(two)
    assert reached(one) == [queue]


def test_an_exchange_may_lead_to_itself() -> None:
    exchange = Exchange("fanout")
    assert reached(exchange.lead_to(exchange)) == []


def test_every_routing_key_is_tried() -> None:
    own, carbon_copy = Queue("own"), Queue("carbon copy")
    exchange = Exchange("direct").lead_to(own, key="to").lead_to(own, carbon_copy, key="cc")
    assert reached(exchange, "to", "cc", "nowhere") == [own, carbon_copy]


def test_several_keys_do_not_make_a_hash_choose_several_queues() -> None:
    queues = [Queue(str(number)) for number in range(10)]
    for type_name in ("x-consistent-hash", "x-modulus-hash", "x-random"):
        exchange = Exchange(type_name).lead_to(*queues, key="1")
        assert len(reached(exchange, "to", *(f"cc {number}" for number in range(20)))) == 1


def test_what_matches_nothing_goes_to_the_alternate_exchange() -> None:
    known, rest = Queue("known"), Queue("rest")
    exchange = Exchange("direct").lead_to(known, key="known")
    exchange.alternate = Exchange("fanout").lead_to(rest)
    assert reached(exchange, "known") == [known]
    assert reached(exchange, "unknown") == [rest]


def test_alternate_exchanges_form_a_chain() -> None:
    queue = Queue("queue")
    first, second = Exchange("direct"), Exchange("direct")
    first.alternate, second.alternate = second, Exchange("fanout").lead_to(queue)
    assert reached(first, "key") == [queue]


def test_an_alternate_exchange_counts_on_the_way_too_whatever_else_matched() -> None:
    rest, direct = Queue("rest"), Queue("direct")
    inner = Exchange("direct")
    inner.alternate = Exchange("fanout").lead_to(rest)
    assert reached(Exchange("fanout").lead_to(inner), "key") == [rest]
    assert reached(Exchange("fanout").lead_to(inner, direct), "key") == [direct, rest]


def test_a_match_that_leads_nowhere_keeps_the_alternate_exchange_out() -> None:
    rest = Exchange("fanout").lead_to(Queue("rest"))
    dead_end = Exchange("fanout").lead_to(Exchange("direct"))
    one, two = Exchange("fanout"), Exchange("fanout")
    one.lead_to(two)
    two.lead_to(one)
    dead_end.alternate = two.alternate = rest
    assert reached(dead_end, "key") == []
    assert reached(one, "key") == []


def test_one_of_several_keys_that_matches_keeps_the_alternate_exchange_out() -> None:
    queue = Queue("queue")
    exchange = Exchange("direct").lead_to(queue, key="cc")
    exchange.alternate = Exchange("fanout").lead_to(Queue("rest"))
    assert reached(exchange, "unknown", "cc") == [queue]


def test_an_alternate_exchange_may_be_the_exchange_itself_or_lie_behind() -> None:
    alone = Exchange("direct")
    alone.alternate = alone
    assert reached(alone, "key") == []
    start = Exchange("fanout")
    inner = Exchange("direct")
    inner.alternate = start.lead_to(inner)
    assert reached(start, "key") == []


def test_a_route_can_be_cached_if_the_key_alone_decided_everywhere() -> None:
    by_key = Exchange("fanout").lead_to(Exchange("topic"), Exchange("x-consistent-hash"), key="1")
    assert route(by_key, ("key",), HEADER).is_cacheable
    by_key.lead_to(Exchange("headers"), key="1")
    assert not route(by_key, ("key",), HEADER).is_cacheable


def test_an_alternate_exchange_has_a_say_in_that() -> None:
    exchange = Exchange("direct")
    exchange.alternate = Exchange("x-random")
    assert not route(exchange, ("key",), HEADER).is_cacheable


def test_exchanges_with_a_history_are_reported_from_anywhere_on_the_way() -> None:
    outer, inner = Exchange("x-recent-history"), Exchange("x-recent-history")
    outer.lead_to(Exchange("fanout").lead_to(inner))
    found = route(outer, ("key",), HEADER)
    assert found.remembering == [outer.type, inner.type]
    assert found.is_cacheable


def test_a_message_waits_at_a_delayed_exchange_and_goes_no_further() -> None:
    at_once, later = Queue("at once"), Queue("later")
    delayed = Exchange("x-delayed-message", x_delayed_type=("S", "fanout")).lead_to(later)
    outer = Exchange("fanout").lead_to(delayed, at_once)
    waiting = route(outer, ("key",), delayed_header())
    assert waiting.queues == [at_once]
    assert waiting.delaying == [delayed]
    assert not waiting.is_cacheable
    passing = route(outer, ("key",), HEADER)
    assert passing.queues == [at_once, later]
    assert passing.delaying == []
    assert not passing.is_cacheable


def test_a_message_that_waits_has_matched_nothing_so_far() -> None:
    rest = Queue("rest")
    delayed = Exchange("x-delayed-message", x_delayed_type=("S", "fanout")).lead_to(Queue("later"))
    delayed.alternate = Exchange("fanout").lead_to(rest)
    assert reached(delayed, "key", header=delayed_header()) == [rest]


def test_a_history_inside_a_delayed_exchange_is_kept_when_the_delay_is_over() -> None:
    exchange = Exchange("x-delayed-message", x_delayed_type=("S", "x-recent-history"))
    assert route(exchange, ("key",), delayed_header()).remembering == []
    (history,) = route(exchange, ("key",), HEADER).remembering
    assert isinstance(history, RecentHistory)


def test_a_deleted_queue_is_passed_over_though_it_is_bound() -> None:
    queue, other = Queue("queue"), Queue("other")
    middle = Exchange("fanout").lead_to(other)
    exchange = Exchange("fanout").lead_to(queue, middle)
    queue.is_deleted = True
    assert reached(exchange) == [other]
    middle.is_deleted = True
    assert reached(exchange) == []


def test_if_all_that_matches_is_deleted_the_alternate_exchange_is_next() -> None:
    queue, other = Queue("queue"), Queue("other")
    exchange = Exchange("fanout").lead_to(queue)
    exchange.alternate = Exchange("fanout").lead_to(other)
    queue.is_deleted = True
    assert reached(exchange) == [other]


def test_a_duplicate_gets_as_far_as_the_alternate_exchange() -> None:
    queue, other = Queue("queue"), Queue("other")
    exchange = Exchange("x-message-deduplication", x_cache_size=("I", 5)).lead_to(queue)
    exchange.alternate = Exchange("fanout").lead_to(other)
    found = route(exchange, ("any",), HEADER)
    assert (found.queues, found.deduplicating, found.refusing) == ([queue], [exchange], [])
    assert not found.is_cacheable
    exchange.type.has_seen = lambda header: True  # type: ignore[attr-defined]
    found = route(exchange, ("any",), HEADER)
    assert (found.queues, found.deduplicating, found.refusing) == ([other], [], [exchange])
