"""A declaration that the cluster's coordinator refuses, and the node of the request does not."""

from types import SimpleNamespace

import pytest

from leveret.broker.runtime.pending import Answer
from leveret.cluster.metadata.operations import decode_refusal, encode_refusal
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError


async def test_a_policy_that_an_earlier_version_does_not_know_is_a_bad_request():
    error = decode_refusal(encode_refusal(ValueError("new-key is not a recognised policy setting")))
    answer = Answer()
    answer.refuse(error)
    facade = SimpleNamespace(submit=lambda *declarations, requester: answer)
    with pytest.raises(ApiError) as raised:
        await Call.declare(SimpleNamespace(facade=facade, requester=None))
    assert raised.value.status == 400
    assert raised.value.reason == "new-key is not a recognised policy setting"
