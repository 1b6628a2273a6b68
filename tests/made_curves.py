"""Lifetime curves of every kind, as Hypothesis draws them, and what every curve must be."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from sojourn.serving import Lifetime
from sojourn.serving.curves import HazardCurve, LifetimeCurve, PointCurve
from sojourn.serving.curves.curve import OnceCurve

uptimes = st.floats(0.0, 1e7) | st.integers(0, 10**7)
shares = st.floats(0.01, 0.99)
residual_grids = st.lists(st.floats(-3.0, 2.0), min_size=2, max_size=30).map(sorted)


@st.composite
def hazard_curves(draw: st.DrawFn) -> HazardCurve:
    n = draw(st.integers(1, 12))
    spans = draw(st.lists(st.floats(0.5, 1e5), min_size=n, max_size=n))
    hazards = draw(st.lists(st.floats(0.0, 5.0) | st.sampled_from([0.0, 1e-13, 1e-9, 40.0]), min_size=n, max_size=n))
    edges = (0.0, *np.cumsum(spans).tolist())
    return HazardCurve.from_hazards(edges, hazards, draw(st.floats(1.0, 1e7)), edges)


@st.composite
def point_curves(draw: st.DrawFn) -> PointCurve:
    thresholds = sorted(set(draw(st.lists(st.floats(0.0, 1e6), max_size=8))))
    scores = draw(st.lists(st.floats(-1.0, 6.0), min_size=len(thresholds) + 1, max_size=len(thresholds) + 1))
    return PointCurve.from_scores(thresholds, scores, draw(st.floats(0.5, 3.0)), draw(residual_grids))


once_curves = st.builds(OnceCurve.from_score, st.floats(-1.0, 6.0), st.floats(0.5, 3.0), residual_grids)
curves = st.one_of(hazard_curves(), point_curves(), once_curves)


def vm_of(curve: LifetimeCurve, arrival_s: int = 0) -> Lifetime:
    """A request with this curve, as `predict` would answer it."""
    return Lifetime(curve, np.empty(0), arrival_s, (), "made", None)


class OtherCurve:
    """A curve that keeps to the protocol and is of no kind that can be packed."""

    def remaining(self, uptime_s: float) -> float:
        return 1.0

    def quantile(self, q: float, uptime_s: float) -> float:
        return 1.0

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        return 1.0

    def next_change(self, uptime_s: float) -> float:
        return uptime_s + 1.0


UPTIMES_S = (0.0, 1.0, 61.0, 3_600.0, 1e5, 1e7, 1e9)
SPANS_S = (0.0, 1.0, 60.0, 3_600.0, 1e6, 1e8, 1e10)


def check_curve(vm: Lifetime | LifetimeCurve) -> None:
    """A survival curve at every uptime: from 1 down within [0, 1], quantiles in order, remaining times finite."""
    for uptime_s in UPTIMES_S:
        survival = [vm.survival(span_s, uptime_s) for span_s in SPANS_S]
        assert survival[0] == 1.0
        assert all(0.0 <= later <= sooner for sooner, later in pairwise(survival)), (uptime_s, survival)
        quantiles = [vm.quantile(share, uptime_s) for share in (0.1, 0.5, 0.9)]
        for seconds in (vm.remaining(uptime_s), *quantiles):
            assert math.isfinite(seconds) and seconds >= 0.0, (uptime_s, seconds)
        assert quantiles == sorted(quantiles)
        assert vm.next_change(uptime_s) > uptime_s
