"""The choice between fitted families, on the validation window alone: inside its noise the simpler family.

The one-standard-error rule (Breiman, Friedman, Olshen and Stone 1984, section 3.4.3), on paired differences: of the
families that are worse than the best by at most one standard error of the difference, the simplest is taken. The noise
is of owners: they are drawn with replacement, the same for each family.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.features.split import Examples
from sojourn.flows.stages.trained import Trained
from sojourn.models.lifetime import LIFETIME_MODELS
from sojourn.models.measures import BrierOverAges, OwnerDraws, drawn_owners, standard_error
from sojourn.serving.inputs import HistoryDefinition

CHOICE_TAG = "choice"
"""Tag of a run, and of a version: what was chosen and why, in words."""
N_ENDS_MIN = 100
"""With fewer observed ends in the validation window than this, the choice is said to be uncertain."""


@dataclass(frozen=True, slots=True)
class Choice:
    """family: what is chosen. rival: where a simpler family was taken, the best by mean; else the next best, "" = none.

    behind: by how much the rival's score is above the family's, below 0 where the rival is better; error: the standard
    error of this difference. score: of the family; NaN where no family could be scored. The rest is of the validation
    window: n_requests, n_ends (observed), n_owners that were drawn, 0 = requests one by one.
    """

    family: str
    rival: str
    score: float
    behind: float
    error: float
    n_requests: int
    n_ends: int
    n_owners: int

    @property
    def best(self) -> str:
        """The best by mean of those that were chosen from."""
        return self.rival if self.behind < 0.0 else self.family

    def text(self) -> str:
        """Sentences for tables, cards and tags: what was chosen, against what, on how much, and if it is uncertain.

        >>> Choice("km", "", 0.1, float("nan"), float("nan"), 60, 40, 0).text().partition(". ")[0]
        'km: no other family could be chosen (60 requests, 40 ends; requests drawn, too few owners)'
        """
        of = f"{self.n_requests:,} requests, {self.n_ends:,} ends; {self._drawn()}"
        if math.isnan(self.score):
            found = f"the simplest, because the validation window could not be scored ({of})"
        elif not self.rival:
            found = f"no other family could be chosen ({of})"
        elif self.behind < 0.0:
            found = (f"{self.rival} was better by {-self.behind:.4f} on the validation window (Brier over ages), "
                     f"within its standard error of {self._error()} ({of}); {self.family} stands before it "
                     "in the order of simplicity")
        else:
            found = (f"best on the validation window (Brier over ages), {self.behind:.4f} before {self.rival}, with a "
                     f"standard error of {self._error()} ({of})")
        uncertain = f" Fewer than {N_ENDS_MIN} ends: the choice is uncertain." if self.n_ends < N_ENDS_MIN else ""
        return f"{self.family}: {found}.{uncertain}"

    def _error(self) -> str:
        return f"{self.error:.4f}" if math.isfinite(self.error) else "unknown size"

    def _drawn(self) -> str:
        return f"{self.n_owners:,} owners drawn" if self.n_owners else "requests drawn, too few owners"


def choose(families: Sequence[Trained], valid: Examples, history: HistoryDefinition, seed: int) -> Choice:
    """Of the families that can be served; of all where none can. ValueError where there is none.

    valid: the validation window, whose curves each family has. seed: of the draws. Where the window has fewer owners
    than a bootstrap needs, requests are drawn, as if they were independent.
    """
    servable = [trained for trained in families if trained.model.export() is not None] or list(families)
    codes, n_owners = drawn_owners(valid, history)
    briers = {trained.family: trained.brier for trained in servable}
    family, rival, behind, error = simplest_within_error(
        briers, {name: LIFETIME_MODELS[name].complexity for name in briers}, OwnerDraws(codes, seed=seed))
    return Choice(family, rival, briers[family].score(), behind, error, len(valid), int(valid.is_event.sum()), n_owners)


def simplest_within_error(briers: Mapping[str, BrierOverAges], complexity: Mapping[str, int],
                          draws: OwnerDraws) -> tuple[str, str, float, float]:
    """The chosen name, its rival, and the rival's score minus the chosen one's with its standard error.

    Of equally simple ones the better is taken, then the first. A name without a score is only taken where none has one:
    then the simplest is. A name with the same answers as the chosen one is no rival of it. One that is worse than
    another by mean and no simpler is not taken: being noisier than that one would be its only merit.
    """
    names = list(briers)
    if not names:
        raise ValueError("families must hold at least one to choose from, got none")
    scores = {name: briers[name].score() for name in names}
    scored = sorted((name for name in names if math.isfinite(scores[name])), key=lambda name: scores[name])
    if not scored:
        return min(names, key=lambda name: complexity[name]), "", math.nan, math.nan
    best = scored[0]
    drawn = {name: np.empty(len(draws)) for name in scored}
    for at, weight in enumerate(draws):
        for name in scored:
            drawn[name][at] = briers[name].score(weight)
    errors = {name: standard_error(drawn[name] - drawn[best], draws.n_units) if name != best else 0.0
              for name in scored}
    level = [name for name in scored if scores[name] - scores[best] <= errors[name]
             and not any(scores[other] < scores[name] and complexity[other] <= complexity[name] for other in scored)]
    chosen = min(level, key=lambda name: (complexity[name], scores[name]))
    if chosen != best:
        return chosen, best, scores[best] - scores[chosen], errors[chosen]
    rival = next((name for name in scored[1:] if not np.array_equal(drawn[name], drawn[best])), "")
    return chosen, rival, *((scores[rival] - scores[best], errors[rival]) if rival else (math.nan, math.nan))
