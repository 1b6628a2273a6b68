"""The gate on accuracy: the Brier score over ages, paired by owner, against one other model.

It asks for proof, not for the absence of proof: the whole interval must lie below the margin. A small test window has a
wide interval and promotes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sojourn.features.split import Examples
from sojourn.flows.gates.gate import Gate, Reason
from sojourn.models.measures import BrierOverAges, OwnerDraws, drawn_owners, interval
from sojourn.serving.inputs import HistoryDefinition

MARGIN_PCT = 2.0
"""By how much, % of its score, a version may be worse than the champion and than the most accurate version so far.

A new fit of the same rows moves the score by 0.2 to 0.5 %, and its interval reaches to 0.6 % on the synthetic trace
(30,000 test requests) and to 1.6 % on openb (2,200): less could not be shown there. The model's lead over km is 21 %
and 9 %: a fifth of it at most is at stake (docs/gates.md).
"""
N_ERRORS = 3.0
"""Standard errors by which a version must stay within the margin. A candidate that lies on the bound passes once in 740
tries: of a year of weekly ones, one gets by with a probability of 7 %; at 95 % it would be 73 %."""
N_BOOTSTRAP = 500
MIN_TEST_ENDS = 100
"""Fewer observed ends in the test window than this are no evidence, whatever their interval."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A model's score as a share of another's, minus one, in %: below 0 = better. With its 95 % interval.

    error_pct: its standard error.
    """

    mean_pct: float
    low_pct: float
    high_pct: float
    error_pct: float


@dataclass(frozen=True, slots=True)
class Jury:
    """Whose requests judge: the test window's n rows. is_event: bool (n,). owner_codes: int64 (n,), equal = same owner.

    seed: of the draws of owners.
    """

    is_event: np.ndarray
    owner_codes: np.ndarray
    seed: int

    @classmethod
    def of(cls, test: Examples, history: HistoryDefinition, seed: int) -> Jury:
        """The test window by its coarsest owner key with enough owners; without one, requests count one by one."""
        return cls(test.is_event, drawn_owners(test, history)[0], seed)

    @property
    def drawn(self) -> str:
        """What an interval covers, in words: how many owners were drawn from, or requests where owners are too few."""
        n = len(np.unique(self.owner_codes))
        return f"{n:,} {'requests' if n == len(self.owner_codes) else 'owners'}"

    def difference(self, own: BrierOverAges, other: BrierOverAges) -> Difference:
        """How the scores of two models on these rows differ, owners drawn with replacement."""
        draws = OwnerDraws(self.owner_codes, N_BOOTSTRAP, seed=self.seed)
        drawn = np.array([_excess_pct(own, other, weight) for weight in draws])
        return Difference(_excess_pct(own, other), *interval(drawn), float(drawn.std()))


def better_gate(own: BrierOverAges, other: BrierOverAges, label: str, jury: Jury,
                found: Difference | None = None) -> Gate:
    """Passed where the candidate is shown to be better than the other: the 95 % interval lies below 0.

    own, other: of the candidate and of the other on the jury's rows. found: their difference, where it is known.
    """
    found = found or jury.difference(own, other)
    return _gate(label, own, other, jury, found, found.high_pct < 0.0, "must lie below 0",
                 Reason.OTHER if found.low_pct > 0.0 else Reason.LEVEL)


def not_worse_gate(own: BrierOverAges, other: BrierOverAges, label: str, jury: Jury,
                   found: Difference | None = None) -> Gate:
    """Passed where the candidate is shown to be less than MARGIN_PCT worse than a version before it.

    By N_ERRORS standard errors: candidates come every week, and of many tries at 95 % one passes by chance. found: as
    for `better_gate`.
    """
    found = found or jury.difference(own, other)
    bound = found.mean_pct + N_ERRORS * found.error_pct
    return _gate(label, own, other, jury, found, bound < MARGIN_PCT,
                 f"with {N_ERRORS:g} standard errors {bound:+.1f}, must lie below {MARGIN_PCT:+g}")


def is_more_accurate(own: BrierOverAges, other: BrierOverAges, jury: Jury, found: Difference | None = None) -> bool:
    """True where the candidate is shown to be better than the most accurate so far: it takes its place."""
    found = found or jury.difference(own, other)
    return found.mean_pct + N_ERRORS * found.error_pct < 0.0 and int(jury.is_event.sum()) >= MIN_TEST_ENDS


def _gate(label: str, own: BrierOverAges, other: BrierOverAges, jury: Jury, found: Difference, is_shown: bool,
          rule: str, reason: Reason = Reason.OTHER) -> Gate:
    name = f"accuracy against {label}"
    if (n_ended := int(jury.is_event.sum())) < MIN_TEST_ENDS:
        return Gate(name, False, f"the test window must hold at least {MIN_TEST_ENDS} observed ends, got {n_ended}",
                    Reason.FEW_ENDS)
    if math.isnan(own.score()) or math.isnan(other.score()):
        return Gate(name, False, "the test window must hold requests that can be followed for 30 s, got none: there is "
                                 "no Brier score of them")
    verdict = "" if is_shown else "; worse" if found.low_pct > 0.0 else "; not shown"
    return Gate(name, is_shown,
                f"Brier over ages {own.score():.4f} against {other.score():.4f}: {found.mean_pct:+.1f} %, 95 % "
                f"interval {found.low_pct:+.1f} to {found.high_pct:+.1f} (over {jury.drawn}), {rule}{verdict}", reason)


def _excess_pct(own: BrierOverAges, other: BrierOverAges, weight: np.ndarray | None = None) -> float:
    """By how much the first score is above the second, %; NaN where the second is no positive number."""
    base = other.score(weight)
    return 100.0 * (own.score(weight) / base - 1.0) if base > 0.0 else float("nan")
