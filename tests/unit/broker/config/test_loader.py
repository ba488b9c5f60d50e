"""Settings from a file, the environment and flags."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from leveret.broker.config import (
    SETTINGS,
    Config,
    ConfigError,
    IgnoredSetting,
    Listener,
    load_config,
)
from tests.rabbitmq_conf import load


@pytest.fixture(autouse=True)
def in_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative file names refer to a directory of the test."""
    monkeypatch.chdir(tmp_path)


def problems_of(
    text: str, environment: Mapping[str, str] | None = None, **flags: object
) -> list[str]:
    """Return the errors of load_config for a rabbitmq.conf."""
    with pytest.raises(ConfigError) as caught:
        load(text, environment, **flags)
    return str(caught.value).splitlines()


class TestDefaults:
    def test_a_config_of_its_own_has_the_defaults_of_rabbitmq(self) -> None:
        config = Config()
        assert config.tcp.listeners == (Listener(None, 5672),)
        assert config.management.port == 15672
        assert config.heartbeat_s == 60
        assert config.frame_max_bytes == 131_072
        assert config.channel_max == 2047
        assert config.handshake_timeout_ms == 10_000
        assert config.max_message_size_bytes == 134_217_728
        assert config.consumer_timeout_ms == 1_800_000
        assert config.connection_max is None
        assert (config.default_user, config.default_pass, config.default_vhost) == (
            "guest",
            "guest",
            "/",
        )
        assert config.default_user_tags == ("administrator",)
        assert config.loopback_users == ("guest",)
        assert config.authentication.mechanisms == ("PLAIN", "AMQPLAIN")
        assert config.memory.high_watermark_relative == 0.4
        assert config.disk.free_limit_bytes == 50_000_000
        assert config.collect_statistics_interval_ms == 5000

    def test_loading_nothing_gives_the_defaults(self) -> None:
        assert load_config(None, {}, {}) == Config()

    def test_replace_makes_another(self) -> None:
        assert replace(Config(), heartbeat_s=5).heartbeat_s == 5

    def test_a_node_is_called_after_its_host(self) -> None:
        node, _, host = Config().node_name.partition("@")
        assert node == "leveret"
        assert host
        assert "." not in host

    def test_the_password_does_not_show(self) -> None:
        assert "s3cret" not in repr(Config(default_pass="s3cret"))


class TestFormat:
    def test_a_setting_is_a_key_and_a_value(self) -> None:
        assert load("heartbeat = 30").heartbeat_s == 30

    @pytest.mark.parametrize(
        "text",
        [
            "heartbeat=30",
            "\t heartbeat\t=  30  ",
            "heartbeat = 30\r\n",
            "heartbeat = 30 # seconds",
            "heartbeat = 30 ## seconds",
            "heartbeat = '30'",
            "heartbeat = '30' # seconds",
            "# heartbeat = 5\n\n  ## heartbeat = 6\n   \nheartbeat = 30",
            "heartbeat = 10\nheartbeat = 20\nheartbeat = 30",
        ],
    )
    def test_space_comments_quotes_and_repetition(self, text: str) -> None:
        assert load(text).heartbeat_s == 30

    def test_a_comment_begins_anywhere_but_in_quotes(self) -> None:
        assert load("default_pass = abc#def").default_pass == "abc"
        assert load("default_pass = 'abc#def'").default_pass == "abc#def"

    def test_quotes_keep_what_they_hold(self) -> None:
        assert load("default_pass = ' a = b '").default_pass == " a = b "
        assert load("default_pass = ''").default_pass == ""

    def test_a_value_may_hold_blanks_and_equals_signs(self) -> None:
        assert load("cluster_name = our = cluster").cluster_name == "our = cluster"

    def test_a_dot_within_a_word_is_written_with_a_backslash(self) -> None:
        assert load("loopback_users.john\\.doe = true").loopback_users == ("john.doe",)

    def test_text_is_utf_8(self) -> None:
        assert load("default_pass = pässwörd").default_pass == "pässwörd"

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("heartbeat", "expected 'key = value', found 'heartbeat'"),
            ("default_pass: xyzzy", "expected 'key = value', found 'default_pass ...'"),
            ("heartbeat: 30", "expected 'key = value', found 'heartbeat: 30'"),
            ("heartbeat =", "heartbeat has no value; an empty one is written ''"),
            ("heartbeat = # 30", "heartbeat has no value; an empty one is written ''"),
            (
                "{rabbit, []}.",
                "expected 'key = value', found '{rabbit, []}.'; this looks like an "
                "advanced.config, which is a file beside this one, or the one that "
                "LEVERET_ADVANCED_CONFIG names",
            ),
        ],
    )
    def test_a_line_that_is_no_setting(self, text: str, problem: str) -> None:
        assert problems_of(text) == [f"rabbitmq.conf line 1: {problem}"]


class TestOtherFiles:
    def test_include_puts_the_settings_of_other_files_in_place_of_the_line(self) -> None:
        Path("conf.d").mkdir()
        Path("conf.d/10-first.conf").write_text("heartbeat = 10\nchannel_max = 10")
        Path("conf.d/20-second.conf").write_text("channel_max = 20")
        config = load("heartbeat = 5\ninclude conf.d/*.conf\ndefault_user = ann")
        assert config.heartbeat_s == 10
        assert config.channel_max == 20
        assert config.default_user == "ann"

    def test_a_problem_names_the_included_file(self) -> None:
        Path("more.conf").write_text("\nheartbeat = abc")
        (problem,) = problems_of("include more.conf")
        assert problem.startswith("more.conf line 2: heartbeat = 'abc'")

    def test_a_file_cannot_include_itself(self) -> None:
        Path("more.conf").write_text("include rabbitmq.conf")
        assert problems_of("include more.conf") == [
            "more.conf line 1: rabbitmq.conf includes itself"
        ]

    def test_a_value_can_be_the_content_of_a_file(self) -> None:
        Path("secret.txt").write_text("s3cret\n")
        assert load("default_pass = $(<secret.txt)").default_pass == "s3cret"

    def test_a_file_that_cannot_be_read(self) -> None:
        assert problems_of("default_pass = $(<secret.txt)") == [
            "rabbitmq.conf line 1: cannot read secret.txt: No such file or directory"
        ]
        with pytest.raises(ConfigError, match=r"^cannot read lost.conf: No such file"):
            load_config(Path("lost.conf"), {}, {})

    def test_a_file_that_is_no_text(self) -> None:
        Path("binary.conf").write_bytes(b"\xff\xfe")
        with pytest.raises(ConfigError, match=r"^binary.conf is not UTF-8 text$"):
            load_config(Path("binary.conf"), {}, {})


class TestValues:
    @pytest.mark.parametrize(
        ("text", "amount"),
        [
            ("50000", 50_000),
            ("500KB", 500_000),
            ("500kb", 500_000),
            ("50mb", 50_000_000),
            ("5GB", 5_000_000_000),
            ("1k", 1024),
            ("1K", 1024),
            ("1KiB", 1024),
            ("3M", 3 * 1024**2),
            ("3MiB", 3 * 1024**2),
            ("2G", 2 * 1024**3),
            ("2gib", 2 * 1024**3),
        ],
    )
    def test_sizes_have_units(self, text: str, amount: int) -> None:
        assert load(f"disk_free_limit.absolute = {text}").disk.free_limit_bytes == amount

    def test_some_sizes_have_units_that_are_powers_of_two(self) -> None:
        assert load("frame_max = 128KB").frame_max_bytes == 131_072
        assert load("queue_index_embed_msgs_below = 4kb").queue_index_embed_below_bytes == 4096

    @pytest.mark.parametrize(("text", "value"), [("true", True), ("on", True), ("off", False)])
    def test_booleans(self, text: str, value: bool) -> None:
        assert load(f"tcp_listen_options.nodelay = {text}").tcp.nodelay is value

    @pytest.mark.parametrize("text", ["0.6", "60%", "0.60"])
    def test_fractions(self, text: str) -> None:
        config = load(f"vm_memory_high_watermark.relative = {text}")
        assert config.memory.high_watermark_relative == 0.6

    @pytest.mark.parametrize("word", ["undefined", "none", "false", "infinity"])
    def test_the_consumer_timeout_can_be_off(self, word: str) -> None:
        assert load(f"consumer_timeout = {word}").consumer_timeout_ms is None

    def test_infinity_is_no_limit(self) -> None:
        config = load("connection_max = infinity\nhandshake_timeout = infinity")
        assert config.connection_max is None
        assert config.handshake_timeout_ms is None
        assert load("connection_max = 100").connection_max == 100

    def test_a_log_file_can_be_off(self) -> None:
        assert load("log.file = false").log.file is None
        assert load("log.file = leveret.log").log.file == "leveret.log"

    def test_a_node_name_without_a_host_gets_this_one(self) -> None:
        assert load("node_name = hare@field").node_name == "hare@field"
        host = Config().node_name.partition("@")[2]
        assert load("node_name = hare").node_name == f"hare@{host}"

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("heartbeat = abc", "a whole number of seconds, 0 to 65535"),
            ("heartbeat = -1", "a whole number of seconds, 0 to 65535"),
            ("heartbeat = 1_0", "a whole number of seconds, 0 to 65535"),
            ("channel_max = 65536", "a whole number of channels, 0 to 65535"),
            ("compat = 3.11", "one of 3.12, 4.0, 4.x"),
            ("log.console = yes", "true or false"),
            ("default_user = ''", "a text that is not empty"),
            ("vm_memory_high_watermark.relative = nan", "a number such as 0.4 or 40%"),
            (
                "vm_memory_high_watermark_paging_ratio = 1.5",
                "a number such as 0.4 or 40%, at most 1",
            ),
            (
                "consumer_timeout = 0",
                "a whole number of milliseconds, 1 or more, or "
                + "undefined or none or false or infinity",
            ),
            (
                "disk_free_limit.absolute = 5XB",
                "a number of bytes, 0 or more, such as 4096, 512KB or 2GiB",
            ),
            (
                "max_message_size = 1GB",
                "a number of bytes, 1 to 536870912, such as 4096, 512KB or 2GiB",
            ),
            (
                "frame_max = 100",
                "0 or a number of bytes, 4096 or more, such as 4096, 128KB or 1MB",
            ),
            ("listeners.tcp.default = 127.0.0.1", "a port or host:port"),
            ("listeners.tcp.default = 70000", "a port or host:port"),
            ("listeners.tcp.default = ::x:5672", "a port or host:port"),
            ("listeners.tcp = 5672", "none"),
            ("management.tcp.ip = not/a/host", "a host name or an address"),
            ("node_name = @host", "a name such as leveret or leveret@host"),
        ],
    )
    def test_a_bad_value_is_refused(self, line: str, expected: str) -> None:
        key, _, value = line.partition(" = ")
        text = value.strip("'")
        assert problems_of(f"\n\n{line}") == [
            f"rabbitmq.conf line 3: {key} = '{text}': expected {expected}"
        ]


class TestFamilies:
    def test_one_user_is_no_longer_bound_to_this_host(self) -> None:
        assert load("loopback_users.guest = false").loopback_users == ()

    def test_no_one_is(self) -> None:
        assert load("loopback_users = none").loopback_users == ()

    def test_those_that_are_marked_replace_the_default(self) -> None:
        config = load("loopback_users.ann = true\nloopback_users.bob = true")
        assert config.loopback_users == ("ann", "bob")

    def test_tags_of_the_default_user(self) -> None:
        config = load("default_user_tags.management = true\ndefault_user_tags.other = false")
        assert config.default_user_tags == ("management",)

    def test_mechanisms_are_listed_in_the_order_of_the_file(self) -> None:
        config = load("auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL")
        assert config.authentication.mechanisms == ("PLAIN", "EXTERNAL")

    def test_a_variable_has_a_family_as_one_text(self) -> None:
        config = load(
            "loopback_users.ann = true",
            {"LEVERET_LOOPBACK_USERS": "guest, bob", "LEVERET_AUTH_MECHANISMS": "PLAIN"},
        )
        assert config.loopback_users == ("guest", "bob")
        assert config.authentication.mechanisms == ("PLAIN",)
        assert load("", {"LEVERET_LOOPBACK_USERS": "none"}).loopback_users == ()


class TestListeners:
    def test_ports_and_hosts(self) -> None:
        config = load(
            """
            listeners.tcp.default = 5672
            listeners.tcp.local = 127.0.0.1:5673
            listeners.tcp.local_v6 = ::1:5674
            listeners.tcp.brackets = [fe80::1]:5675
            listeners.tcp.name = localhost:5676
            """
        )
        assert config.tcp.listeners == (
            Listener(None, 5672),
            Listener("127.0.0.1", 5673),
            Listener("::1", 5674),
            Listener("fe80::1", 5675),
            Listener("localhost", 5676),
        )

    @pytest.mark.parametrize(
        "text",
        [
            "listeners.tcp = none",
            "listeners.tcp = none\nlisteners.tcp.default = 5672",
            "listeners.tcp.default = 0",
        ],
    )
    def test_none_at_all(self, text: str) -> None:
        assert load(text).tcp.listeners == ()

    def test_the_port_flag_replaces_them(self) -> None:
        config = load("listeners.tcp.one = 5001\nlisteners.tcp.two = 5002", port=5003)
        assert config.tcp.listeners == (Listener(None, 5003),)

    def test_port_0_switches_amqp_off(self) -> None:
        assert load("listeners.tcp.one = 5001", port=0).tcp.listeners == ()

    def test_the_bind_flag_replaces_every_host(self) -> None:
        config = load(
            "listeners.tcp.one = 5001\nlisteners.tcp.two = 10.0.0.1:5001\n"
            "management.tcp.ip = 10.0.0.1",
            bind="127.0.0.1",
        )
        assert config.tcp.listeners == (Listener("127.0.0.1", 5001),)
        assert config.management.bind == "127.0.0.1"

    def test_management_may_have_an_interface_of_its_own(self) -> None:
        variables = {"LEVERET_BIND": "10.0.0.1", "LEVERET_MANAGEMENT_TCP_IP": "127.0.0.1"}
        config = load_config(None, variables, {})
        assert config.tcp.listeners == (Listener("10.0.0.1", 5672),)
        assert config.management.bind == "127.0.0.1"

    def test_management_port_0_switches_management_off(self) -> None:
        assert load_config(None, {}, {"management_port": 0}).management.port == 0
        assert load("management.tcp.port = 8080").management.port == 8080
        assert load("management.listener.port = 8080").management.port == 8080

    def test_a_variable_made_by_kubernetes_is_no_port(self) -> None:
        variables = {"LEVERET_PORT": "tcp://10.0.0.7:5672", "LEVERET_SERVICE_HOST": "10.0.0.7"}
        assert load_config(None, variables, {}) == Config()


class TestLimitsThatAreStatedInTwoWays:
    def test_a_share_of_the_memory_replaces_the_default_amount_of_disk(self) -> None:
        config = load("disk_free_limit.relative = 1.5")
        assert (config.disk.free_limit_bytes, config.disk.free_limit_relative) == (None, 1.5)

    def test_the_amount_goes_first(self) -> None:
        config = load("disk_free_limit.relative = 1.5\ndisk_free_limit.absolute = 1GB")
        assert config.disk.free_limit_bytes == 1_000_000_000
        assert config.disk.free_limit_relative is None

    def test_a_higher_layer_chooses_again(self) -> None:
        config = load(
            "vm_memory_high_watermark.absolute = 2GiB",
            {"LEVERET_VM_MEMORY_HIGH_WATERMARK_RELATIVE": "0.7"},
        )
        assert config.memory.high_watermark_bytes is None
        assert config.memory.high_watermark_relative == 0.7


class TestLayers:
    def test_flags_go_before_the_environment_and_that_before_the_file(self) -> None:
        text = "node_name = file@x\ndata_dir = file\nmanagement.tcp.port = 1"
        environment = {"LEVERET_NODE": "variable@x", "LEVERET_DATA_DIR": "variable"}
        config = load(text, environment, node="flag@x")
        assert config.node_name == "flag@x"
        assert config.data_dir == Path("variable")
        assert config.management.port == 1

    def test_a_flag_that_was_not_given_is_none(self) -> None:
        assert load("node_name = file@x", node=None).node_name == "file@x"

    def test_every_setting_has_a_variable_of_its_own(self) -> None:
        variables = [setting.variable for setting in SETTINGS]
        assert len(set(variables)) == len(variables)
        assert load_config(None, {"LEVERET_HEARTBEAT": "7"}, {}).heartbeat_s == 7
        variable = {"LEVERET_TCP_LISTEN_OPTIONS_BACKLOG": "7"}
        assert load_config(None, variable, {}).tcp.backlog == 7

    def test_the_file_can_be_named_by_a_variable(self) -> None:
        Path("leveret.conf").write_text("heartbeat = 8")
        assert load_config(None, {"LEVERET_CONFIG": "leveret.conf"}, {}).heartbeat_s == 8

    def test_a_bad_variable_is_named(self) -> None:
        (problem,) = problems_of("", {"LEVERET_HEARTBEAT": "often"})
        assert problem == (
            "environment variable LEVERET_HEARTBEAT = 'often': "
            "expected a whole number of seconds, 0 to 65535"
        )
        (problem,) = problems_of("", {"LEVERET_LISTENERS_TCP": "x"})
        assert problem == (
            "environment variable LEVERET_LISTENERS_TCP = 'x': "
            "expected a port or host:port, or several with commas between them, or none"
        )

    def test_an_empty_variable_counts_as_not_set(self) -> None:
        assert load("heartbeat = 9", {"LEVERET_HEARTBEAT": ""}).heartbeat_s == 9

    def test_a_bad_flag_is_named(self) -> None:
        assert problems_of("", management_port="x") == [
            "--management-port = 'x': expected a whole number, 0 to 65535"
        ]


class TestUnknownKeys:
    @pytest.mark.parametrize(
        ("key", "nearest"),
        [
            ("heartbeet", "heartbeat"),
            ("frame-max", "frame_max"),
            ("listener.tcp.default", "listeners.tcp.default"),
            ("tcp_listen_option.backlog", "tcp_listen_options.backlog"),
            ("vm_memory_high_watermark", "vm_memory_high_watermark.relative"),
            ("management.ssl.prt", "management.ssl.port"),
            ("Heartbeat", "heartbeat"),
        ],
    )
    def test_the_nearest_known_key_is_named(self, key: str, nearest: str) -> None:
        assert problems_of(f"# ours\n{key} = 5") == [
            f"rabbitmq.conf line 2: unknown key '{key}'; did you mean '{nearest}'?"
        ]

    def test_if_there_is_one(self) -> None:
        assert problems_of("xyzzy = 5") == ["rabbitmq.conf line 1: unknown key 'xyzzy'"]

    def test_all_problems_are_reported_together(self) -> None:
        problems = problems_of(
            "heartbeet = 5\nchannel_max = many\nnonsense\nframe_max = 131072",
            {"LEVERET_HANDSHAKE_TIMEOUT": "long"},
            port="http",
        )
        assert [problem.partition(":")[0] for problem in problems] == [
            "rabbitmq.conf line 3",
            "rabbitmq.conf line 1",
            "rabbitmq.conf line 2",
            "environment variable LEVERET_HANDSHAKE_TIMEOUT = 'long'",
            "--port = 'http'",
        ]


class TestSettingsWithoutEffect:
    def test_a_key_that_only_rabbitmq_uses_is_accepted_and_listed(self) -> None:
        config = load("heartbeat = 5\nnum_acceptors.tcp = 10\nssl_options.honor_ecc_order = true")
        assert config.settings_without_effect == (
            IgnoredSetting("num_acceptors.tcp", "rabbitmq.conf line 2"),
            IgnoredSetting("ssl_options.honor_ecc_order", "rabbitmq.conf line 3"),
        )

    def test_once_if_it_is_there_twice(self) -> None:
        config = load("num_acceptors.tcp = 10\nnum_acceptors.tcp = 20")
        assert config.settings_without_effect == (
            IgnoredSetting("num_acceptors.tcp", "rabbitmq.conf line 2"),
        )


class TestPlugins:
    """`stream.listeners` of a configuration, with plugins from each place."""

    def listeners(self, text: str = "", environment: Mapping[str, str] | None = None) -> object:
        config = load(text, environment)
        return config.stream.listeners, config.stream.tls_listeners

    def test_the_stream_protocol_is_off(self) -> None:
        assert self.listeners() == ((), ())

    def test_a_listener_needs_no_plugin(self) -> None:
        assert self.listeners("stream.listeners.tcp.default = 5553") == (
            (Listener(None, 5553),),
            (),
        )
        assert self.listeners("stream.listeners.ssl.1 = 5551") == ((), (Listener(None, 5551),))

    def test_the_plugin_opens_the_usual_port(self) -> None:
        environment = {"LEVERET_PLUGINS": "rabbitmq_management, rabbitmq_stream"}
        usual = (Listener(None, 5552),)
        assert self.listeners(environment=environment) == (usual, ())
        assert self.listeners("stream.listeners.tcp = none", environment) == ((), ())
        assert load("", plugins="rabbitmq_stream").stream.listeners == usual
        assert load("", environment, bind="::1").stream.listeners == (Listener("::1", 5552),)

    def test_rabbitmqs_file_of_enabled_plugins(self) -> None:
        Path("enabled_plugins").write_text("[rabbitmq_management,rabbitmq_stream].\n")
        assert load("").plugins == ("rabbitmq_management", "rabbitmq_stream")
        assert self.listeners() == ((Listener(None, 5552),), ())
        assert self.listeners(environment={"LEVERET_PLUGINS": "rabbitmq_top"}) == ((), ())
        Path("other").write_text("[].")
        assert load("", {"LEVERET_ENABLED_PLUGINS_FILE": "other"}).plugins == ()

    def test_a_file_that_is_no_list_of_names(self) -> None:
        for text in ("rabbitmq_stream", "{a}.", "[1].", "[a]. [b]."):
            Path("enabled_plugins").write_text(text)
            (problem,) = problems_of("")
            assert problem.startswith("enabled_plugins: ")

    def test_names_of_plugins_are_words(self) -> None:
        (problem,) = problems_of("", {"LEVERET_PLUGINS": "rabbitmq stream"})
        assert "expected names of plugins with commas between them" in problem
