"""The predictor `truth`: what the synthetic trace's own generator knows of each lifetime; no model can know more."""

from __future__ import annotations

import numpy as np

from sojourn.features.synthetic import LifetimeMixtures
from sojourn.features.trace import Trace
from sojourn.flows.placement.held_answers import held_answers
from sojourn.simulator import Curves, Held

UPTIMES_S = np.append(0, np.rint(np.geomspace(60, 365 * 86_400, 64))).astype(np.int64)
"""Breakpoints of every curve: each 23 % above the one before, from a minute to a year."""


def truth_source(trace: Trace, mixtures: LifetimeMixtures) -> Held:
    """A LifetimeSource of the true distributions, for `trace` and whatever is made of its requests.

    mixtures: one per request of `trace`, as `synthesize_with_truth` gives them. A request with an unknown start counts
    as made at time 0, as everywhere in a replay.

    >>> from sojourn.features.synthetic import synthesize_with_truth
    >>> trace, mixtures = synthesize_with_truth(500, seed=3, days=7)
    >>> curves = truth_source(trace, mixtures).curves(trace.requests)
    >>> curves.total_at(40, 0), int(mixtures.remaining_s(0.0)[40])
    (1395, 1395)
    """
    return Held(trace.requests["request_id"], mixture_curves(mixtures))


def mixture_curves(mixtures: LifetimeMixtures) -> Curves:
    """One curve per mixture: E[T | T > u] and E[max(T - u, 0)] at UPTIMES_S, cut to whole seconds."""
    return held_answers(len(mixtures), UPTIMES_S, mixtures.remaining_s, mixtures.survival)
