"""How far held exits lie from the hazard curve's closed form: what the simulator's sampling of curves costs.

A scheduler that asks the predictor gets the closed form at any uptime; the simulator holds a predicted exit from one
sampling uptime to the next. Both are asked at random ages among requests still alive.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.flows.placement.predictors import held_curves
from sojourn.models import FitSettings
from sojourn.models.lifetime import HazardModel

N_ASKED = 20_000


def main() -> None:
    """Train on a synthetic trace, compare both answers, print a table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(".sojourn/studies/held_exits.json"))
    out = parser.parse_args().out
    trace = synthesize(30_000, seed=0)
    encoder = default_encoder(trace)
    split = split_by_time(build_rows(trace, encoder))
    model = HazardModel().fit(split.train, split.valid, split.past, FitSettings(backoff_keys(encoder)))
    table = model.curve_table(split.test)
    curves = held_curves(table)
    rng = np.random.default_rng(0)
    row = rng.integers(0, len(split.test), N_ASKED)
    uptime_s = np.floor(split.test.lifetime_s[row] * rng.random(N_ASKED))
    exact_s = np.maximum(table.take(row).remaining(uptime_s), 1.0)
    held_s = np.array([curves.total_at(int(one), int(age)) - int(age)
                       for one, age in zip(row, uptime_s, strict=True)], np.float64)
    distance = np.abs(np.log10(held_s / exact_s))
    late = np.quantile(distance, (0.5, 0.9, 0.99)).tolist()
    found = {"n_asked": N_ASKED, "n_sampling_uptimes": len(table.held_uptimes()), "median_log10": late[0],
             "p90_log10": late[1], "p99_log10": late[2], "mean_log10": float(distance.mean())}
    print("|log10(held remaining / closed form)|, lower is nearer")
    for name, value in found.items():
        print(f"{name:<20}{value:>10.4g}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1) + "\n")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
