"""Feature rows read anew with instant ends apart: owners' habits are of the others, and the share of instant ends.

The history keeps the same in both readings, so the rows of one follow from those of the other and from the ends: no
second replay of the trace.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sojourn.features._kernels import fill_habits
from sojourn.features.creation import FeatureRows
from sojourn.serving.inputs import CLOCK_FEATURES, LONGER_LOG10, OWNER_FEATURES, Encoder

_N_HABITS = 9


def with_instants_apart(encoder: Encoder, instant_s: int) -> Encoder:
    """The encoder whose history sets ends within so many seconds apart."""
    return replace(encoder, history=replace(encoder.history, instant_s=instant_s))


def apart_rows(rows: FeatureRows, encoder: Encoder) -> FeatureRows:
    """The rows of a whole trace that an encoder gave without `instant_s`, as this one, with it, gives them, to the bit.

    encoder: without a lookup table. ValueError where owners are more than the history keeps: which of them were
    forgotten is not known from the rows.
    """
    history = encoder.history
    if history.instant_s is None:
        raise ValueError("instant_s of the encoder's history must be a number of seconds, got None")
    end_s = rows.arrival_s + rows.lifetime_s
    ended = np.flatnonzero(rows.is_event)
    by_end = ended[np.argsort(end_s[ended], kind="stable")]
    log_lifetime = np.array([math.log10(max(lifetime_s, 1)) for lifetime_s in rows.lifetime_s.tolist()])
    counts_log1p = np.array([math.log1p(count) for count in range(history.window + 1)])
    features, at = rows.features.copy(), encoder.n_numbers + len(CLOCK_FEATURES)
    for key, codes in zip(history.keys, rows.keys, strict=True):
        if key.kind == "owner":
            known, dense = np.unique(codes, return_inverse=True)
            n_missing = int(len(known) > 0 and known[0] < 0)
            if len(known) - n_missing > history.n_keys_max:
                raise ValueError(f"owners of {key.name!r} must be at most {history.n_keys_max:,}, got "
                                 f"{len(known) - n_missing:,}")
            habits = np.empty((len(rows), _N_HABITS))
            fill_habits(dense.astype(np.int64) - n_missing, rows.decided_s, end_s, rows.is_event, by_end, log_lifetime,
                        history.window, history.instant_log10, counts_log1p, np.array(LONGER_LOG10), habits)
            first = at + len(OWNER_FEATURES) - _N_HABITS
            features[:, first:first + _N_HABITS] = habits
        at += len(key.feature_names())
    _fill_limits(features, encoder)
    return replace(rows, features=features, names=encoder.feature_names())


def _fill_limits(features: np.ndarray, encoder: Encoder) -> None:
    """Set the last features, what owners' habits are to the limit, from the others."""
    for idx in range(len(features)) if encoder.limit_place >= 0 else ():
        row = features[idx].tolist()
        encoder.fill_limits(row)
        features[idx] = row
