"""The form of another protocol on mirrors."""

from leveret.broker.amqp.content_header import Form, make_header
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.mirrors.mirrored_nodes import MirroredNodes
from tests.unit.cluster.remote_queues.fakes import asked

A, B, C = "a@host", "b@host", "c@host"
HEADER = make_header({"content_type": "text"}, form=Form("toy", b"\x00sent"))


def test_each_mirror_has_the_form_of_a_message():
    nodes = MirroredNodes(A, B, C)
    nodes.mirror(B)
    publish(nodes.queue(B), b"1", b"2", header=HEADER)
    nodes.settle()
    nodes.join(C)
    nodes.synchronise(A)
    nodes.settle()
    nodes.kill(A)
    first = asked(nodes, nodes.queue(C).get, False)
    nodes.kill(B)
    second = asked(nodes, nodes.queue(C).get, False)
    for got, body in ((first, b"1"), (second, b"2")):
        message = got.entry.message
        assert (message.body, message.header.form) == (body, HEADER.form)
        assert message.header.raw == HEADER.raw
