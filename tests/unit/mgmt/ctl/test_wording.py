"""Reasons of the HTTP API in words."""

import pytest

from leveret.mgmt.ctl.wording import in_words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("no policy provided", "no policy provided"),
        (
            "Validation failed\n\n[{<<&quot;max-lenght&quot;>>,1},{<<\"ttl\">>,<<\"a\">>}] are "
            "not recognised policy settings",
            'Validation failed\n\n"max-lenght": 1, "ttl": "a" are not recognised policy settings',
        ),
        ("&lt;&lt;\"a\"&gt;&gt; is not a valid length", '"a" is not a valid length'),
        ('[<<"a">>,<<"b">>] is not a number', '["a", "b"] is not a number'),
        ("<<195,169>> and <<\"\">> are", '"é" and "" are'),
        ('invalid: {"unterminated character set",0}', "invalid: unterminated character set at "
         "position 0"),
        ('#{<<"a">> => 1} is not a valid length', '{"a": 1} is not a valid length'),
        ('[{<<"a">>,[1,#{<<"b">> => true}]}] are', '"a": [1, {"b": true}] are'),
        ("an open #{ stays", "an open #{ stays"),
        ("a < b, [x], {y} and <<z", "a < b, [x], {y} and <<z"),
        ('an open [{<<"a">> stays', 'an open [{<<"a">> stays'),
        (["bad", "worse <b>"], "bad: worse <b>"),
        (
            ["invalid_regexp", "[", "unterminated character set at position 0"],
            '"[" is not a valid regular expression: unterminated character set at position 0',
        ),
    ],
)  # fmt: skip
def test_a_reason_in_words(reason, words):
    assert in_words(reason) == words
