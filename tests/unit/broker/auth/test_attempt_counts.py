"""Login attempts are counted by protocol and by source."""

from leveret.broker.auth import attempt_counts
from leveret.broker.auth.attempt_counts import AttemptCounts, Outcomes
from leveret.broker.auth.identity import HTTP, LoginAttempt

AMQP_LOGIN = LoginAttempt("anna", "secret", "192.0.2.1")
HTTP_LOGIN = LoginAttempt("anna", "secret", "192.0.2.1", protocol=HTTP)


def test_they_are_counted_by_protocol_and_source():
    counts = AttemptCounts()
    counts.note(AMQP_LOGIN, succeeded=True)
    counts.note(AMQP_LOGIN, succeeded=False)
    counts.note(HTTP_LOGIN, succeeded=False)
    assert counts.by_protocol == {"amqp091": Outcomes(1, 1), "http": Outcomes(0, 1)}
    assert counts.by_source == {
        ("192.0.2.1", "amqp091"): Outcomes(1, 1), ("192.0.2.1", "http"): Outcomes(0, 1)
    }  # fmt: skip
    counts.reset()
    assert counts.by_protocol == {}
    assert counts.by_source == {}


def test_not_all_sources_are_remembered(monkeypatch):
    monkeypatch.setattr(attempt_counts, "SOURCES_MAX", 5)
    counts = AttemptCounts()
    for number in range(9):
        counts.note(LoginAttempt("anna", "", f"192.0.2.{number}"), succeeded=False)
    assert [address for address, _ in counts.by_source] == [f"192.0.2.{one}" for one in range(4, 9)]
    assert counts.by_protocol["amqp091"].failed == 9
