"""PerfTest's command line, and the resulting options."""

import pytest

from leveret.mgmt.perf.arguments import read_options


def read(text="", environment=None):
    return read_options(text.split(), environment or {})


def problem(text, capsys):
    """Return the one-line error for invalid usage, with exit code 2."""
    with pytest.raises(SystemExit) as ended:
        read(text)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_nothing_is_one_producer_and_one_consumer_as_fast_as_they_can():
    options = read()
    assert (options.producers, options.consumers, options.rate) == (1, 1, -1)
    assert (options.exchange, options.type, options.size) == ("direct", "direct", 12)
    assert options.uris == ["amqp://guest:guest@127.0.0.1:5672/"]
    assert options.routing_key


@pytest.mark.parametrize(
    ("short", "long", "name", "expected"),
    [
        ("-x 2", "--producers 2", "producers", 2),
        ("-y 3", "--consumers 3", "consumers", 3),
        ("-X 2", "--producer-channel-count 2", "producer_channels", 2),
        ("-Y 2", "--consumer-channel-count 2", "consumer_channels", 2),
        ("-r 10.5", "--rate 10.5", "rate", 10.5),
        ("-r -1", "--rate=-1", "rate", -1),
        ("-R 7", "--consumer-rate 7", "consumer_rate", 7),
        ("-s 1000", "--size 1000", "size", 1000),
        ("-c 50", "--confirm 50", "confirm", 50),
        ("-c -1", "--confirm=-1", "confirm", 0),
        ("-a", "--autoack", "autoack", True),
        ("-A 10", "--multi-ack-every 10", "multi_ack_every", 10),
        ("-q 5", "--qos 5", "qos", 5),
        ("-Q 5", "--global-qos 5", "global_qos", 5),
        ("-C 9", "--pmessages 9", "pmessages", 9),
        ("-D 9", "--cmessages 9", "cmessages", 9),
        ("-z 3", "--time 3", "time", 3),
        ("-i 0.5", "--interval 0.5", "interval", 0.5),
        ("-d run", "--id run", "id", "run"),
        ("-f persistent", "--flag persistent", "flag", ["persistent"]),
        ("-f persistent,mandatory", "--flag persistent --flag mandatory", "flag",
         ["persistent", "mandatory"]),
        ("-u a,b", "--queue a,b", "queues", ["a", "b"]),
        ("-k key", "--routing-key key", "routing_key", "key"),
        ("-e logs", "--exchange logs", "exchange", "logs"),
        ("-e amq.default -k x", "--exchange amq.default -u x", "exchange", ""),
        ("-t topic", "--type topic", "exchange", "topic"),
        ("-qa a=1,b=x,c=true", "--queue-args a=1 -qa b=x,c=true", "queue_args",
         {"a": 1, "b": "x", "c": True}),
        ("-mp priority=5", "--message-properties priority=5", "message_properties",
         {"priority": 5}),
        ("-vr 10:1 0:2", "--variable-rate 10:1 -vr 0:2", "variable_rate", [(10, 1), (0, 2)]),
        ("-vs 10:1", "--variable-size 10:1", "variable_size", [(10, 1)]),
        ("-P 0.5", "--publishing-interval 0.5", "rate", 2),
        ("-M 0", "--framemax 131072", "framemax", 131072),
        ("-ew idle", "--exit-when idle", "exit_when", "idle"),
        ("-re false", "--requeue false", "requeue", False),
        ("-ad FALSE", "--auto-delete false", "auto_delete", False),
        ("-mlb 2kb", "--max-length-bytes 2000", "queue_args", {"x-max-length-bytes": 2000}),
        ("-ma PT10M30S", "--max-age P0DT630S", "queue_args", {"x-max-age": "630s"}),
        ("-sco 5", "--stream-consumer-offset 5", "consumer_args", {"x-stream-offset": 5}),
    ],
)  # fmt: skip
def test_short_and_long_options_mean_the_same(short, long, name, expected):
    assert getattr(read(short), name) == getattr(read(long), name) == expected


def test_several_addresses_are_taken_instead_of_the_one():
    assert read("-h amqp://a").uris == ["amqp://a"]
    assert read("-h amqp://a -H amqp://b,amqps://c/v").uris == ["amqp://b", "amqps://c/v"]


def test_a_quorum_queue_is_durable_and_stays():
    options = read("-qq")
    assert options.queue_args == {"x-queue-type": "quorum"}
    assert options.is_persistent
    assert not options.auto_delete


def test_a_streams_limit_can_be_taken_back():
    options = read("-sq -mlb 0")
    assert options.queue_args["x-queue-type"] == "stream"
    assert "x-max-length-bytes" not in options.queue_args
    assert options.qos == 200


def test_a_file_may_hold_the_names_of_queues(tmp_path):
    path = tmp_path / "names"
    path.write_text("one\n\n two \n")
    options = read(f"-qf {path}")
    assert (options.queue_names(), options.takes_turns) == (["one", "two"], True)


def test_options_may_be_environment_variables():
    environment = {
        "RABBITMQ_PERF_TEST_ENV_PREFIX": "LOAD", "LOAD_PRODUCERS": "4", "LOAD_AUTOACK": "true",
        "LOAD_CONSUMERS": "9", "LOAD_JSON": "false",
    }  # fmt: skip
    options = read("-y 2", environment)
    assert (options.producers, options.consumers) == (4, 2)
    assert (options.autoack, options.json) == (True, False)
    assert read("", {"PRODUCERS": "4"}).producers == 1


def test_options_of_perftests_java_are_taken_and_do_nothing(capsys):
    assert read("--nio-threads 10 -dcr").producers == 1
    said = capsys.readouterr().err
    assert said == (
        "leveret perf: --nio-threads has no effect here\nleveret perf: -dcr has no effect here\n"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-x 0 -y 0", "give at least one producer or one consumer"),
        ("-x two", "'two' is not a whole number >= 0"),
        ("-x ²", "'²' is not a whole number >= 0"),
        ("-X 0", "'0' is not a whole number >= 1"),
        ("-r -2", "'-2' is not a rate"),
        ("-r nan", "'nan' is not a number"),
        ("-z inf", "'inf' is not a number"),
        ("-i 0", "'0' is not a number of seconds above 0"),
        ("-P 0", "'0' is not an interval"),
        ("-M 100", "'100' is not a frame size: give 4096 to 131072 bytes"),
        ("-h localhost", "'localhost' is not an address"),
        ("-h amqp://a:99999", "is not an address"),
        ("-H ,", "give at least one address"),
        ("-f durable", "'durable' is not a flag: use persistent or mandatory"),
        ("-vr 10", "'10' is not of the form VALUE:SECONDS"),
        ("-vr 10:0", "'10:0' is not of the form VALUE:SECONDS"),
        ("-qa x", "'x' is not of the form name=value"),
        ("-ad perhaps", "'perhaps' is neither true nor false"),
        ("-mlb much", "'much' is not a size"),
        ("-ma 10m", "'10m' is not an ISO 8601 duration"),
        ("-ma PT", "'PT' is not an ISO 8601 duration"),
        ("-mp priority=300", "the property priority must be a number from 0 to 255, not '300'"),
        ("-mp deliveryMode=x", "the property delivery_mode must be a number"),
        ("-qp perf-%d", "go together: give all"),
        ("-qp perf -qpf 1 -qpt 2", "needs one %d"),
        ("-qp %d-%d -qpf 1 -qpt 2", "needs one %d"),
        ("-qp perf-%d -qpf 2 -qpt 1", "must not be less than"),
        ("-qp perf-%d -qpf 1 -qpt 2 -u q", "give either --queue or --queue-pattern"),
        ("-e", "the default exchange routes by queue name"),
        ("-p", "--predeclared needs the names of the queues"),
        ("-E -u q -y 2", "an exclusive queue belongs to one connection"),
        ("-c 1 -m 1", "either confirms or has transactions"),
        ("-a -na", "--autoack excludes --nack"),
        ("-A 10 -q 5", "--multi-ack-every must not exceed --qos"),
        ("-n 10 -Q 5", "--ctxsize must not exceed --qos"),
        ("-qq -sq", "either --quorum-queue or --stream-queue"),
        ("-jb -vs 10:1", "--json-body excludes --body"),
        ("-y 0 -ew idle", "--exit-when needs consumers"),
        ("-B /missing/file", "cannot read /missing/file: No such file or directory"),
        ("-qf /missing/file", "cannot read /missing/file: No such file or directory"),
        ("--bogus", "unrecognized arguments: --bogus"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_one_line(text, said, capsys):
    assert said in problem(text, capsys)
