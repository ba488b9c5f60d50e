"""What a client asks about the state of a stream."""

import pytest

from leveret.cluster.streams.machine.questions import (
    QuestionError,
    answer,
    ask_offset,
    ask_sequence,
    read_answer,
)
from leveret.cluster.streams.machine.stream_machine import StreamMachine


@pytest.fixture
def machine():
    machine = StreamMachine()
    machine.offsets[b"consumer"] = 5
    machine.sequences[b"publisher"] = 7
    return machine


def test_a_stored_offset_and_a_sequence_are_told_apart(machine):
    assert read_answer(answer(machine, ask_offset(b"consumer"))) == 5
    assert read_answer(answer(machine, ask_sequence(b"publisher"))) == 7


def test_what_is_not_stored_is_none(machine):
    assert read_answer(answer(machine, ask_offset(b"publisher"))) is None
    assert read_answer(answer(machine, ask_sequence(b"consumer"))) is None


@pytest.mark.parametrize("question", [b"", b"\x09name"])
def test_an_unknown_question_is_an_error(machine, question):
    with pytest.raises(QuestionError):
        answer(machine, question)


def test_an_answer_of_another_size_is_an_error():
    with pytest.raises(QuestionError):
        read_answer(b"123")
