"""All incidents of the suite, and the finding of what is right and wrong in what is said of them.

Recall is the share of the `must` that were said, with the right object, time and words. Precision
is the share of what was said that was true: that a `must`, regardless of its time, or a `may`
covers.
"""

from dataclasses import dataclass, field

from tests.analytics.incidents import (  # noqa: F401 - the scripts register themselves
    absent_consumers,
    causes,
    connections,
    habits,
    load,
    losses,
    quiet_days,
    retries,
    stalls,
    streams,
)
from tests.analytics.incidents.incident import INCIDENTS, Incident, Says
from tests.analytics.incidents.simulated_log import MIDNIGHT_US, SECOND_US

ALL = tuple(INCIDENTS.values())


@dataclass(frozen=True)
class Said:
    """A finding of a report: times are microseconds since 1970, None if it does not say."""

    kind: str
    about: frozenset[str]
    since_us: int | None
    until_us: int | None
    text: str


@dataclass
class Verdict:
    """What is right and wrong in the findings for an incident."""

    incident: Incident
    said: list[Said]
    missing: list[Says] = field(default_factory=list)
    false: list[Said] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)
    wrong_times: list[Says] = field(default_factory=list)


def judge(incident, said):
    """Compare what is said with what must, may and must not be said."""
    verdict = Verdict(incident, said)
    for must in incident.must:
        about = [one for one in said if is_about(must, one)]
        if not about:
            verdict.missing.append(must)
        elif not any(is_in_time(incident, must, one) for one in about):
            verdict.wrong_times.append(must)
    allowed = (*incident.must, *incident.may)
    verdict.false = [one for one in said if not any(is_of(each, one) for each in allowed)]
    texts = " ".join(one.text.lower() for one in said)
    verdict.forbidden = [word for word in incident.unsaid if word.lower() in texts]
    return verdict


def is_of(says, said):
    """Tell whether a finding has the kind and the object."""
    return says.kind == said.kind and (not says.about or says.about in said.about)


def is_about(says, said):
    """The same, and its text has the words."""
    return is_of(says, said) and all(word in said.text for word in says.words)


def is_in_time(incident, says, said):
    """Tell whether a finding has the times, as precisely as the length of the trace allows."""
    within_s = says.within_s or max(10, min(120, incident.length_s / 30))
    begins_us = MIDNIGHT_US + int(incident.begins_s * SECOND_US)

    def is_right(wanted_s, found_us):
        if wanted_s is None:
            return True
        if found_us is None:
            return False
        return abs((found_us - begins_us) / SECOND_US - wanted_s) <= within_s

    return is_right(says.since_s, said.since_us) and is_right(says.until_s, said.until_us)


@dataclass(frozen=True)
class Score:
    """Figures over several incidents."""

    musts: int
    found: int
    in_time: int
    said: int
    true: int
    forbidden: int
    quiet: int
    disturbed: int

    @property
    def recall(self):
        return self.in_time / self.musts

    @property
    def precision(self):
        return self.true / self.said if self.said else 1.0


def score(verdicts):
    """Return the figures."""
    musts = sum(len(one.incident.must) for one in verdicts)
    missing = sum(len(one.missing) for one in verdicts)
    late = sum(len(one.wrong_times) for one in verdicts)
    said = sum(len(one.said) for one in verdicts)
    false = sum(len(one.false) for one in verdicts)
    quiet = [one for one in verdicts if one.incident.is_quiet]
    return Score(
        musts, musts - missing, musts - missing - late, said, said - false,
        sum(len(one.forbidden) for one in verdicts), len(quiet),
        sum(bool(one.false) for one in quiet),
    )  # fmt: skip
