"""Slow twins of `models.drift`: one request and one day at a time."""

from __future__ import annotations

import numpy as np

from sojourn.models.drift import DAY_S, WatchedRequests


def naive_daily_exits(rows: WatchedRequests, first_day: int, last_day: int,
                      bands_s: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """observed, expected, squared (D, B) and squared_all (D,)."""
    n_days, n_bands = last_day - first_day + 1, len(bands_s)
    clusters = sorted(set(rows.cluster.tolist()))
    observed, expected = np.zeros((2, n_days, n_bands, len(clusters)))
    for idx in range(len(rows)):
        arrival, end = int(rows.arrival_s[idx]), int(rows.end_s[idx])
        end += bool(rows.is_event[idx]) and end == arrival  # an end within the first second: of age 1 s
        place = clusters.index(int(rows.cluster[idx]))
        for day in range(n_days):
            for band in range(n_bands):
                band_end = bands_s[band + 1] if band + 1 < n_bands else np.inf
                low = max(int(rows.watch_s[idx]), (first_day + day) * DAY_S, arrival + bands_s[band])
                high = min(end, (first_day + day + 1) * DAY_S, arrival + min(band_end, rows.ages_s[-1]))
                if high <= low:
                    continue
                expected[day, band, place] += (np.interp(high - arrival, rows.ages_s, rows.hazard[idx])
                                               - np.interp(low - arrival, rows.ages_s, rows.hazard[idx]))
                observed[day, band, place] += bool(rows.is_event[idx]) and high == end
    excess = observed - expected
    return (observed.sum(axis=2), expected.sum(axis=2), (excess**2).sum(axis=2),
            (excess.sum(axis=1) ** 2).sum(axis=1))
