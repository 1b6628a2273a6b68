"""SurvivalBoost of the package `hazardous` (Alberge et al., AISTATS 2025) against the families, on one trace.

    pip install hazardous==0.2.0 lifelines
    python -m studies survival-boost READER=PATH [--family hazard --family blend] [--rows 5000] [--iterations 50]

It is no family of `evaluate`: its dependency autograd-gamma has no wheel, and it takes minutes for some thousands of
rows, since each tree is grown on several horizons of each row. It learns log time, as its training draws horizons
uniformly and in seconds all of them would be late. Printed: the Brier score over ages on the test window, lower is
better, and the seconds of the fits.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.split import Examples
from sojourn.models import LIFETIME_MODELS
from sojourn.models.curve_table import HazardTable
from sojourn.models.lifetime import Axis
from sojourn.models.measures import BrierOverAges
from studies.later_parts import learning, of_file

N_AT_ONCE = 2_000
HAZARD_TOP = 20.0


def _features(rows: Examples) -> np.ndarray:
    """Missing values as a number: it bins each column, and refuses one without values."""
    return np.nan_to_num(np.clip(rows.features, -1e30, 1e30), nan=-1.0)


def boosted(past: Examples, n_rows: int, seed: int, **settings: Any) -> tuple[Any, Axis]:
    """The fitted model, and the intervals of its curves. Rows with late entry, which it doesn't know, are left out."""
    from hazardous import SurvivalBoost  # type: ignore[import-not-found]  # pyright: ignore

    axis = Axis.fit(past, -1)
    rows = past.take(past.entry_s == 0.0)
    if len(rows) > n_rows:
        rows = rows.take(np.sort(np.random.default_rng(seed).permutation(len(rows))[:n_rows]))
    known = pd.DataFrame({"event": rows.is_event.astype(int), "duration": np.log1p(rows.lifetime_s)})
    return SurvivalBoost(random_state=seed, show_progressbar=False, **settings).fit(_features(rows), known), axis


def curves(model: Any, axis: Axis, rows: Examples) -> HazardTable:
    """Hazards of the axis from its survival at the edges."""
    edges = np.log1p(axis.intervals.edges)
    parts = [model.predict_survival_function(_features(rows.take(np.arange(at, min(at + N_AT_ONCE, len(rows))))), edges)
             for at in range(0, len(rows), N_AT_ONCE)]
    survival = np.clip(np.concatenate(parts), 1e-6, 1.0)
    survival[:, 0] = 1.0
    hazards = -np.diff(np.log(np.minimum.accumulate(survival, axis=1)), axis=1)
    return axis.table(np.minimum(hazards, HAZARD_TOP), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="READER=PATH")
    parser.add_argument("--family", action="append", choices=tuple(LIFETIME_MODELS))
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--iterations", type=int, default=50)
    asked = parser.parse_args()
    config, trace = of_file(asked.trace)
    _, split, settings = learning(config, trace)
    for name in asked.family or ("hazard", "blend"):
        began = time.perf_counter()
        model = LIFETIME_MODELS[name]().fit(split.train, split.valid, split.past, settings)
        settings = replace(settings, fitted={**settings.fitted, name: model})
        score = BrierOverAges.of(model.curve_table(split.test), split.test).score()
        print(f"{name:16}{score:8.4f}{time.perf_counter() - began:8.0f} s", flush=True)
    began = time.perf_counter()
    boost, axis = boosted(split.past, asked.rows, config.seed, n_iter=asked.iterations, ipcw_strategy="kaplan-meier")
    print(f"fitted in {time.perf_counter() - began:.0f} s", flush=True)
    score = BrierOverAges.of(curves(boost, axis, split.test), split.test).score()
    print(f"{'survival-boost':16}{score:8.4f}{time.perf_counter() - began:8.0f} s")


if __name__ == "__main__":
    main()
