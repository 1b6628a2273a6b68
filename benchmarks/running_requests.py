"""What a second clock and a refresh cost: first answers of a plain hazard model, of one with the second clock, and a
running request predicted anew. All in one run, in turns.

    python benchmarks/running_requests.py --trace LOG.swf.gz --reader swf [--json FILE] [--rounds 40]

Both models are fitted on the same rows of the earlier part of the trace; the plain one has no intervals of the limit.
A figure is the median over rounds of 500 calls each, on one thread; the ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.readers import READERS
from sojourn.features.refreshed import refreshed_rows
from sojourn.features.split import split_by_time
from sojourn.models import FitSettings, write_bundle
from sojourn.models.lifetime import HazardModel, fit_refresh
from sojourn.serving import Predictor
from sojourn.serving.inputs import HistoryState

N_CALLS = 500
AGE_S = 3_600


@dataclass(frozen=True)
class Cost:
    """what: the call. p50_us: its median. ratio: to the first answer of the plain hazard model. model_bytes: of the
    bundle's files."""

    what: str
    p50_us: float
    ratio: float
    bundle_bytes: int


def round_us(call: Callable[[Any], object], arguments: Sequence[Any]) -> float:
    """Microseconds a call, over one pass of the arguments."""
    started = time.perf_counter()
    for argument in arguments:
        call(argument)
    return (time.perf_counter() - started) / len(arguments) * 1e6


def main() -> None:
    """Fit, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--reader", default="swf")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/benchmarks/running_requests.json"))
    asked = parser.parse_args()
    trace, _ = READERS[asked.reader].read(asked.trace)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    rows = build_rows(trace, encoder, history)
    split = split_by_time(rows)
    settings = FitSettings(backoff_keys(encoder), names=rows.names)
    windows = (split.train, split.valid, split.past, settings)
    clocked = HazardModel().fit(*windows)
    with mock.patch("sojourn.models.lifetime.hazard.limit_place_of", lambda *_: -1):
        plain = HazardModel().fit(*windows)
    aged = refreshed_rows(trace, encoder, rows)
    anew = fit_refresh(split, aged, settings, clocked.validation_table_, encoder.history)
    latest = trace.requests.iloc[rows.idx_request[-N_CALLS:]]
    requests = [dict(zip(encoder.columns(), values, strict=True))
                for values in latest[list(encoder.columns())].astype(object).itertuples(index=False)]
    with tempfile.TemporaryDirectory() as root:
        folders = {"plain": write_bundle(Path(root) / "plain", "hazard", plain.export(), encoder, history, {}),
                   "clocked": write_bundle(Path(root) / "clocked", "hazard", clocked.export(), encoder, history, {},
                                           anew.export())}
        n_bytes = {name: sum(file.stat().st_size for file in folder.iterdir()) for name, folder in folders.items()}
        predictors = {name: Predictor.load(folder) for name, folder in folders.items()}
        now_s = trace.horizon_s
        vms = [predictors["clocked"].admit(request, now_s) for request in requests]
        calls: dict[str, tuple[Callable[[Any], object], Sequence[Any], str]] = {
            f"first answer, hazard ({len(plain.axis_.intervals.offsets)} intervals)": (
                lambda request: predictors["plain"].predict(request, now_s), requests, "plain"),
            f"first answer, {clocked.export().kind} ({len(clocked.axis_.intervals.offsets)} intervals)": (
                lambda request: predictors["clocked"].predict(request, now_s), requests, "clocked")}
        if anew.ages_s:
            calls[f"refresh (ages {', '.join(map(str, anew.ages_s))} s)"] = (
                lambda vm: predictors["clocked"].refresh(vm, now_s + max(anew.ages_s)), vms, "clocked")
        for call, arguments, _ in calls.values():
            round_us(call, arguments)
        found: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(asked.rounds):
            for name, (call, arguments, _) in calls.items():
                found[name].append(round_us(call, arguments))
    medians = {name: statistics.median(values) for name, values in found.items()}
    base = next(iter(medians.values()))
    costs = [Cost(name, round(value, 2), round(value / base, 3), n_bytes[calls[name][2]])
             for name, value in medians.items()]
    width = max(len(cost.what) for cost in costs)
    print(f"{'':<{width}}  {'p50 us':>8}  {'ratio':>6}  {'bundle MB':>9}   (lower = better)")
    for cost in costs:
        print(f"{cost.what:<{width}}  {cost.p50_us:>8.2f}  {cost.ratio:>6.3f}  {cost.bundle_bytes / 1e6:>9.2f}")
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps({"trace": asked.trace.name, "costs": [asdict(cost) for cost in costs]},
                                     indent=1) + "\n")


if __name__ == "__main__":
    main()
