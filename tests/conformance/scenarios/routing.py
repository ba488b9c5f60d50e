"""Which bindings a message matches, by exchange type."""

from tests.conformance.field_table import encode_shortstr
from tests.conformance.scenario import scenario


def topic_matches(ctx, pattern, *keys):
    """Which of the routing keys a topic pattern matches."""
    channel, exchange, queue = ctx.channel(), ctx.name("exchange"), ctx.name("queue")
    channel.exchange_declare(exchange, "topic")
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange, pattern)
    channel.confirm_delivery()
    for key in keys:
        channel.basic_publish(exchange, key, key.encode())
    matched = ctx.bodies(channel, queue)
    return {key: key.encode() in matched for key in keys}


def headers_matches(ctx, binding, *candidates):
    """Which of several header tables a headers binding matches."""
    client, exchange, queue = ctx.wire(), ctx.name("exchange"), ctx.name("queue")
    client.call(1, "exchange.declare", exchange=exchange, type="headers")
    client.call(1, "queue.declare", queue=queue)
    bound = client.call(1, "queue.bind", queue=queue, exchange=exchange, arguments=binding)
    if bound["method"] != "queue.bind-ok":
        return bound
    answers = []
    for headers in candidates:
        client.publish(1, exchange, "", "x", {} if headers is None else {"headers": headers})
        got = client.call(1, "basic.get", queue=queue, no_ack=True)
        answers.append([headers, got["method"] == "basic.get-ok"])
    return answers


@scenario
def default_exchange_routes_by_queue_name(ctx, channel, queue):
    """Every queue can be reached by its name, and by nothing else."""
    channel.queue_declare(queue)
    channel.confirm_delivery()
    for key in (queue, queue.upper(), queue + ".x"):
        channel.basic_publish("", key, b"x")
    return ctx.deliveries(channel, queue)


@scenario
def fanout_ignores_keys(ctx):
    """A fanout exchange delivers one copy per queue, whatever the keys."""
    channel, exchange = ctx.channel(), ctx.name("exchange")
    channel.exchange_declare(exchange, "fanout")
    queues = [ctx.name("one"), ctx.name("two")]
    for queue in queues:
        channel.queue_declare(queue)
        channel.queue_bind(queue, exchange, "a")
        channel.queue_bind(queue, exchange, "b")
    channel.confirm_delivery()
    channel.basic_publish(exchange, "c", b"x")
    return [ctx.bodies(channel, queue) for queue in queues]


@scenario
def topic_star_is_one_word(ctx):
    """'*' matches exactly one word, and the empty key has none or one of them."""
    return topic_matches(ctx, "*", "", "a", "a.b", ".", "a.", ".a")


@scenario
def topic_hash_dot_hash(ctx):
    """'#.#' matches as '#' does."""
    return topic_matches(ctx, "#.#", "", "a", "a.b", ".", "a.b.c")


@scenario
def topic_star_dot_hash(ctx):
    """'*.#' needs at least one word."""
    return topic_matches(ctx, "*.#", "", "a", "a.b", ".", "a.b.c", ".a")


@scenario
def topic_star_dot_star(ctx):
    """'*.*' needs two words, which may be empty."""
    return topic_matches(ctx, "*.*", "", "a", "a.b", ".", "a.", ".b", "a.b.c")


@scenario
def topic_hash_in_the_middle(ctx):
    """'a.#.b' matches with nothing and with anything between."""
    return topic_matches(
        ctx, "a.#.b", "a.b", "a..b", "a.x.b", "a.x.y.b", "a", "ab", "a.b.c", "a.b.b"
    )


@scenario
def topic_star_hash_star(ctx):
    """'*.#.*' needs at least two words."""
    return topic_matches(ctx, "*.#.*", "a", "a.b", "a.b.c", ".", "")


@scenario
def topic_empty_pattern(ctx):
    """The empty pattern matches the empty key only."""
    return topic_matches(ctx, "", "", "a", ".")


@scenario
def topic_leading_dot_with_star(ctx):
    """'.*' starts with an empty word."""
    return topic_matches(ctx, ".*", ".a", "a", "a.b", ".", "..")


@scenario
def topic_wildcards_inside_words_are_literal(ctx):
    """'a*' and 'a#' as words have no wildcard."""
    return [topic_matches(ctx, "a*.b#", "a*.b#", "ab.bc", "a.b")]


@scenario
def topic_is_case_sensitive(ctx):
    """Words are compared as octets."""
    return topic_matches(ctx, "Über.a", "Über.a", "über.a", "Über.A")


@scenario
def topic_overlapping_bindings_are_one_copy(ctx):
    """Several matching bindings of one queue make one copy; unbinding one keeps the rest."""
    channel, exchange, queue = ctx.channel(), ctx.name("exchange"), ctx.name("queue")
    channel.exchange_declare(exchange, "topic")
    channel.queue_declare(queue)
    for pattern in ("#", "a.*", "a.b", "*.b"):
        channel.queue_bind(queue, exchange, pattern)
    channel.confirm_delivery()
    channel.basic_publish(exchange, "a.b", b"all")
    channel.queue_unbind(queue, exchange, "#")
    channel.queue_unbind(queue, exchange, "a.*")
    channel.basic_publish(exchange, "a.b", b"two left")
    channel.queue_unbind(queue, exchange, "a.b")
    channel.queue_unbind(queue, exchange, "*.b")
    channel.basic_publish(exchange, "a.b", b"none left")
    return ctx.bodies(channel, queue)


@scenario
def headers_match_any(ctx):
    """x-match any: one header of the binding is enough."""
    return headers_matches(
        ctx,
        {"x-match": ("S", "any"), "a": ("S", "1"), "b": ("S", "2")},
        {"a": ("S", "1")},
        {"b": ("S", "2"), "c": ("S", "3")},
        {"a": ("S", "2"), "b": ("S", "1")},
        {},
        None,
    )


@scenario
def headers_match_all_by_default(ctx):
    """Without x-match, every header must match."""
    return headers_matches(
        ctx,
        {"a": ("S", "1"), "b": ("S", "2")},
        {"a": ("S", "1"), "b": ("S", "2")},
        {"a": ("S", "1")},
    )


@scenario
def headers_match_nothing_bound_any(ctx):
    """Bindings without headers, for any."""
    return headers_matches(ctx, {"x-match": ("S", "any")}, {}, None, {"a": ("S", "1")})


@scenario
def headers_x_headers_are_left_out(ctx):
    """All and any do not look at headers that start with x-."""
    binding = {"x-a": ("S", "1"), "b": ("S", "2")}
    return headers_matches(
        ctx,
        {"x-match": ("S", "all"), **binding},
        {"b": ("S", "2")},
        {"x-a": ("S", "0"), "b": ("S", "2")},
        {"x-a": ("S", "1")},
    )


@scenario
def headers_match_any_with_x(ctx):
    """any-with-x is content with a header that starts with x-."""
    return headers_matches(
        ctx,
        {"x-match": ("S", "any-with-x"), "x-a": ("S", "1"), "b": ("S", "2")},
        {"x-a": ("S", "1")},
        {"b": ("S", "2")},
        {"c": ("S", "1")},
    )


@scenario
def headers_unknown_match_mode(ctx):
    """406 text for an unknown x-match."""
    return headers_matches(ctx, {"x-match": ("S", "some"), "a": ("S", "1")})


@scenario
def headers_void_matches_presence(ctx):
    """A void in the binding asks only that the header is there."""
    return headers_matches(
        ctx,
        {"x-match": ("S", "all"), "a": ("V", None)},
        {"a": ("S", "anything")},
        {"a": ("V", None)},
        {"b": ("S", "1")},
    )


@scenario
def headers_types_are_compared(ctx):
    """The number 1, the string '1' and true; integers of another width."""
    return headers_matches(
        ctx,
        {"x-match": ("S", "all"), "a": ("I", 1)},
        {"a": ("I", 1)},
        {"a": ("l", 1)},
        {"a": ("s", 1)},
        {"a": ("b", 1)},
        {"a": ("S", "1")},
        {"a": ("t", True)},
        {"a": ("d", 1.0)},
    )


@scenario
def headers_byte_array_and_string(ctx):
    """A string header matched against a byte array."""
    return headers_matches(
        ctx, {"x-match": ("S", "all"), "a": ("S", "v")}, {"a": ("x", "v")}, {"a": ("S", "v")}
    )


@scenario
def headers_nested_values(ctx):
    """Tables and arrays are compared as a whole."""
    table = ("F", {"k": ("I", 1)})
    return headers_matches(
        ctx,
        {"x-match": ("S", "all"), "a": table, "b": ("A", [("S", "x")])},
        {"a": table, "b": ("A", [("S", "x")])},
        {"a": table, "b": ("A", [("S", "x"), ("S", "y")])},
        {"a": ("F", {"k": ("I", 2)}), "b": ("A", [("S", "x")])},
    )


@scenario
def routing_key_of_255_octets(ctx):
    """The longest possible routing key is matched and delivered whole."""
    key = "k" * (256 - len(encode_shortstr("")))
    return topic_matches(ctx, key, key, key[:-1])
