"""Compiled replay of a trace through the owner history, one history key at a time, with the floats of `HistoryState`.

Keys do not read each other, so each walks the same list of events. Not covered: withdrawals, and full
tables that remove an owner; `creation.history_features` checks for both.
"""

from __future__ import annotations

import math

import numpy as np

from sojourn.serving.inputs import (
    LONGER_LOG10,
    UNKNOWN,
    HistoryRows,
    fill_category_features,
    fill_limit_features,
    fill_owner_features,
)
from sojourn.serving.kernel import kernel

END, QUERY, ADMISSION = 0, 1, 2
_HOUR_LOG10, _DAY_LOG10, _WEEK_LOG10 = LONGER_LOG10
_UNKNOWN = HistoryRows().values[UNKNOWN].copy()


@kernel
def order_events(decided_s, end_s, by_end, query_s, is_own, kinds, places):
    """Write kinds and places of all events in the order of `creation.replayed_rows`; returns how many.

    end_s: int64 (n,), the largest int64 = not observed. by_end: int64, rows with an observed end in the order of ends.
    query_s: rising, of queries in between (place = its index); is_own: one query of each row before its admission
    (place = the row). Within a second: ends, queries in between, admissions.
    """
    n = len(decided_s)
    is_running = np.zeros(n, np.bool_)
    n_ended = n_asked = n_events = 0
    for row in range(n + 1):
        while True:
            may_end = n_ended < len(by_end) and (row == n or end_s[by_end[n_ended]] <= decided_s[row])
            may_ask = n_asked < len(query_s) and (row == n or query_s[n_asked] <= decided_s[row])
            if may_end and not (may_ask and query_s[n_asked] < end_s[by_end[n_ended]]):
                ended = by_end[n_ended]
                n_ended += 1
                if is_running[ended]:
                    is_running[ended] = False
                    kinds[n_events], places[n_events] = END, ended
                    n_events += 1
            elif may_ask:
                kinds[n_events], places[n_events] = QUERY, n_asked
                n_asked += 1
                n_events += 1
            else:
                break
        if row < n:
            if is_own:
                kinds[n_events], places[n_events] = QUERY, row
                n_events += 1
            kinds[n_events], places[n_events] = ADMISSION, row
            n_events += 1
            if end_s[row] <= decided_s[row]:  # ended within the second of its decision
                kinds[n_events], places[n_events] = END, row
                n_events += 1
            else:
                is_running[row] = True
    return n_events


@kernel
def fill_owners(codes, n_codes, kinds, places, query_row, query_s, decided_s, log_lifetime, window, batch_gap_s,
                instant_log10, counts_log1p, features, at):
    """Write an owner key's features of each query to features[:, at:at + 15].

    codes: int64 (n,) of each row, below n_codes; n_codes = a missing key. counts_log1p: float64 (n + 1,), of counts.
    """
    rows = np.empty((n_codes + 1, len(_UNKNOWN)))
    rows[:] = _UNKNOWN
    recent = np.empty((n_codes, window))
    n_ended, n_running = np.zeros(n_codes, np.int64), np.zeros(n_codes, np.int64)
    sum_s, last_s, batch = (np.zeros(n_codes, np.int64), np.zeros(n_codes, np.int64), np.zeros(n_codes, np.int64))
    first, latest = np.full(n_codes, -1, np.int64), np.full(n_codes, -1, np.int64)  # of a list of admissions
    following = np.full(len(codes), -1, np.int64)
    is_running = np.zeros(len(codes), np.bool_)
    for event in range(len(kinds)):
        kind, place = kinds[event], places[event]
        if kind == QUERY:
            fill_owner_features(rows[codes[query_row[place]]], query_s[place], batch_gap_s, features[place], at)
            continue
        code = codes[place]
        if code == n_codes:
            continue
        row = rows[code]
        if kind == ADMISSION:
            now_s = decided_s[place]
            if batch[code] == 0 or now_s - last_s[code] > batch_gap_s:
                batch[code] = 0
            batch[code] += 1
            last_s[code] = now_s
            sum_s[code] += now_s
            n_running[code] += 1
            is_running[place] = True
            if first[code] < 0:
                first[code] = place
            else:
                following[latest[code]] = place
            latest[code] = place
        else:
            is_running[place] = False
            sum_s[code] -= decided_s[place]
            n_running[code] -= 1
            recent[code, n_ended[code] % window] = log_lifetime[place]
            n_ended[code] += 1
            while first[code] >= 0 and not is_running[first[code]]:
                first[code] = following[first[code]]
            n_known = min(n_ended[code], window)
            begin = n_ended[code] - n_known
            n = n_1h = n_1d = n_7d = 0
            total, last, before = 0.0, 0.0, 0.0
            for idx in range(begin, begin + n_known):
                value = recent[code, idx % window]
                if value > instant_log10:
                    n += 1
                    total += value
                    before, last = last, value
            row[6:] = _UNKNOWN[6:]
            if instant_log10 >= 0.0:
                row[10] = (n_known - n) / n_known
            if n > 0:
                mean, squares, longest = total / n, 0.0, -1.0
                for idx in range(begin, begin + n_known):
                    value = recent[code, idx % window]
                    if value > instant_log10:
                        deviation = value - mean
                        squares += deviation * deviation
                        longest = max(longest, value)
                        n_1h += value >= _HOUR_LOG10
                        n_1d += value >= _DAY_LOG10
                        n_7d += value >= _WEEK_LOG10
                row[6] = counts_log1p[n]
                row[7] = mean
                row[8] = math.sqrt(squares / n)
                row[9] = last
                if instant_log10 < 0.0:
                    row[10] = last if n == 1 else (last + before) / 2.0
                row[11] = longest
                row[12], row[13], row[14] = n_1h / n, n_1d / n, n_7d / n
        row[0] = counts_log1p[min(n_ended[code] + n_running[code], window)]
        row[1] = counts_log1p[n_running[code]]
        row[2] = decided_s[first[code]] if n_running[code] else np.nan
        row[3] = sum_s[code] / n_running[code] if n_running[code] else np.nan
        row[4] = last_s[code]
        row[5] = counts_log1p[batch[code]]


@kernel
def fill_categories(codes, n_codes, kinds, places, query_row, log_lifetime, memory, prior_strength, window, features,
                    at):
    """Write a category key's two features of each query to features[:, at:]; codes as in `fill_owners`."""
    moments = np.zeros((n_codes + 1, 2))
    n_all, mean_all = 0.0, 0.0
    for event in range(len(kinds)):
        kind, place = kinds[event], places[event]
        if kind == QUERY:
            fill_category_features(moments[codes[query_row[place]]], mean_all if n_all > 0.0 else np.nan,
                                   prior_strength, window, features[place], at)
        elif kind == END:
            value, code = log_lifetime[place], codes[place]
            n_all += 1.0
            mean_all += (value - mean_all) / min(n_all, memory)
            if code < n_codes:
                moments[code, 0] += 1.0
                moments[code, 1] += (value - moments[code, 1]) / min(moments[code, 0], memory)


@kernel
def fill_limits(features, limit_place, is_owner, n_owner, n_category, start):
    """Write the limit features, the last ones of each row, from the others."""
    at = features.shape[1] - 2 * is_owner.sum()
    for idx in range(len(features)):
        fill_limit_features(features[idx, limit_place], is_owner, n_owner, n_category, start, features[idx], at)
