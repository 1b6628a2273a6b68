"""A challenger that answers what the champion answers, off the scheduler's path; only the differences are kept."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import numpy as np

from sojourn.serving.curves import Curve, lifetime_class
from sojourn.serving.decisions.log_rows import Decision
from sojourn.serving.served import Served

_EDGES = np.concatenate([[0.0], np.logspace(-3.0, 1.0, 81)])
"""Bins of |log10 ratio|, 20 to a factor of ten: each reaches to 1.12 times its lower edge; a quantile is the upper."""


class ShadowDifferences:
    """How far a shadow's first answers are from the champion's: a histogram of |log10 ratio|, and class changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = np.zeros(len(_EDGES), np.int64)
        self._n_changes = 0

    def add(self, champion_s: Sequence[float], shadow_s: Sequence[float]) -> int:
        """Count pairs of remaining seconds at creation; returns in how many the lifetime class differs."""
        ratio = np.abs(np.log10(np.maximum(shadow_s, 1.0)) - np.log10(np.maximum(champion_s, 1.0)))
        n_changes = sum(lifetime_class(one) != lifetime_class(other)
                        for one, other in zip(champion_s, shadow_s, strict=True))
        with self._lock:
            self._counts += np.bincount(np.minimum(np.searchsorted(_EDGES, ratio), len(_EDGES) - 1),
                                        minlength=len(_EDGES))
            self._n_changes += n_changes
        return n_changes

    def quantile(self, share: float) -> float:
        """|log10 ratio| that a share of the pairs does not exceed; NaN before the first.

        >>> differences = ShadowDifferences()
        >>> differences.add([100.0, 100.0, 4_000.0], [100.0, 100.0, 400.0])
        1
        >>> differences.quantile(0.5), differences.quantile(0.9)
        (0.0, 1.0)
        """
        with self._lock:
            total = np.cumsum(self._counts)
        if total[-1] == 0:
            return math.nan
        return float(_EDGES[np.searchsorted(total, share * total[-1])].round(12))


class Shadow:
    """Answers decisions again by another version. For one thread at a time, which is not the scheduler's.

    The history's features and the clock's are the champion's own, as both have one history definition. extra_columns:
    numbers that only the shadow reads; requests may name them.
    """

    def __init__(self, served: Served, champion: Served) -> None:
        self.served = served
        self.differences = ShadowDifferences()
        self.extra_columns = tuple(column for column in served.encoder.numbers
                                   if column not in champion.encoder.numbers)
        self._places: dict[str, list[tuple[bool, int]] | None] = {}  # by the champion's version

    def answer(self, one: Decision) -> Curve:
        """The shadow's curve of a request; ValueError where one of its own columns holds no number, and where the
        champion, reloaded since, reads instant ends otherwise."""
        champion = one.served
        if champion.version not in self._places:
            self._places[champion.version] = self._places_in(champion)
        places = self._places[champion.version]
        features = one.answer[one.n_before:].tolist()
        if places is not None:
            given = self.served.encoder.parse(dict(zip(self.extra_columns, one.extra, strict=False))).numbers
            features = [features[place] if is_champions else given[place] for is_champions, place in places]
        self.served.encoder.set_row(features, one.admission.keys)
        return self.served.builder.curve(features)

    def _places_in(self, champion: Served) -> list[tuple[bool, int]] | None:
        """Where each feature stands: (True, place among the champion's) or (False, place among the shadow's numbers).

        None where all agree.
        """
        if self.served.instant_s != champion.instant_s:
            raise ValueError(f"a shadow's instant_s must be that of the champion ({champion.instant_s}), got "
                             f"{self.served.instant_s}")
        own, others = self.served.encoder.feature_names(), champion.encoder.feature_names()
        if own == others:
            return None
        at = {name: place for place, name in enumerate(others)}
        return [(name in at, at.get(name, place)) for place, name in enumerate(own)]
