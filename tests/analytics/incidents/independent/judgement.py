"""What is right and wrong in what a report says of the independent set, and the figures of all.

A cause is found if a finding has one of its kinds and is about one of its names. It is the right
cause if the same finding has all the names that lead to the culprit, and it is timed if it knows
the beginning. A finding is true if it is of a cause, or of what is true `also`. Of each kind the
first five count, since a report lists no more.
"""

from collections import Counter
from dataclasses import dataclass, field

from tests.analytics.incidents.independent import (  # noqa: F401 - the scripts register themselves
    consumers,
    healthy_days,
    messages,
    publishers,
    second_set,
    third_set,
)
from tests.analytics.incidents.independent.form import SCENES, Cause, Scene
from tests.analytics.incidents.simulated_log import MIDNIGHT_US, SECOND_US
from tests.analytics.incidents.suite import Said

LISTED_MAX = 5
"""Findings of a kind that a report lists."""
_LATER = {second_set.__name__: "second", third_set.__name__: "third"}
SETS = {
    name: tuple(
        one for one in SCENES.values() if _LATER.get(one.script.__module__, "first") == name
    )
    for name in ("first", *_LATER.values())
}
"""All incidents, and healthy days, by the name of their set."""
INCIDENTS, HEALTHY_DAYS = (
    {name: [one for one in scenes if bool(one.causes) == has_causes]
     for name, scenes in SETS.items()}
    for has_causes in (True, False)
)  # fmt: skip


@dataclass
class Judgement:
    """What was said of a scene, and the causes of it that were not found, named or timed."""

    scene: Scene
    said: list[Said]
    missing: list[Cause] = field(default_factory=list)
    unnamed: list[Cause] = field(default_factory=list)
    late: list[Cause] = field(default_factory=list)
    false: list[Said] = field(default_factory=list)


def judge(scene, said):
    """Compare what is said with the causes of a scene."""
    said = listed(said)
    judgement = Judgement(scene, said)
    for cause in scene.causes:
        found = [one for one in said if is_of(cause.kinds, cause.about, one)]
        named = [one for one in found if has_names(cause, one)]
        if not found:
            judgement.missing.append(cause)
        elif not named:
            judgement.unnamed.append(cause)
        elif not any(is_timed(scene, cause, one) for one in named):
            judgement.late.append(cause)
    true = [*((one.kinds, one.about) for one in scene.causes),
            *((kinds, (about,)) for kinds, about in scene.also)]  # fmt: skip
    judgement.false = [
        one for one in said if not any(is_of(kinds, about, one) for kinds, about in true)
    ]
    return judgement


def listed(said):
    """Return the first findings of each kind."""
    kinds = Counter()
    first = []
    for one in said:
        kinds[one.kind] += 1
        if kinds[one.kind] <= LISTED_MAX:
            first.append(one)
    return first


def is_of(kinds, about, said):
    """Tell whether a finding has one of the kinds, and is about one of the names."""
    return (not kinds or said.kind in kinds) and not said.about.isdisjoint(about)


def has_names(cause, said):
    """Tell whether a finding has all names of a cause, or one of each alternative."""
    text = said.text.lower()
    alternatives = (one if isinstance(one, tuple) else (one,) for one in cause.named)
    return all(any(name.lower() in text for name in names) for names in alternatives)


def is_timed(scene, cause, said):
    """Tell whether a finding knows when a cause began, if that is certain."""
    if cause.since_s is None:
        return True
    if said.since_us is None:
        return False
    began_us = MIDNIGHT_US + int((scene.begins_s + cause.since_s) * SECOND_US)
    return abs(said.since_us - began_us) <= cause.within_s * SECOND_US


@dataclass(frozen=True)
class Figures:
    """Numbers of causes, of findings, and of healthy days with a false finding."""

    causes: int
    found: int
    named: int
    timed: int
    said: int
    true: int
    disturbed: int


def figures_of(judgements):
    """Return the figures of judgements."""
    causes = sum(len(one.scene.causes) for one in judgements)
    found = causes - sum(len(one.missing) for one in judgements)
    named = found - sum(len(one.unnamed) for one in judgements)
    said = sum(len(one.said) for one in judgements)
    return Figures(
        causes, found, named, named - sum(len(one.late) for one in judgements),
        said, said - sum(len(one.false) for one in judgements),
        sum(bool(one.false) for one in judgements if not one.scene.causes),
    )  # fmt: skip
