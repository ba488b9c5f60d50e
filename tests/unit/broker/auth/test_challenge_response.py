"""The mechanism RABBIT-CR-DEMO: a user name, a challenge, and an answer with the password."""

import pytest

from leveret.broker.auth.challenge_response import ChallengeResponse
from leveret.broker.auth.sasl import SaslError


def test_a_name_a_question_and_a_password():
    login = ChallengeResponse()
    assert login.challenge(b"guest") == b"Please tell me your password"
    assert login.credentials(b"My password is secret") == ("guest", "secret")


def test_any_bytes_may_be_a_name_or_a_password():
    login = ChallengeResponse()
    login.challenge(b"a\xff")
    assert login.credentials("My password is größe is it".encode()) == ("a\udcff", "größe is it")


def test_an_empty_name_and_password_are_for_others_to_refuse():
    login = ChallengeResponse()
    login.challenge(b"")
    assert login.credentials(b"My password is ") == ("", "")


@pytest.mark.parametrize("answer", [b"", b"secret", b"my password is secret", b"My password is"])
def test_another_sentence_is_no_answer_and_is_not_repeated(answer):
    login = ChallengeResponse()
    login.challenge(b"guest")
    with pytest.raises(SaslError, match="has to begin with 'My password is '") as error:
        login.credentials(answer)
    assert "secret" not in str(error.value)
