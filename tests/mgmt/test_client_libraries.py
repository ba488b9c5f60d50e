"""Two client libraries for RabbitMQ's HTTP API.

Their habits are part of the test: empty lists for empty objects, JSON without a Content-Type, PUT
without a body, paths that end with a slash, spaces written as plus signs.
"""

import pytest

from tests.patience import PATIENCE_SECONDS

HOST = "127.0.0.1"


class TestPyrabbit:
    @pytest.fixture
    def client(self, node):
        library = pytest.importorskip("pyrabbit2", reason="pyrabbit2 is not installed")
        return library.Client(
            f"{HOST}:{node.http_port}", "guest", "guest", timeout=PATIENCE_SECONDS
        )

    def test_the_broker_and_its_nodes(self, client, node):
        assert client.is_alive()
        assert client.get_whoami()["name"] == "guest"
        assert client.get_overview()["node"] == node.name
        assert [one["name"] for one in client.get_nodes()] == [node.name]
        assert client.get_cluster_name()["name"]
        assert client.get_extensions()
        assert "queues" in client.get_definitions()

    def test_vhosts_users_and_permissions(self, client):
        client.create_vhost("made")
        assert "made" in client.get_vhost_names()
        assert client.get_vhost("made")["name"] == "made"
        client.create_user("maker", password="p", tags="management")
        assert "maker" in [one["name"] for one in client.get_users()]
        client.set_vhost_permissions("made", "maker", "a", "b", "c")
        assert client.get_permission("made", "maker") == {
            "user": "maker", "vhost": "made", "configure": "a", "read": "b", "write": "c",
        }  # fmt: skip
        assert len(client.get_user_permissions("maker")) == 1
        assert "maker" in [one["user"] for one in client.get_vhost_permissions("made")]
        client.delete_permission("made", "maker")
        client.delete_user("maker")
        client.delete_vhost("made")
        assert "made" not in client.get_vhost_names()

    def test_a_message_goes_through(self, client, node, vhost):
        client.create_exchange(vhost, "x", "topic")
        client.create_queue(vhost, "q", durable=True, arguments={"x-max-length": 5})
        client.create_binding(vhost, "x", "q", "a.b")
        assert client.publish(vhost, "x", "a.b", "hello", properties={"app_id": "test"})
        assert not client.publish(vhost, "x", "b", "lost")
        node.wait_until(lambda: client.get_queue_depth(vhost, "q") == 1, "it is counted")
        got = client.get_messages(vhost, "q", count=2)
        assert [(one["payload"], one["properties"]) for one in got] == [
            ("hello", {"app_id": "test"})
        ]
        client.purge_queue(vhost, "q")
        node.wait_until(lambda: client.get_queue_depth(vhost, "q") == 0, "it is purged")
        assert [one["routing_key"] for one in client.get_queue_bindings(vhost, "q")] == ["q", "a.b"]
        client.delete_binding(vhost, "x", "q", "a.b")
        client.delete_queue(vhost, "q")
        client.delete_exchange(vhost, "x")

    def test_queues_are_searched_page_by_page(self, client, vhost):
        for number in range(5):
            client.create_queue(vhost, f"log.{number}", durable=True)
        client.create_queue(vhost, "other", durable=True)
        assert len(client.get_queues(vhost, pattern="log")) == 5
        assert len(client.get_queues(vhost, pattern="^log.[12]$", regex=True)) == 2
        assert len(client.get_queues(vhost)) == 6

    def test_policies(self, client, vhost):
        client.create_policy(vhost, "p", pattern="^a", definition={"max-length": 5}, priority=1)
        assert client.get_policy(vhost, "p")["definition"] == {"max-length": 5}
        assert "p" in [one["name"] for one in client.get_all_policies()]
        client.delete_policy(vhost, "p")

    def test_connections_and_channels(self, client, node, vhost, channel):
        def ours(listed):
            return [one["name"] for one in listed if one["vhost"] == vhost]

        node.wait_until(lambda: ours(client.get_channels()), "the channel is listed")
        name = ours(client.get_connections())[0]
        assert client.get_connection(name)["user"] == "guest"
        assert client.get_channel(f"{name} (1)")["number"] == 1
        client.delete_connection(name)
        node.wait_until(lambda: not ours(client.get_connections()), "the connection is closed")

    def test_errors_carry_the_reason(self, client, vhost):
        with pytest.raises(Exception, match="Not Found") as caught:
            client.get_queue(vhost, "none")
        assert caught.value.status == 404
        with pytest.raises(Exception, match="unknown exchange type 'nonsense'"):
            client.create_exchange(vhost, "x", "nonsense")


class TestRabbitmqAdmin:
    @pytest.fixture
    def client(self, node):
        library = pytest.importorskip("rabbitmq_admin", reason="rabbitmq-admin is not installed")
        return library.AdminAPI(f"http://{HOST}:{node.http_port}", ("guest", "guest"))

    def test_everything_is_listed(self, client, vhost):
        assert client.overview()["rabbitmq_version"]
        assert client.whoami()["name"] == "guest"
        for kind in ("nodes", "exchanges", "vhosts", "users", "permissions", "extensions"):
            assert getattr(client, f"list_{kind}")()
        for kind in ("connections", "channels", "consumers", "policies", "bindings"):
            assert isinstance(getattr(client, f"list_{kind}")(), list)
        assert client.list_consumers_for_vhost(vhost) == []

    def test_the_memory_of_a_node(self, client, node):
        assert client.get_node(node.name, memory="true")["memory"]["total"]

    def test_exchanges(self, client, vhost):
        client.create_exchange_for_vhost("x", vhost, {"type": "fanout"})
        assert client.get_exchange_for_vhost("x", vhost)["type"] == "fanout"
        client.delete_exchange_for_vhost("x", vhost, if_unused=True)
        assert "x" not in [one["name"] for one in client.list_exchanges_for_vhost(vhost)]

    def test_a_plus_sign_in_a_path_is_no_space(self, client):
        client.create_vhost("a b", tracing=True)
        assert client.get_vhost("a b")["tracing"] is True
        assert client.get_vhost("a b")["name"] == "a+b"
        assert client.is_vhost_alive("a b") == {"status": "ok"}
        client.delete_vhost("a b")

    def test_users_without_a_password_and_their_permissions(self, client, vhost):
        client.create_user("maker", password="", tags=["management", "monitoring"])
        assert client.get_user("maker")["tags"] == ["management", "monitoring"]
        client.create_user_permission("maker", vhost)
        assert client.get_user_permission(vhost, "maker")["read"] == ".*"
        assert len(client.list_user_permissions("maker")) == 1
        client.delete_user_permission("maker", vhost)
        client.delete_user("maker")

    def test_policies_are_deleted_with_a_slash_at_the_end(self, client, vhost):
        client.create_policy_for_vhost(vhost, "p", {"max-length": 5}, pattern="^a", apply_to="all")
        assert client.get_policy_for_vhost(vhost, "p")["apply-to"] == "all"
        client.delete_policy_for_vhost(vhost, "p")
        assert client.list_policies_for_vhost(vhost) == []

    def test_definitions_come_back(self, client, vhost):
        definitions = client.get_definitions()
        assert vhost in [one["name"] for one in definitions["vhosts"]]
        client.post_definitions({"vhosts": definitions["vhosts"]})
