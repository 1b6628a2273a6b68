"""Feature rows of requests that run: what was known of their owners at set ages, as at admission what was known then.

The same history and encoder as at admission, asked later: the request itself is by then among what its owner runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sojourn.features.creation import FeatureRows, parsed_requests, strike_off
from sojourn.features.split import Examples
from sojourn.features.trace import Trace
from sojourn.serving.inputs import Admission, Encoder, HistoryState

REFRESH_AGES_S = (600, 3_600, 21_600, 86_400)
"""Ages at which a running request may be predicted anew: 10 min, 1 h, 6 h, 1 d."""
_NEVER_S = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class RefreshedRows:
    """One row per request and age that it was seen to reach, by age and then in the order of decision.

    features: float64 (m, n_features), as of `FeatureRows`, at that age. idx_row: int64 (m,), of the FeatureRows.
    age_s: int64 (m,).
    """

    features: np.ndarray
    idx_row: np.ndarray
    age_s: np.ndarray

    def __len__(self) -> int:
        return len(self.features)

    def of(self, examples: Examples, age_s: int) -> tuple[np.ndarray, Examples]:
        """Positions int64 (k,) of the examples seen alive at an age, and these as they stood then.

        Features are those of the age, and it is their entry: what is learnt of them is what came after it.
        """
        at = np.flatnonzero(self.age_s == age_s)
        alive = np.flatnonzero((examples.lifetime_s > age_s) & (examples.entry_s <= age_s))
        own = np.minimum(np.searchsorted(self.idx_row[at], examples.idx_row[alive]), max(len(at) - 1, 0))
        is_found = self.idx_row[at][own] == examples.idx_row[alive] if len(at) else np.zeros(len(alive), bool)
        alive, found = alive[is_found], at[own[is_found]]
        taken = examples.take(alive)
        return alive, replace(taken, features=self.features[found], entry_s=np.full(len(alive), float(age_s)))

    def examples(self, examples: Examples) -> Examples:
        """All of them at all ages, one after the other."""
        parts = [self.of(examples, age_s)[1] for age_s in np.unique(self.age_s).tolist()] or [
            examples.take(np.empty(0, np.int64))]
        joined = {name: np.concatenate([getattr(part, name) for part in parts])
                  for name in ("features", "lifetime_s", "is_event", "entry_s", "arrival_s", "idx_row")}
        keys = tuple(np.concatenate(codes) for codes in zip(*(part.keys for part in parts), strict=True))
        return Examples(keys=keys, begin_s=examples.begin_s, **joined)


def refreshed_rows(trace: Trace, encoder: Encoder, rows: FeatureRows,
                   ages_s: tuple[int, ...] = REFRESH_AGES_S) -> RefreshedRows:
    """Replay a trace through the owner history, as `build_rows` does, and encode what runs at each age.

    rows: of the same trace and encoder. An age that a request had before its prediction was asked for, or that it was
    not seen to outlive, has no row. Within one second ends come first, then what is asked again, then new requests:
    nothing that came later is known, and nothing of the second's arrivals.
    """
    n = len(rows)
    parsed = list(parsed_requests(trace.requests.iloc[rows.idx_request], encoder))
    is_lost = trace.is_lost()[rows.idx_request]
    seen_to_s = rows.arrival_s + rows.lifetime_s
    end = np.where(rows.is_event | is_lost, seen_to_s, _NEVER_S)
    asked = np.concatenate([np.column_stack([rows.arrival_s + age_s, np.arange(n), np.full(n, age_s)])
                            for age_s in ages_s])
    asked = asked[(asked[:, 0] < seen_to_s[asked[:, 1]]) & (asked[:, 0] > rows.decided_s[asked[:, 1]])]
    asked = asked[np.argsort(asked[:, 0], kind="stable")]
    features = np.empty((len(asked), len(encoder.feature_names())))

    history = HistoryState(encoder.history)
    admissions: list[Admission | None] = [None] * n
    lost = frozenset(np.flatnonzero(is_lost).tolist())
    decided_s, arrival_s, end_s = rows.decided_s.tolist(), rows.arrival_s.tolist(), end.tolist()
    by_end = np.argsort(end, kind="stable").tolist()
    asked_s, asked_row = asked[:, 0].tolist(), asked[:, 1].tolist()
    n_ended = n_asked = 0
    for idx in range(n + 1):
        now_s = decided_s[idx] if idx < n else _NEVER_S - 1
        while True:
            next_end_s = end_s[by_end[n_ended]] if n_ended < n else _NEVER_S
            next_asked_s = asked_s[n_asked] if n_asked < len(asked_s) else _NEVER_S
            if next_end_s <= now_s and next_end_s <= next_asked_s:
                strike_off(history, admissions, by_end[n_ended], arrival_s, end_s, lost)
                n_ended += 1
            elif next_asked_s <= now_s:
                features[n_asked] = encoder.encode(parsed[asked_row[n_asked]], next_asked_s, history)
                n_asked += 1
            else:
                break
        if idx < n:
            admissions[idx] = history.admit(parsed[idx].keys, now_s)
            if end_s[idx] <= now_s:  # ended within the second of its own decision
                strike_off(history, admissions, idx, arrival_s, end_s, lost)
    order = np.lexsort((asked[:, 1], asked[:, 2]))
    return RefreshedRows(features[order], asked[order, 1], asked[order, 2])
