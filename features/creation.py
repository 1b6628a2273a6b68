"""Feature rows of requests, with data known at the time of the prediction.

Uptime augmentation gives several rows for one example, at shares of its lifetime (LAVA, section 3) or at fixed ages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from sojourn.features.trace import SEEN_FROM, Trace
from sojourn.serving.inputs import (
    CATEGORY_FEATURES,
    CLOCK_FEATURES,
    DAY_S,
    OWNER_FEATURES,
    UNIX_PHASE_S,
    Encoder,
    HistoryDefinition,
    HistoryKey,
    HistoryState,
    Parsed,
    Receipt,
    key_code,
)

_PROGRESS_EVERY = 4_096
COMPILED_FROM = 5_000
"""From so many rows on the replay is compiled: numba takes longer than plain Python for fewer."""
NEVER_S = int(np.iinfo(np.int64).max)
_EXACT_BELOW = 2**53
"""Sums of times below are exact as float64."""


@dataclass(frozen=True, slots=True)
class FeatureRows:
    """One row per request whose start is known, in the order of decision.

    features: float64 (n, n_features); NaN = not known. names: of the features. keys: for each history key an int64 code
    per row, shape (n,), -1 where missing, the same in every trace. key_names: of the keys. decided_s: int64 (n,), time
    of the prediction; arrival_s: when the request began to run. lifetime_s: int64 (n,), to the departure or the
    horizon. is_event: bool (n,), departure observed. idx_request: int64 (n,), the row of `trace.requests`. begin_s:
    start of the trace's observation: earlier arrivals are in the trace only if they still ran then.
    """

    features: np.ndarray
    names: tuple[str, ...]
    keys: tuple[np.ndarray, ...]
    key_names: tuple[str, ...]
    decided_s: np.ndarray
    arrival_s: np.ndarray
    lifetime_s: np.ndarray
    is_event: np.ndarray
    idx_request: np.ndarray
    begin_s: int = field(default=0, kw_only=True)

    def __len__(self) -> int:
        return len(self.features)

    @classmethod
    def joined(cls, parts: Sequence[FeatureRows], order: np.ndarray) -> FeatureRows:
        """The rows of several parts with the same names, concatenated and then in `order` (int64)."""
        first = parts[0]

        def concatenated(arrays: Iterable[np.ndarray]) -> np.ndarray:
            return np.concatenate(list(arrays))[order]

        keys = tuple(concatenated(part.keys[idx] for part in parts) for idx in range(len(first.key_names)))
        labels = (concatenated(getattr(part, name) for part in parts)
                  for name in ("decided_s", "arrival_s", "lifetime_s", "is_event", "idx_request"))
        return cls(concatenated(part.features for part in parts), first.names, keys, first.key_names, *labels,
                   begin_s=first.begin_s)


def default_encoder(trace: Trace) -> Encoder:
    """The encoder for a trace's declared roles.

    Numbers: resources and number attributes. History: each owner column, the finest owner with
    shape and numbers, and each category as a target statistic.

    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [9], "cpu_cores": [2.0],
    ...                       "mem_gib": [8.0], "user": ["a"]})
    >>> from sojourn.features.trace import Roles
    >>> [key.name for key in default_encoder(Trace(table, 10, Roles(owners=("user",)))).history.keys]
    ['user', 'user+shape']
    """
    numbers = trace.resources + trace.roles.numbers
    owners = trace.roles.owners
    keys = [HistoryKey(name, (name,), "owner") for name in owners]
    if owners:
        keys.append(HistoryKey(f"{owners[-1]}+shape", (owners[-1], *numbers), "owner"))
    keys += [HistoryKey(name, (name,), "category") for name in trace.roles.categories]
    phase_s = UNIX_PHASE_S if trace.is_dated else 0
    return Encoder(numbers, owners + trace.roles.categories, HistoryDefinition(tuple(keys)), phase_s)


def backoff_keys(encoder: Encoder) -> tuple[int, ...]:
    """Positions of the history keys from coarse to fine: categories, then owners."""
    kinds = [key.kind for key in encoder.history.keys]
    return tuple(idx for key_kind in ("category", "owner") for idx, kind in enumerate(kinds) if kind == key_kind)


def decision_times(trace: Trace) -> np.ndarray:
    """The time of each request's prediction, int64 seconds (n,).

    The column `submit_s` if the trace has it (jobs wait in a queue), else the arrival; not before
    the request came under observation.
    """
    decided_s = trace.requests["submit_s"].to_numpy(np.int64) if "submit_s" in trace.requests else trace.start_s()
    if SEEN_FROM in trace.requests:
        since = trace.requests[SEEN_FROM]
        decided_s = np.where(since.notna(), np.maximum(decided_s, since.fillna(0).to_numpy(np.int64)), decided_s)
    return decided_s


def build_rows(trace: Trace, encoder: Encoder, state: HistoryState | None = None,
               progress: Callable[[int, int], None] | None = None) -> FeatureRows:
    """Replay the trace through the owner history and encode each request at its prediction.

    Within one second ends come first, then requests in trace order; a request at t sees an end at t. Requests with an
    unknown start have no row and no history; requests that leave observation are removed from the history. `state`
    (default: empty) is updated with all requests and ends. progress(done, total) is called now and then.
    """
    is_known = trace.is_start_known()
    idx_request = np.flatnonzero(is_known)
    decided_s = decision_times(trace)[idx_request]
    order = np.argsort(decided_s, kind="stable")
    idx_request, decided_s = idx_request[order], decided_s[order]
    arrival_s = trace.start_s()[idx_request]
    end_s = trace.end_s()[idx_request]
    is_event, is_lost = trace.is_event()[idx_request], trace.is_lost()[idx_request]
    parsed = list(parsed_requests(trace.requests.iloc[idx_request], encoder))
    keys = tuple(key_codes([row.keys[idx] for row in parsed]) for idx in range(len(encoder.history.keys)))
    end = np.where(is_event | is_lost, end_s, NEVER_S)
    rows = None
    is_empty = state is None or (not len(state) and not state.moments[0])
    if len(parsed) >= COMPILED_FROM and is_empty and not is_lost.any():
        numbers = np.array([row.numbers for row in parsed], np.float64).reshape(len(parsed), encoder.n_numbers)
        rows = history_features(encoder, numbers, keys, decided_s, end, end_s - arrival_s)
    if rows is None or state is not None:
        def report(idx: int) -> None:
            if progress is not None and idx % _PROGRESS_EVERY == 0:
                progress(idx, len(parsed))

        rows = replayed_rows(encoder, HistoryState(encoder.history) if state is None else state, parsed,
                             decided_s.tolist(), arrival_s.tolist(), end.tolist(), report,
                             frozenset(np.flatnonzero(is_lost).tolist()), rows)
    if progress is not None:
        progress(len(parsed), len(parsed))
    return FeatureRows(
        rows, encoder.feature_names(), keys, tuple(key.name for key in encoder.history.keys), decided_s,
        arrival_s, end_s - arrival_s, is_event, idx_request, begin_s=trace.begin_s,
    )  # fmt: skip


def parsed_requests(requests: pd.DataFrame, encoder: Encoder) -> Iterator[Parsed]:
    """Each row of a requests table, parsed as in the live predictor; ValueError if a column is missing."""
    missing = [name for name in encoder.columns() if name not in requests]
    if missing:
        raise ValueError(f"requests must have each column that the model reads, got none of {', '.join(missing)}")
    columns = {name: _as_objects(requests[name]) for name in encoder.columns()}
    for values in zip(*columns.values(), strict=True):
        yield encoder.parse(dict(zip(columns, values, strict=True)))


def _as_objects(column: pd.Series) -> list[object]:
    values = column.astype(object)
    return values.where(column.notna(), None).tolist()


def history_features(encoder: Encoder, numbers: np.ndarray, codes: Sequence[np.ndarray], decided_s: np.ndarray,
                     end_s: np.ndarray, lifetime_s: np.ndarray,
                     queries: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray | None:
    """The features of `replayed_rows` to the bit, from an empty history, compiled: float64 (m, n_features).

    numbers: float64 (n, n_numbers), of the requests in the order of decision. codes: of each history key, see
    `FeatureRows.keys`. end_s: int64 (n,), the largest int64 = not observed; no request may leave observation.
    queries: row and time, int64 (m,) each, times rising; default: each row at its decision. None if
    there are more owners or categories than the history keeps, or times too large.
    """
    from sojourn.features import _kernels

    n, history = len(decided_s), encoder.history
    dense = [_dense_codes(each) for each in codes]
    if any(n_codes > history.n_keys_max for _, n_codes in dense):
        return None
    if n and n * max(abs(int(decided_s[0])), abs(int(decided_s[-1]))) >= _EXACT_BELOW:
        return None
    rows, times_s = (np.arange(n), decided_s) if queries is None else queries
    ended = np.flatnonzero(end_s < NEVER_S)
    by_end = ended[np.argsort(end_s[ended], kind="stable")]
    kinds, places = np.empty(n + len(ended) + len(rows), np.int8), np.empty(n + len(ended) + len(rows), np.int64)
    n_events = _kernels.order_events(decided_s, end_s, by_end, times_s[:0] if queries is None else times_s,
                                     queries is None, kinds, places)
    kinds, places = kinds[:n_events], places[:n_events]
    log_lifetime = np.array([math.log10(max(each_s, 1)) for each_s in lifetime_s.tolist()], np.float64)
    counts_log1p = np.array([math.log1p(count) for count in range(max(n, history.window) + 1)])
    features = np.empty((len(rows), len(encoder.feature_names())))
    at = encoder.n_numbers + len(CLOCK_FEATURES)
    features[:, :encoder.n_numbers] = numbers[rows]
    second = times_s + encoder.phase_s
    features[:, at - 2], features[:, at - 1] = second % DAY_S / 3_600.0, second // DAY_S % 7
    for key, (each, n_codes) in zip(history.keys, dense, strict=True):
        if key.kind == "owner":
            _kernels.fill_owners(each, n_codes, kinds, places, rows, times_s, decided_s, log_lifetime, history.window,
                                 history.batch_gap_s, history.instant_log10, counts_log1p, features, at)
        else:
            _kernels.fill_categories(each, n_codes, kinds, places, rows, log_lifetime, history.category_memory,
                                     float(history.prior_strength), history.window, features, at)
        at += len(key.feature_names())
    if encoder.limit_place >= 0:
        _kernels.fill_limits(features, encoder.limit_place, np.array([key.kind == "owner" for key in history.keys]),
                             len(OWNER_FEATURES), len(CATEGORY_FEATURES), encoder.n_numbers + len(CLOCK_FEATURES))
    return features


def _dense_codes(codes: np.ndarray) -> tuple[np.ndarray, int]:
    """Codes from 0 in place of 56-bit ones, their number where the key is missing; and that number."""
    distinct, dense = np.unique(codes, return_inverse=True)
    n_missing = int(len(distinct) > 0 and distinct[0] < 0)
    n_codes = len(distinct) - n_missing
    return np.where(codes < 0, n_codes, dense - n_missing).astype(np.int64), n_codes


def replayed_rows(encoder: Encoder, history: HistoryState, parsed: list[Parsed], decided: list[int],
                  arrival: list[int], end: list[int], before: Callable[[int], None],
                  lost: frozenset[int] = frozenset(), known: np.ndarray | None = None) -> np.ndarray:
    """The features of requests in the order of decision, float64 (n, n_features); updates the history.

    decided, arrival, end: whole seconds (n,); an unobserved end is the largest int64. before(idx)
    is called before each request. lost: requests whose `end` is not an end, but the time at which
    they left observation. known: the features, if they are known already.
    """
    n = len(parsed)
    rows = np.empty((n, len(encoder.feature_names()))) if known is None else known
    by_end = np.argsort(np.array(end, np.int64), kind="stable").tolist()
    admissions: list[Receipt | None] = [None] * n
    position = 0
    for idx in range(n):
        now_s = decided[idx]
        while position < n and end[by_end[position]] <= now_s:
            strike_off(history, admissions, by_end[position], arrival, end, lost)
            position += 1
        before(idx)
        if known is None:
            rows[idx] = encoder.encode(parsed[idx], now_s, history)
        admissions[idx] = history.admit(parsed[idx].keys, now_s)
        if end[idx] <= now_s:  # ended within the second of its decision: later requests see it
            strike_off(history, admissions, idx, arrival, end, lost)
    while position < n and end[by_end[position]] < NEVER_S:
        strike_off(history, admissions, by_end[position], arrival, end, lost)
        position += 1
    return rows


def strike_off(history: HistoryState, admissions: list[Receipt | None], idx: int, arrival: list[int],
               end: list[int], lost: frozenset[int]) -> None:
    """Record the end of an admitted request of `replayed_rows`; withdraw it if it left observation."""
    admission = admissions[idx]
    if admission is not None:
        if idx in lost:
            history.withdraw(admission)
        else:
            history.ended(admission, end[idx], arrival[idx])
        admissions[idx] = None


def key_codes(keys: list[tuple[str, ...] | None]) -> np.ndarray:
    """56-bit codes of keys' texts, the same in all traces, int64 (n,), -1 where missing.

    >>> key_codes([("ann",), None]).tolist()
    [55862035216343730, -1]
    """
    code_of: dict[tuple[str, ...], int] = {}
    codes = np.full(len(keys), -1, np.int64)
    for idx, key in enumerate(keys):
        if key is not None:
            if key not in code_of:
                code_of[key] = key_code(key)
            codes[idx] = code_of[key]
    return codes


UPTIME_SHARES = tuple(step / 8.0 for step in range(8))
"""0, 12.5 %, ..., 87.5 % of the lifetime."""
LANDMARKS_S = (0, 60, 600, 3_600, 21_600, 86_400, 172_800, 604_800, 1_209_600, 2_419_200)
"""Absolute uptimes, seconds: 0, 1 min, 10 min, 1 h, 6 h, 1 d, 2 d, 7 d, 14 d, 28 d."""


def augment_uptime(lifetime_s: np.ndarray, entry_s: np.ndarray,
                   shares: tuple[float, ...] = UPTIME_SHARES) -> tuple[np.ndarray, np.ndarray]:
    """Positions and uptimes of the augmented rows: int64 (m,), float64 (m,) whole seconds.

    lifetime_s, entry_s: float64 (n,). Rows have distinct uptimes, at least the entry age and below the lifetime.

    >>> idx, uptime_s = augment_uptime(np.array([80.0, 2.0]), np.array([0.0, 0.0]))
    >>> idx.tolist(), uptime_s.tolist()
    ([0, 0, 0, 0, 0, 0, 0, 0, 1, 1], [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 0.0, 1.0])
    """
    return _select_uptimes(np.floor(lifetime_s[:, None] * np.array(shares)), lifetime_s, entry_s)


def augment_landmarks(lifetime_s: np.ndarray, entry_s: np.ndarray,
                      landmarks_s: tuple[int, ...] = LANDMARKS_S) -> tuple[np.ndarray, np.ndarray]:
    """Positions and uptimes of the rows at fixed uptimes, among running examples: int64 (m,), float64 (m,) s.

    lifetime_s, entry_s: float64 (n,). landmarks_s: rising. All longer-lived examples share an
    uptime, so it does not reveal the lifetime. Rows have uptimes of at least the entry age.

    >>> idx, uptime_s = augment_landmarks(np.array([60.0, 700.0]), np.array([0.0, 30.0]))
    >>> idx.tolist(), uptime_s.tolist()
    ([0, 1, 1], [0.0, 60.0, 600.0])
    """
    uptime_s = np.broadcast_to(np.array(landmarks_s, np.float64), (len(lifetime_s), len(landmarks_s)))
    return _select_uptimes(uptime_s, lifetime_s, entry_s)


def _select_uptimes(uptime_s: np.ndarray, lifetime_s: np.ndarray, entry_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The uptimes (n, k), rising in a row, that are distinct, under observation and below the lifetime."""
    is_kept = (uptime_s >= entry_s[:, None]) & (uptime_s < lifetime_s[:, None])
    is_kept[:, 1:] &= uptime_s[:, 1:] > uptime_s[:, :-1]
    idx, column = np.nonzero(is_kept)
    return idx.astype(np.int64), uptime_s[idx, column]
