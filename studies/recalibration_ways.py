"""Ways to recalibrate a hazard model by its own ends, replayed live over a window of a trace.

`factors` are those of the product (`serving.live.Recalibration`): by bucket of the age and band of the hazard outlived
since the bucket began. `map` counts the same for all that follows an age, so its factors are the slopes of a monotone
map of PIT for that age, and a request is answered by the map of its own age. `map-fine` has 22 bands in place of 7.
`-without-limit` leaves ends within 2 % of a request's limit out of the counts, and the curve's hazard there as it is;
`-own-limit` gives that hazard one factor of its own.

`levels` and `levels-early` are online conformal prediction (`studies.conformal_levels`). Ends within 2 % of a limit are
one instant in the coverage of `--near-limits`.

    python -m studies recalibration-ways swf=FILE [--window test] [--family blend]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np

from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import Examples
from sojourn.flows.retrain.train import fit_family, windows
from sojourn.models import FitSettings
from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.models.lifetime import EventLog
from sojourn.models.measures import BrierOverAges, OwnerDraws, choose_threshold, drawn_owners, integrated_at_age
from sojourn.models.measures import standard_error as error_of
from sojourn.models.measures.calibration import QUANTILES, RESOLVED, AgedPit
from sojourn.models.measures.measure import AGES_S
from sojourn.serving.curves import BAND_STARTS
from sojourn.serving.inputs import LIMIT
from sojourn.serving.live import Recalibration, recalibration
from studies import conformal_levels
from studies.later_parts import of_file

AGES = (0, 600, 3_600, 21_600)
FINE = (*(-math.log1p(-idx / 20.0) for idx in range(20)), 4.0, 5.5)
"""Starts of bands with 5 % of the probability each; two more in the tail."""
NEAR = 0.02
"""Ends within this share of the limit are at the limit."""
IN, OUT, OWN = "", "-without-limit", "-own-limit"


class Way(NamedTuple):
    """How to recalibrate. is_map: each age counts all that follows it. limit: IN, OUT or OWN."""

    bands: tuple[float, ...]
    is_map: bool
    limit: str


WAYS: Mapping[str, Way] = MappingProxyType({
    f"{name}{limit}": Way(bands, is_map, limit)
    for name, bands, is_map in (("factors", BAND_STARTS, False), ("map", BAND_STARTS, True), ("map-fine", FINE, True))
    for limit in (IN, OUT, OWN)
})


class _Exposures(NamedTuple):
    """rows: int64 (n,); from_s, to_s: uptimes, float64 (n,); is_end: bool (n,)."""

    rows: np.ndarray
    from_s: np.ndarray
    to_s: np.ndarray
    is_end: np.ndarray


class _Curves:
    """Curves without their hazard near the limit, as cumulative hazards from each age on.

    edges, cumulative: (n, J + 1); hazards, free: (n, J), with and without those near the limit, is_near: bool (n, J).
    base, base_s: (n, 4), cumulative hazard and uptime where an age begins: for a map the age itself, else the first
    edge from it on, as in the product. first: int64 (n, 4), the index of that edge.
    """

    def __init__(self, table: HazardTable, limit_s: np.ndarray, way: Way) -> None:
        n = len(table)
        self.edges = np.ascontiguousarray(np.broadcast_to(table.edges, (n, table.edges.shape[1])))
        lower_s, upper_s = self.edges[:, :-1], self.edges[:, 1:]
        self.hazards = table.rates[:, :-1] * (upper_s - lower_s)
        is_limited = np.isfinite(limit_s) & (limit_s > 0.0) & (way.limit != IN)
        self.near_s = np.where(is_limited, (1.0 - NEAR) * limit_s, np.inf), np.where(is_limited, (1.0 + NEAR) * limit_s,
                                                                                     np.inf)
        middle_s, is_narrow = 0.5 * (lower_s + upper_s), upper_s - lower_s <= 2.25 * NEAR * limit_s[:, None]
        self.is_near = is_narrow & (middle_s > self.near_s[0][:, None]) & (middle_s <= self.near_s[1][:, None])
        self.free = np.where(self.is_near, 0.0, self.hazards)
        self.cumulative = np.concatenate([np.zeros((n, 1)), np.cumsum(self.free, axis=1)], axis=1)
        self.first = np.stack([(lower_s < age_s).sum(axis=1) for age_s in AGES], axis=1)
        rows = np.arange(n)
        self.base_s = np.take_along_axis(self.edges, self.first, axis=1)
        self.base = np.take_along_axis(self.cumulative, self.first, axis=1)
        if way.is_map:
            self.base_s = np.tile(np.array(AGES, np.float64), (n, 1))
            self.base = np.stack([self.at(rows, self.base_s[:, age]) for age in range(len(AGES))], axis=1)

    def at(self, rows: np.ndarray, time_s: np.ndarray) -> np.ndarray:
        """The cumulative hazard of rows at one uptime each."""
        edges, each = self.edges[rows], np.arange(len(rows))
        idx = np.clip((edges <= time_s[:, None]).sum(axis=1) - 1, 0, edges.shape[1] - 2)
        lower_s, upper_s = edges[each, idx], edges[each, idx + 1]
        share = np.clip((time_s - lower_s) / (upper_s - lower_s), 0.0, 1.0)
        answers: np.ndarray = self.cumulative[rows, idx] + share * self.free[rows, idx]
        return answers


class _Learner(Recalibration):
    """The product's bookkeeping of who runs, with counts of a way. Curves are named by their row."""

    def __init__(self, curves: _Curves, way: Way) -> None:
        super().__init__()
        self.curves, self.way = curves, way
        self.lower = np.array(way.bands)
        self.upper = np.append(self.lower[1:], np.inf)
        self.ends, self.expected = np.zeros((len(AGES), len(self.lower))), np.zeros((len(AGES), len(self.lower)))
        self.at_limit = np.zeros(2)  # ends, and expected ends
        self.factors = self._factors()
        self.limit_factor = 1.0

    def count(self, now_s: int, numbers_of: Any) -> None:
        exposures = [*self._pending, *self._lived(now_s, numbers_of)]
        seen = _Exposures(*(np.array(part) for part in zip(*exposures, strict=True)))
        fade = math.exp(-self._n_ends / recalibration.WINDOW)
        self.at_limit = fade * self.at_limit + self._counted_at_limit(seen)
        ends, expected = self._counted(seen)
        self.ends, self.expected = fade * self.ends + ends, fade * self.expected + expected
        self.factors = self._factors()
        if self.way.limit == OWN:
            n_ends, n_expected = (self.at_limit + recalibration.PRIOR).tolist()
            self.limit_factor = min(max(n_ends / n_expected, 1.0 / recalibration.FACTOR_MAX), recalibration.FACTOR_MAX)
        self._pending, self._n_ends, self.is_learnt, self._counted_to_s = [], 0, True, now_s

    def _counted(self, seen: _Exposures) -> tuple[np.ndarray, np.ndarray]:
        curves, rows = self.curves, seen.rows
        is_near = (seen.to_s > curves.near_s[0][rows]) & (seen.to_s <= curves.near_s[1][rows])
        is_end = seen.is_end & (seen.to_s <= curves.edges[rows, -1]) & ~is_near
        to_s = np.where(is_near, np.maximum(curves.near_s[0][rows], seen.from_s), seen.to_s)
        low, high = curves.at(rows, seen.from_s), curves.at(rows, to_s)
        ends, expected = np.zeros_like(self.ends), np.zeros_like(self.ends)
        for age in range(len(AGES)):
            is_last = self.way.is_map or age == len(AGES) - 1
            base = curves.base[rows, age]
            top = np.full(len(rows), np.inf) if is_last else curves.base[rows, age + 1]
            until_s = np.full(len(rows), np.inf) if is_last else curves.base_s[rows, age + 1]
            lived = np.clip(low, base, top) - base, np.clip(high, base, top) - base
            within = np.minimum(lived[1][:, None], self.upper) - np.maximum(lived[0][:, None], self.lower)
            expected[age] = np.maximum(within, 0.0).sum(axis=0)
            is_here = is_end & (to_s > curves.base_s[rows, age]) & (to_s <= until_s)
            band = np.searchsorted(self.lower, (high - base)[is_here], side="left") - 1
            np.add.at(ends[age], np.maximum(band, 0), 1.0)
        return ends, expected

    def _counted_at_limit(self, seen: _Exposures) -> np.ndarray:
        curves, rows = self.curves, seen.rows
        edges, hazards = curves.edges[rows], np.where(curves.is_near[rows], curves.hazards[rows], 0.0)
        lower_s, width_s = edges[:, :-1], np.diff(edges, axis=1)
        lived = [np.clip((time_s[:, None] - lower_s) / width_s, 0.0, 1.0) for time_s in (seen.from_s, seen.to_s)]
        idx = np.clip((edges < seen.to_s[:, None]).sum(axis=1) - 1, 0, edges.shape[1] - 2)
        is_end = seen.is_end & curves.is_near[rows, idx] & (seen.to_s <= edges[:, -1])
        return np.array([is_end.sum(), (hazards * (lived[1] - lived[0])).sum()])

    def _factors(self) -> np.ndarray:
        if not self.way.is_map:
            return recalibration.factors_of(self.ends, self.expected)
        prior = recalibration.PRIOR
        whole = (self.ends.sum(axis=1) + prior) / (self.expected.sum(axis=1) + prior)
        factors = (self.ends + prior * whole[:, None]) / (self.expected + prior)
        return np.clip(factors, 1.0 / recalibration.FACTOR_MAX, recalibration.FACTOR_MAX)


@dataclass(frozen=True, slots=True)
class Window:
    """Requests in the order of their decisions, their curves, seconds of decision and limits (s, NaN = none)."""

    rows: Examples
    table: HazardTable
    decided_s: np.ndarray
    limit_s: np.ndarray


def recalibrated_by(window: Window, way: Way) -> dict[int, HazardTable]:
    """The table that answers at each of `AGES`, learnt as requests end, in the order of events."""
    curves = _Curves(window.table, window.limit_s, way)
    learner = _Learner(curves, way)
    rows, n = window.rows, len(window.rows)
    start_s = rows.arrival_s.astype(np.int64)
    times_s = np.concatenate([window.decided_s, start_s + rows.lifetime_s.astype(np.int64)])
    order = np.lexsort((np.repeat([0, 1], n), times_s))
    factors, limit_factors, place = [learner.factors], [1.0], np.zeros(n, np.int64)
    starts_s, entries_s, is_event = start_s.tolist(), rows.entry_s.tolist(), rows.is_event.tolist()
    for at, now_s in zip(order.tolist(), times_s[order].tolist(), strict=True):
        if at < n:
            learner.follow(at, starts_s[at], entries_s[at])
            place[at] = len(factors) - 1
            continue
        learner.ended(at - n, now_s, at - n, is_end=is_event[at - n])
        if learner.is_due:
            learner.count(now_s, lambda row: row)
            factors.append(learner.factors)
            limit_factors.append(learner.limit_factor)
    return _tables(window.table, curves, way, np.array(factors)[place], np.array(limit_factors)[place])


def _tables(table: HazardTable, curves: _Curves, way: Way, factors: np.ndarray,
            limit_factors: np.ndarray) -> dict[int, HazardTable]:
    bounds = (*way.bands, np.inf)
    idx = np.arange(curves.hazards.shape[1])
    near = np.where(curves.is_near, curves.hazards, 0.0) * limit_factors[:, None]
    tables, hazards = {}, curves.hazards.copy()
    for age, age_s in enumerate(AGES):
        outlived = np.maximum(curves.cumulative - curves.base[:, [age]], 0.0)
        mapped = np.zeros_like(outlived)
        for band in range(len(way.bands)):
            within = np.minimum(outlived, bounds[band + 1]) - np.minimum(outlived, bounds[band])
            mapped += factors[:, age, [band]] * within
        fresh, first = np.diff(mapped, axis=1), curves.first[:, [age]]
        is_here = idx >= first
        if way.is_map and age > 0:  # the interval in which the age lies: its part from the age on, at that rate
            before = np.maximum(first - 1, 0)
            lower_s, upper_s = (np.take_along_axis(curves.edges, before + one, axis=1) for one in (0, 1))
            rest_s = np.where(upper_s > age_s, upper_s - age_s, upper_s - lower_s)
            np.put_along_axis(fresh, before, np.take_along_axis(fresh, before, axis=1) * (upper_s - lower_s) / rest_s,
                              axis=1)
            is_here = idx >= before
        elif not way.is_map and age < len(AGES) - 1:
            is_here &= idx < curves.first[:, [age + 1]]
        hazards = np.where(is_here, fresh + near, curves.hazards if way.is_map else hazards)
        tables[age_s] = HazardTable.from_hazards(table.edges, hazards, float(table.after[0, -1]), table.grid)
    return tables if way.is_map else dict.fromkeys(AGES, tables[AGES[-1]])


def windows_of(spec: str, family: str = "hazard") -> tuple[dict[str, Window], dict[str, np.ndarray]]:
    """The validation and test window of READER=PATH with curves of a family, and each row's owner."""
    config, trace = of_file(spec)
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = windows(rows, config.test_share, config.valid_share)
    settings = FitSettings(backoff_keys(encoder), config.n_threads, config.seed, names=rows.names,
                           log=EventLog.of(rows, encoder.history))
    model = fit_family(family, split, settings, choose_threshold(split.train)).model
    found, owners = {}, {}
    for name, part, table in (("valid", split.valid, model.validation_table_),
                              ("test", split.test, model.curve_table(split.test))):
        if not isinstance(table, HazardTable):
            raise TypeError(f"curves must be of hazards, got {type(table).__name__}")
        limit_s = part.features[:, rows.names.index(LIMIT)] if LIMIT in rows.names else np.full(len(part), np.nan)
        found[name] = Window(part, table, rows.decided_s[part.idx_row], limit_s)
        owners[name] = drawn_owners(part, encoder.history)[0]
    return found, owners


def main() -> None:
    """Print for each way PIT deviation and coverage of 10, 50 and 90 % at each age, and the Brier score over ages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="READER=PATH, such as swf=HPC2N-2002-2.1-cln.swf.gz")
    parser.add_argument("--window", choices=("valid", "test"), default="valid")
    parser.add_argument("--family", default="hazard", help="of hazards")
    parser.add_argument("--near-limits", action="store_true")
    parser.add_argument("--ways", nargs="+", choices=("none", *WAYS, *conformal_levels.WAYS), default=("none", *WAYS))
    options = parser.parse_args()
    found, owners = windows_of(options.trace, options.family)
    window, draws = found[options.window], OwnerDraws(owners[options.window], seed=0)
    print(f"{'':24}{'  '.join(f'{name:20}' for name in ('creation', '10 min', '1 h', '6 h'))}  Brier over ages")
    base: BrierOverAges | None = None
    for name in ("factors", *(each for each in options.ways if each != "factors")):
        tables = tables_by(window, name)
        parts = {age_s: integrated_at_age(tables.get(age_s, tables[AGES[-1]]), window.rows, age_s)
                 for age_s in (0, *AGES_S)}
        brier = BrierOverAges.of_parts(parts, len(window.rows))
        base = base or brier
        error = error_of(np.array([brier.score(weight) - base.score(weight) for weight in draws]), draws.n_units)
        late = parts[AGES[-1]]
        cells = "  ".join(_cell(tables[age_s], window, age_s, options.near_limits) for age_s in AGES)
        print(f"{name:24}{cells}  {brier.score():.4f} "
              f"{brier.score() - base.score():+.5f} +- {error:.5f}, at 6 h "
              f"{math.nan if late is None else late[1].mean():.4f}", flush=True)


def tables_by(window: Window, name: str) -> Mapping[int, HazardTable | conformal_levels.LevelTable]:
    """The table that answers at each of `AGES`, by the way of that name, or without recalibration: none."""
    if name in conformal_levels.WAYS:
        return conformal_levels.levelled(window.table, window.rows, window.decided_s, window.limit_s, AGES,
                                         is_early=conformal_levels.WAYS[name])
    return dict.fromkeys(AGES, window.table) if name == "none" else recalibrated_by(window, WAYS[name])


def _cell(table: HazardTable | conformal_levels.LevelTable, window: Window, age_s: int, is_resolved: bool) -> str:
    aged = AgedPit.of(cast(CurveTable, table), window.rows, age_s, window.limit_s if is_resolved else None)
    if aged is None:
        return f"{'-':20}"
    scores, ending = aged.scores(), RESOLVED if is_resolved else ""
    shares = " ".join(f"{100 * scores[f'{aged.prefix}.coverage_{round(100 * q)}{ending}']:.0f}" for q in QUANTILES)
    return f"{scores[f'{aged.prefix}.pit_deviation{ending}']:.3f}; {shares}".ljust(20)


if __name__ == "__main__":
    main()
