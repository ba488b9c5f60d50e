"""Shovels whose other broker refuses, is silent or cannot take a message; it is another node, or a
real RabbitMQ.
"""

import socket
from pathlib import Path
from urllib.parse import urlencode

import pika
import pytest

from tests.cluster.clustered_nodes import ClusteredNode
from tests.cluster.rabbitmq_host import RabbitMqHost
from tests.feature.certificate_authority import CertificateAuthority
from tests.interop import INTEROP
from tests.mgmt.served_node import ServedNode
from tests.mgmt.test_shovels import (
    BODIES,
    local,
    publish,
    ready,
    shovel,
    take_all,
    wait_for_state,
)
from tests.ports import free_port

HAS_IPV6 = Path("/proc/net/if_inet6").exists()
KINDS = {
    "Leveret": lambda directory: ClusteredNode(directory, "far"),
    "RabbitMQ": lambda directory: RabbitMqHost(directory / "rabbit"),
}


@pytest.fixture(
    scope="module",
    params=["Leveret", pytest.param("RabbitMQ", marks=INTEROP)],
)
def far(request, tmp_path_factory):
    """Another broker."""
    made = KINDS[request.param](tmp_path_factory.mktemp("far"))
    yield made
    made.stop()


@pytest.fixture
def there(far):
    """A channel of a client of the other broker."""
    with far.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


def uri(far, user="guest:guest", path="", host="127.0.0.1"):
    return f"amqp://{user}@{host}:{far.port}{path}"


def count(channel, queue):
    """How many messages are ready in a queue."""
    return channel.queue_declare(queue, passive=True).method.message_count


def reason(node, vhost):
    (shown,) = node.get(f"shovels/{vhost}")
    return shown.get("reason", "")


def wait_for_reason(node, vhost, text):
    node.wait_until(lambda: text in reason(node, vhost), f"the reason has {text!r}")


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """A node with TLS: it, its port, and its authority."""
    directory = tmp_path_factory.mktemp("secure")
    authority = CertificateAuthority(directory)
    server = authority.issue("server", names=["localhost"])
    port = free_port()
    made = ServedNode(
        directory,
        f"listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {authority.certfile}\n"
        f"ssl_options.certfile = {server.certfile}\nssl_options.keyfile = {server.keyfile}\n"
        + (f"listeners.ssl.2 = ::1:{port}\n" if HAS_IPV6 else ""),
    )
    yield made, port, authority
    made.stop()


def options(authority, **more):
    return urlencode({"cacertfile": authority.certfile, "verify": "verify_peer", **more})


@pytest.mark.skipif(not HAS_IPV6, reason="this machine has no IPv6")
def test_ipv6(node, vhost, channel, secure):
    far, port, authority = secure
    publish(channel, "from", [b"x"])
    query = options(authority, server_name_indication="localhost")
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from", dest_queue=vhost,
        dest_uri=f"amqps://guest:guest@[::1]:{port}?{query}",
    )  # fmt: skip
    node.wait_until(lambda: ready(node, vhost, "from") == 0, "it is moved")
    (shown,) = node.get(f"shovels/{vhost}")
    assert shown["dest_uri"] == f"amqps://[::1]:{port}"
    assert ready(far, "%2F", vhost) == 1


def test_tls_with_a_server_that_is_checked(node, vhost, channel, secure, tmp_path):
    far, port, authority = secure
    publish(channel, "from", [b"x"])

    def wants(host, query):
        shovel(
            node, vhost, src_uri=local(vhost), src_queue="from", reconnect_delay=3600,
            dest_uri=f"amqps://guest:guest@{host}:{port}?{query}", dest_queue=vhost,
        )  # fmt: skip

    (tmp_path / "other").mkdir()
    for host, query, problem in [
        ("localhost", options(CertificateAuthority(tmp_path / "other")), "TLS fails: "),
        ("127.0.0.1", options(authority), "TLS fails: "),
        ("localhost", options(authority, cacertfile=tmp_path / "none"), "cannot be connected to"),
    ]:
        wants(host, query)
        wait_for_reason(node, vhost, f"amqps://{host}:{port}")
        assert problem in reason(node, vhost)
    assert ready(node, vhost, "from") == 1
    wants("127.0.0.1", options(authority, server_name_indication="localhost"))
    node.wait_until(lambda: ready(node, vhost, "from") == 0, "it is moved")
    assert ready(far, "%2F", vhost) == 1


def test_a_server_that_accepts_and_says_nothing_is_given_up(node, vhost):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"amqp://127.0.0.1:{silent.getsockname()[1]}"
        shovel(
            node, vhost, src_uri=local(vhost), src_queue="a",
            dest_uri=f"{address}?connection_timeout=500", dest_queue="b",
        )  # fmt: skip
        wait_for_state(node, vhost, "terminated")
    assert reason(node, vhost) == (
        f"failed to connect to destination: {address}: {address} does not answer connection.start "
        "within 0.5 s"
    )


def test_a_full_destination_that_refuses_gets_each_message_once(node, vhost, channel, far, there):
    publish(channel, "from", BODIES[:20])
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=uri(far), dest_queue=vhost,
        dest_queue_args={"x-max-length": 5, "x-overflow": "reject-publish"},
    )  # fmt: skip
    wait_for_state(node, vhost, "running")
    node.wait_until(lambda: count(there, vhost) == 5, "it is full")
    taken = []

    def take():
        taken.extend(take_all(there, vhost))
        return len(taken) >= 20

    node.wait_until(take, "all have come")
    assert sorted(taken) == sorted(BODIES[:20])
    node.wait_until(lambda: ready(node, vhost, "from") == 0, "all are acknowledged")
    assert count(there, vhost) == 0
    there.queue_delete(vhost)


def test_a_deleted_source_queue_is_declared_again(node, vhost, channel, far, there):
    shovel(
        node, vhost, src_uri=uri(far), src_queue=vhost, dest_uri=local(vhost), dest_queue="to",
        reconnect_delay=1,
    )  # fmt: skip
    wait_for_state(node, vhost, "running")
    there.queue_delete(vhost)
    wait_for_state(node, vhost, "terminated")
    assert "the source has cancelled the consumer" in reason(node, vhost)
    wait_for_state(node, vhost, "running")
    publish(there, vhost, BODIES[:5])
    node.wait_until(lambda: ready(node, vhost, "to") == 5, "all are moved")
    assert take_all(channel, "to") == BODIES[:5]
    there.queue_delete(vhost)


def test_a_password_that_is_changed_counts_from_the_next_login(node, vhost, channel, far, there):
    def wants(password):
        shovel(
            node, vhost, src_uri=local(vhost), src_queue="from", reconnect_delay=1,
            dest_uri=uri(far, f"{vhost}:{password}"), dest_queue=vhost,
        )  # fmt: skip

    far.ctl("add_user", vhost, "one")
    far.ctl("set_permissions", vhost, ".*", ".*", ".*")
    wants("one")
    wait_for_state(node, vhost, "running")
    far.ctl("change_password", vhost, "two")
    publish(channel, "from", [b"1"])
    node.wait_until(lambda: count(there, vhost) == 1, "it goes on")
    assert node.delete(f"shovels/vhost/{vhost}/s/restart").status == 204
    wait_for_state(node, vhost, "terminated")
    assert "ACCESS_REFUSED" in reason(node, vhost)
    publish(channel, "from", [b"2"])
    wants("two")
    node.wait_until(lambda: count(there, vhost) == 2, "it moves messages again")
    assert take_all(there, vhost) == [b"1", b"2"]
    for password in ("one", "two"):
        assert f":{password}@" not in node.log
    far.ctl("delete_user", vhost)
    there.queue_delete(vhost)


def test_names_and_passwords_of_any_characters(node, vhost, channel, far):
    place, user, password = f"{vhost} /%ü", f"{vhost}@ü", "p@ss:w/rd?#%"
    far.ctl("add_vhost", place)
    far.ctl("add_user", user, password)
    far.ctl("set_permissions", "-p", place, user, ".*", ".*", ".*")
    encoded = f"{vhost}%40%C3%BC:p%40ss%3Aw%2Frd%3F%23%25"
    path = f"/{vhost}%20%2F%25%C3%BC"
    publish(channel, "from", [b"x"])
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=uri(far, encoded, path),
        dest_queue="queue ü/%",
    )  # fmt: skip
    node.wait_until(lambda: ready(node, vhost, "from") == 0, "it is moved")
    (shown,) = node.get(f"shovels/{vhost}")
    assert shown["dest_uri"] == f"amqp://127.0.0.1:{far.port}{path}"
    address = pika.ConnectionParameters(
        "127.0.0.1", far.port, place, pika.PlainCredentials(user, password)
    )
    with pika.BlockingConnection(address) as connection:
        assert take_all(connection.channel(), "queue ü/%") == [b"x"]
    far.ctl("delete_vhost", place)
    far.ctl("delete_user", user)


@pytest.mark.parametrize("prefetch", [0, 1, 65_535, 10**12])
def test_any_prefetch_count(node, vhost, channel, far, there, prefetch):
    publish(channel, "from", BODIES)
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=uri(far), dest_queue=vhost,
        src_prefetch_count=prefetch,
    )  # fmt: skip
    node.wait_until(lambda: ready(node, vhost, "from") == 0, "all are acknowledged")
    assert take_all(there, vhost) == BODIES
    there.queue_delete(vhost)


def test_large_messages_and_many_headers(node, vhost, channel, far, there):
    large = bytes(range(256)) * 65_536 + b"the end"
    headers = {f"header {number}": "x" * number for number in range(100)}
    publish(channel, "from", [large, b"small"], headers=headers)
    shovel(node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=uri(far), dest_queue=vhost)
    shovel(
        node, vhost, "back", src_uri=uri(far), src_queue=vhost, dest_uri=local(vhost),
        dest_queue="to",
    )  # fmt: skip
    node.wait_until(lambda: ready(node, vhost, "to") == 2, "both are back")
    _, properties, body = channel.basic_get("to", auto_ack=True)
    assert properties.headers == headers
    assert body == large
    assert take_all(channel, "to") == [b"small"]
    there.queue_delete(vhost)


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish"])
def test_headers_that_no_frame_of_the_destination_holds(node, vhost, channel, far, there, ack_mode):
    publish(channel, "from", BODIES[:20])
    publish(channel, "from", [b"long"], headers={"long": "x" * 10_000})
    publish(channel, "from", [b"last"])
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from",
        dest_uri=uri(far) + "?frame_max=8192", dest_queue=vhost, ack_mode=ack_mode,
        reconnect_delay=1,
    )  # fmt: skip
    wait_for_state(node, vhost, "terminated")
    told = "a message cannot be published at the destination: its properties have 10017 bytes"
    assert told in reason(node, vhost)
    node.wait_until(lambda: node.log.count(told) > 1, "it was tried again")
    assert take_all(there, vhost) == BODIES[:20], "none of those before it is doubled"
    shovel(node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=uri(far), dest_queue=vhost)
    node.wait_until(lambda: ready(node, vhost, "from") == 0, "it is moved in a larger frame")
    assert take_all(there, vhost) == [b"long", b"last"]
    there.queue_delete(vhost)


def test_a_user_id_that_is_not_the_users(node, vhost, channel, far, there):
    publish(channel, "from", [b"x"], user_id="guest")
    far.ctl("add_user", vhost, "one")
    far.ctl("set_permissions", vhost, ".*", ".*", ".*")
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from",
        dest_uri=uri(far, f"{vhost}:one"), dest_queue=vhost, reconnect_delay=3600,
    )  # fmt: skip
    wait_for_state(node, vhost, "terminated")
    assert "406, PRECONDITION_FAILED - user_id property set to 'guest'" in reason(node, vhost)
    assert ready(node, vhost, "from") == 1
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from",
        dest_uri=uri(far, f"{vhost}:one"), dest_queue=vhost,
        dest_publish_properties={"user_id": vhost},
    )  # fmt: skip
    node.wait_until(lambda: ready(node, vhost, "from") == 0, "it is moved")
    assert take_all(there, vhost) == [b"x"]
    far.ctl("delete_user", vhost)
    there.queue_delete(vhost)


@pytest.mark.parametrize("hosts", [("127.0.0.1", "localhost"), ("localhost", "127.0.0.1")])
def test_a_source_that_is_its_own_destination_by_other_uris(node, vhost, far, there, hosts):
    publish(there, vhost, [b"stays"])
    source, destination = hosts
    shovel(
        node, vhost, src_uri=uri(far, host=source), src_queue=vhost,
        dest_uri=uri(far, host=destination), dest_queue=vhost, reconnect_delay=3600,
    )  # fmt: skip
    wait_for_state(node, vhost, "terminated")
    assert "the source is its own destination" in reason(node, vhost)
    assert take_all(there, vhost) == [b"stays"]
    there.queue_delete(vhost)
