"""Feature rows of running requests at set ages, with the data known then.

History and encoder are those of the admission; the request itself is then one of its owner's running ones.

`apart_rows` gives feature rows with instant ends set apart: owner features are of other ends, with
the share of instant ends. The history stores the same data in both cases, so rows follow from the
other rows and the ends, without a second replay of the trace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sojourn.features._kernels import fill_habits
from sojourn.features.creation import FeatureRows, parsed_requests, strike_off
from sojourn.features.split import Examples
from sojourn.features.trace import Trace
from sojourn.serving.inputs import CLOCK_FEATURES, LONGER_LOG10, OWNER_FEATURES, Encoder, HistoryState, Receipt

REFRESH_AGES_S = (600, 3_600, 21_600, 86_400)
"""Ages at which a running request may be predicted anew: 10 min, 1 h, 6 h, 1 d."""
_NEVER_S = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class RefreshedRows:
    """One row per request and age that it reached under observation, by age and then in the order of decision.

    features: float64 (m, n_features), as in `FeatureRows`, at that age. idx_row: int64 (m,), of the FeatureRows.
    age_s: int64 (m,).
    """

    features: np.ndarray
    idx_row: np.ndarray
    age_s: np.ndarray

    def __len__(self) -> int:
        return len(self.features)

    def of(self, examples: Examples, age_s: int) -> tuple[np.ndarray, Examples]:
        """Positions int64 (k,) of the examples observed alive at an age, and these examples at that age.

        Features are those of the age, and entry_s is the age: models learn from the time after it.
        """
        at = np.flatnonzero(self.age_s == age_s)
        alive = np.flatnonzero((examples.lifetime_s > age_s) & (examples.entry_s <= age_s))
        nearest = np.minimum(np.searchsorted(self.idx_row[at], examples.idx_row[alive]), max(len(at) - 1, 0))
        is_found = self.idx_row[at][nearest] == examples.idx_row[alive] if len(at) else np.zeros(len(alive), bool)
        alive, rows_found = alive[is_found], at[nearest[is_found]]
        past = examples.take(alive)
        return alive, replace(past, features=self.features[rows_found], entry_s=np.full(len(alive), float(age_s)))

    def examples(self, examples: Examples) -> Examples:
        """The examples at all ages, concatenated."""
        parts = [self.of(examples, age_s)[1] for age_s in np.unique(self.age_s).tolist()] or [
            examples.take(np.empty(0, np.int64))]
        joined = {name: np.concatenate([getattr(part, name) for part in parts])
                  for name in ("features", "lifetime_s", "is_event", "entry_s", "arrival_s", "idx_row")}
        keys = tuple(np.concatenate(codes) for codes in zip(*(part.keys for part in parts), strict=True))
        return Examples(keys=keys, begin_s=examples.begin_s, **joined)


def refreshed_rows(trace: Trace, encoder: Encoder, rows: FeatureRows,
                   ages_s: tuple[int, ...] = REFRESH_AGES_S) -> RefreshedRows:
    """Replay a trace through the owner history, as in `build_rows`, and encode running requests at each age.

    rows: of the same trace and encoder. There is no row for an age before the request's prediction,
    or that it did not outlive under observation. Within one second ends come first, then repeated
    predictions, then new requests: no later data is known, and no arrivals of the same second.
    """
    n = len(rows)
    parsed = list(parsed_requests(trace.requests.iloc[rows.idx_request], encoder))
    is_lost = trace.is_lost()[rows.idx_request]
    seen_to_s = rows.arrival_s + rows.lifetime_s
    end = np.where(rows.is_event | is_lost, seen_to_s, _NEVER_S)
    queries = np.concatenate([np.column_stack([rows.arrival_s + age_s, np.arange(n), np.full(n, age_s)])
                              for age_s in ages_s])
    queries = queries[(queries[:, 0] < seen_to_s[queries[:, 1]]) & (queries[:, 0] > rows.decided_s[queries[:, 1]])]
    queries = queries[np.argsort(queries[:, 0], kind="stable")]
    features = np.empty((len(queries), len(encoder.feature_names())))

    history = HistoryState(encoder.history)
    admissions: list[Receipt | None] = [None] * n
    lost = frozenset(np.flatnonzero(is_lost).tolist())
    decided_s, arrival_s, end_s = rows.decided_s.tolist(), rows.arrival_s.tolist(), end.tolist()
    by_end = np.argsort(end, kind="stable").tolist()
    query_s, query_row = queries[:, 0].tolist(), queries[:, 1].tolist()
    n_ended = n_asked = 0
    for idx in range(n + 1):
        now_s = decided_s[idx] if idx < n else _NEVER_S - 1
        while True:
            next_end_s = end_s[by_end[n_ended]] if n_ended < n else _NEVER_S
            next_asked_s = query_s[n_asked] if n_asked < len(query_s) else _NEVER_S
            if next_end_s <= now_s and next_end_s <= next_asked_s:
                strike_off(history, admissions, by_end[n_ended], arrival_s, end_s, lost)
                n_ended += 1
            elif next_asked_s <= now_s:
                features[n_asked] = encoder.encode(parsed[query_row[n_asked]], next_asked_s, history)
                n_asked += 1
            else:
                break
        if idx < n:
            admissions[idx] = history.admit(parsed[idx].keys, now_s)
            if end_s[idx] <= now_s:  # ended within the second of its own decision
                strike_off(history, admissions, idx, arrival_s, end_s, lost)
    order = np.lexsort((queries[:, 1], queries[:, 2]))
    return RefreshedRows(features[order], queries[order, 1], queries[order, 2])


_N_HABITS = 9


def with_instants_apart(encoder: Encoder, instant_s: int) -> Encoder:
    """The encoder whose history sets ends within so many seconds apart."""
    return replace(encoder, history=replace(encoder.history, instant_s=instant_s))


def apart_rows(rows: FeatureRows, encoder: Encoder) -> FeatureRows:
    """The rows of a whole trace by this encoder, to the bit, from rows of the same encoder without `instant_s`.

    encoder: without a lookup table. ValueError if there are more owners than the history keeps,
    since the rows do not show which owners were removed.
    """
    history = encoder.history
    if history.instant_s is None:
        raise ValueError("instant_s of the encoder's history must be a number of seconds, got None")
    end_s = rows.arrival_s + rows.lifetime_s
    ended_rows = np.flatnonzero(rows.is_event)
    by_end = ended_rows[np.argsort(end_s[ended_rows], kind="stable")]
    log_lifetime = np.array([math.log10(max(lifetime_s, 1)) for lifetime_s in rows.lifetime_s.tolist()])
    counts_log1p = np.array([math.log1p(count) for count in range(history.window + 1)])
    features, at = rows.features.copy(), encoder.n_numbers + len(CLOCK_FEATURES)
    for key, codes in zip(history.keys, rows.keys, strict=True):
        if key.kind == "owner":
            distinct, dense = np.unique(codes, return_inverse=True)
            n_missing = int(len(distinct) > 0 and distinct[0] < 0)
            if len(distinct) - n_missing > history.n_keys_max:
                raise ValueError(f"owners of {key.name!r} must be at most {history.n_keys_max:,}, got "
                                 f"{len(distinct) - n_missing:,}")
            habits = np.empty((len(rows), _N_HABITS))
            fill_habits(dense.astype(np.int64) - n_missing, rows.decided_s, end_s, rows.is_event, by_end, log_lifetime,
                        history.window, history.instant_log10, counts_log1p, np.array(LONGER_LOG10), habits)
            first = at + len(OWNER_FEATURES) - _N_HABITS
            features[:, first:first + _N_HABITS] = habits
        at += len(key.feature_names())
    _fill_limits(features, encoder)
    return replace(rows, features=features, names=encoder.feature_names())


def _fill_limits(features: np.ndarray, encoder: Encoder) -> None:
    """Set the limit features, the last ones, from the others."""
    for idx in range(len(features)) if encoder.limit_place >= 0 else ():
        row = features[idx].tolist()
        encoder.fill_limits(row)
        features[idx] = row
