"""The credit of publishers."""

from leveret.broker.protocols.amqp10.incoming_link import CREDIT, CREDIT_MAX, IncomingLink
from leveret.broker.protocols.amqp10.performatives import SENDER, Attach


def test_a_publisher_that_waits_for_outcomes_without_credit_gets_more():
    link = IncomingLink(Attach("link", 0, SENDER), None, 1000)
    link.grow_credit()
    assert link.credit_max == CREDIT
    grown = []
    for _ in range(5):
        link.credit = 0
        link.grow_credit()
        grown.append(link.credit_max)
    assert grown == [2 * CREDIT, 4 * CREDIT, CREDIT_MAX, CREDIT_MAX, CREDIT_MAX]


def test_links_for_management_keep_their_credit():
    link = IncomingLink(Attach("link", 0, SENDER), None, 1000, is_management=True)
    link.credit = 0
    before = link.credit_max
    link.grow_credit()
    assert link.credit_max == before
