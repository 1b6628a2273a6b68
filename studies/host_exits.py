"""How well families predict when a host becomes empty: what placement needs of them, beside the Brier score.

A host is empty when the longest of its running requests ends. The later part of a trace is placed by best-fit, which
asks no family. At moments drawn evenly, each host in use has a predicted exit: the chance that it is still in use after
a time is 1 - the product of the residents' chances to have ended, each by its curve and its age.

    python -m studies host-exits swf=FILE [--family hazard --family blend]

`Brier` is that of "still in use after h", mean over log h from 1 min to 10 d; `MAE` of log10 of the median; `largest`
is the rival without a distribution: the MAE if the exit is the largest of the residents' mean remaining times. Hosts
whose exit is not in the trace count for h up to its end in Brier, and not in MAE. Lower is better for all.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sojourn.flows.placement.predictors import asked_rows
from sojourn.flows.placement.workloads import later_workload
from sojourn.models import LIFETIME_MODELS
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures import BrierOverAges
from sojourn.simulator import Workload, simulate
from studies.later_parts import learning, of_file

HORIZONS_S = np.geomspace(60.0, 10 * 86_400.0, 40)
FAMILIES = ("km", "hazard", "mixture", "online", "blend")
N_MOMENTS = 300


class Residents(NamedTuple):
    """Requests on hosts at moments. row: of the curve; state: of the host at its moment, both int64 (m,); uptime_s:
    float64 (m,). exit_s: float64 (k,), of each state from its moment, or up to the trace's end; is_seen: bool (k,)."""

    row: np.ndarray
    state: np.ndarray
    uptime_s: np.ndarray
    exit_s: np.ndarray
    is_seen: np.ndarray


def residents_of(workload: Workload, host: np.ndarray, row: np.ndarray, n_moments: int = N_MOMENTS) -> Residents:
    """What runs where. host: of each request, -1 = none; row: of its curve, -1 = none; a host with such a one is left
    out."""
    start_s, horizon_s = workload.trace.start_s(), int(workload.trace.horizon_s)
    is_event, end_s = workload.trace.is_event(), np.minimum(workload.trace.end_s(), horizon_s)
    rows, states, uptimes, exits, seen = [], [], [], [], []
    n_states = 0
    for moment_s in np.linspace(workload.warmup_s, horizon_s, n_moments + 1)[:-1].astype(np.int64).tolist():
        runs = np.flatnonzero((start_s <= moment_s) & (end_s > moment_s) & (host >= 0))
        _, of_host = np.unique(host[runs], return_inverse=True)
        n = int(of_host.max(initial=-1)) + 1
        is_known = np.ones(n, bool)
        np.minimum.at(is_known, of_host, row[runs] >= 0)
        number = np.cumsum(is_known) - 1
        kept = is_known[of_host]
        last_s, is_seen = np.zeros(n), np.ones(n, bool)
        np.maximum.at(last_s, of_host, (end_s[runs] - moment_s).astype(np.float64))
        np.minimum.at(is_seen, of_host, is_event[runs])
        rows.append(row[runs][kept])
        states.append(n_states + number[of_host[kept]])
        uptimes.append((moment_s - start_s[runs][kept]).astype(np.float64))
        exits.append(last_s[is_known])
        seen.append(is_seen[is_known])
        n_states += int(is_known.sum())
    return Residents(*map(np.concatenate, (rows, states, uptimes, exits, seen)))


def scores_of(table: CurveTable, residents: Residents) -> tuple[float, float, float]:
    """Brier score, MAE of log10 of the median, and that of the largest mean."""
    each = table.take(residents.row)
    n = len(residents.exit_s)
    in_use = np.empty((len(HORIZONS_S), n))
    for idx, horizon_s in enumerate(HORIZONS_S.tolist()):
        ended = np.log(np.maximum(1.0 - each.survival(horizon_s, residents.uptime_s), 1e-300))
        in_use[idx] = 1.0 - np.exp(np.bincount(residents.state, ended, minlength=n))
    is_in_use = residents.exit_s[None, :] > HORIZONS_S[:, None]
    is_known = residents.is_seen[None, :] | is_in_use
    brier = float(np.square(in_use - is_in_use)[is_known].mean())
    median_s = np.array([np.interp(-0.5, -in_use[:, one], np.log10(HORIZONS_S)) for one in range(n)])
    largest_s = np.zeros(n)
    np.maximum.at(largest_s, residents.state, each.remaining(residents.uptime_s))
    actual = np.log10(np.maximum(residents.exit_s, 1.0))[residents.is_seen]
    return (brier, float(np.abs(median_s[residents.is_seen] - actual).mean()),
            float(np.abs(np.log10(np.maximum(largest_s, 1.0))[residents.is_seen] - actual).mean()))


def main() -> None:
    """Print a row a family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="READER=PATH")
    parser.add_argument("--family", action="append", choices=tuple(LIFETIME_MODELS))
    asked = parser.parse_args()
    config, trace = of_file(asked.trace)
    rows, split, settings = learning(config, trace)
    workload = later_workload(config.chosen_recipe, config, trace, split.test_from_s)
    requests = asked_rows(workload, trace, rows)
    row_of = np.full(len(workload.trace.requests), -1)
    row_of[workload.trace.requests["request_id"].isin(requests.request_ids).to_numpy()] = requests.idx
    residents = residents_of(workload, simulate(workload, "best-fit").host, row_of)
    print(f"{len(residents.exit_s):,} states of hosts, {residents.is_seen.mean():.0%} with their exit")
    print(f"{'family':14}{'Brier ages':>12}{'host Brier':>12}{'host MAE':>10}{'largest':>10}")
    for name in asked.family or FAMILIES:
        model = LIFETIME_MODELS[name]().fit(split.train, split.valid, split.past, settings)
        settings = replace(settings, fitted={**settings.fitted, name: model})
        brier = BrierOverAges.of(model.curve_table(split.test), split.test).score()
        found = scores_of(model.curve_table(requests.rows), residents)
        print(f"{name:14}{brier:12.4f}{found[0]:12.4f}{found[1]:10.3f}{found[2]:10.3f}", flush=True)


if __name__ == "__main__":
    main()
