"""Feature rows of running requests at set ages, with the data known then.

History and encoder are those of the admission; the request itself is then one of its owner's running ones.

`apart_rows` gives feature rows with instant ends set apart: owner features are of other ends, with
the share of instant ends. The history stores the same data in both cases, so rows follow from the
other rows and the ends, without a second replay of the trace.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from sojourn.features.creation import (
    COMPILED_FROM,
    NEVER_S,
    FeatureRows,
    history_features,
    parsed_requests,
    strike_off,
)
from sojourn.features.split import Examples
from sojourn.features.trace import Trace
from sojourn.serving.inputs import CLOCK_FEATURES, OWNER_FEATURES, Encoder, HistoryState, Receipt

REFRESH_AGES_S = (600, 3_600, 21_600, 86_400)
"""Ages at which a running request may be predicted anew: 10 min, 1 h, 6 h, 1 d."""
_FIRST_HABIT = OWNER_FEATURES.index("ended")
"""From here on an owner's features are of its ended requests."""


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
    is_lost = trace.is_lost()[rows.idx_request]
    seen_to_s = rows.arrival_s + rows.lifetime_s
    end = np.where(rows.is_event | is_lost, seen_to_s, NEVER_S)
    queries = np.concatenate([np.column_stack([rows.arrival_s + age_s, np.arange(n), np.full(n, age_s)])
                              for age_s in ages_s])
    queries = queries[(queries[:, 0] < seen_to_s[queries[:, 1]]) & (queries[:, 0] > rows.decided_s[queries[:, 1]])]
    queries = queries[np.argsort(queries[:, 0], kind="stable")]
    order = np.lexsort((queries[:, 1], queries[:, 2]))
    features = None
    if len(queries) >= COMPILED_FROM and not is_lost.any():
        features = history_features(encoder, rows.features[:, :encoder.n_numbers], rows.keys, rows.decided_s, end,
                                    rows.lifetime_s, (queries[:, 1].copy(), queries[:, 0].copy()))
    if features is None:
        features = _replayed(trace, encoder, rows, queries, end, is_lost)
    return RefreshedRows(features[order], queries[order, 1], queries[order, 2])


def _replayed(trace: Trace, encoder: Encoder, rows: FeatureRows, queries: np.ndarray, end: np.ndarray,
              is_lost: np.ndarray) -> np.ndarray:
    """The features of `refreshed_rows` by time, in plain Python."""
    n = len(rows)
    parsed = list(parsed_requests(trace.requests.iloc[rows.idx_request], encoder))
    features = np.empty((len(queries), len(encoder.feature_names())))
    history = HistoryState(encoder.history)
    admissions: list[Receipt | None] = [None] * n
    lost = frozenset(np.flatnonzero(is_lost).tolist())
    decided_s, arrival_s, end_s = rows.decided_s.tolist(), rows.arrival_s.tolist(), end.tolist()
    by_end = np.argsort(end, kind="stable").tolist()
    query_s, query_row = queries[:, 0].tolist(), queries[:, 1].tolist()
    n_ended = n_asked = 0
    for idx in range(n + 1):
        now_s = decided_s[idx] if idx < n else NEVER_S - 1
        while True:
            next_end_s = end_s[by_end[n_ended]] if n_ended < n else NEVER_S
            next_asked_s = query_s[n_asked] if n_asked < len(query_s) else NEVER_S
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
    return features


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
    for key, codes in zip(history.keys, rows.keys, strict=True):
        n_owners = len(np.unique(codes[codes >= 0]))
        if key.kind == "owner" and n_owners > history.n_keys_max:
            raise ValueError(f"owners of {key.name!r} must be at most {history.n_keys_max:,}, got {n_owners:,}")
    is_owner = [key.kind == "owner" for key in history.keys]
    owners = replace(encoder, history=replace(history, keys=tuple(compress(history.keys, is_owner))))
    end_s = np.where(rows.is_event, rows.arrival_s + rows.lifetime_s, NEVER_S)
    of_owners = history_features(owners, rows.features[:, :encoder.n_numbers], list(compress(rows.keys, is_owner)),
                                 rows.decided_s, end_s, rows.lifetime_s)
    if of_owners is None:
        raise ValueError("sums of times must be below 2**53 s")
    at = of_at = encoder.n_numbers + len(CLOCK_FEATURES)
    features = rows.features.copy()
    for key in history.keys:
        size = len(key.feature_names())
        if key.kind == "owner":
            features[:, at + _FIRST_HABIT:at + size] = of_owners[:, of_at + _FIRST_HABIT:of_at + size]
            of_at += size
        at += size
    features[:, at:] = of_owners[:, of_at:]  # those of limits
    return replace(rows, features=features, names=encoder.feature_names())
