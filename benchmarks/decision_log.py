"""What logging its decisions, and a shadow, add to a predictor's admissions; and the bytes that a decision takes.

    python benchmarks/decision_log.py [PATH.json] [--admissions 6000] [--rate 2000] [--runs 5]

Synthetic requests in their order of arrival, a hazard model of the default size. Predictors without a log, with one,
and with one and a shadow take turns; each admits and ends the same requests, at most `rate` a second, as a scheduler
has other work between two. "back to back" admits without a pause, where the log's thread and the caller share one
interpreter. Microseconds of `admit`; ratios are to the predictor without a log.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.synthetic import synthesize
from sojourn.flows.retrain.train import fit_family, windows
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.models import FitSettings, write_bundle
from sojourn.models.measures import choose_threshold
from sojourn.serving import Predictor
from sojourn.serving.inputs import HistoryState

N_TRACE = 20_000
N_RUNNING = 100


def made_bundle(folder: Path) -> tuple[Path, list[dict[str, Any]], int]:
    """A bundle of the synthetic trace, its requests in order, and the trace's end."""
    trace = synthesize(N_TRACE, seed=0)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    rows = build_rows(trace, encoder, history)
    split = windows(rows, RetrainConfig().test_share, RetrainConfig().valid_share)
    fitted = fit_family("hazard", split, FitSettings(backoff_keys(encoder), 1, 0, names=rows.names),
                        choose_threshold(split.train))
    exported = fitted.model.export()
    if exported is None:
        raise ValueError("the hazard model must be servable")
    last = trace.requests.iloc[rows.idx_request]
    requests = [dict(zip(encoder.columns(), values, strict=True))
                for values in last[list(encoder.columns())].astype(object).itertuples(index=False)]
    return write_bundle(folder, "hazard", exported, encoder, history, {}), requests, trace.horizon_s


def admissions_us(predictor: Predictor, requests: list[dict[str, Any]], now_s: int, gap_s: float) -> np.ndarray:
    """Microseconds of each admission, float64 (n,); requests end in the order in which they came."""
    times, running = np.empty(len(requests)), []
    due_s = time.perf_counter()
    for idx, request in enumerate(requests):
        if gap_s:
            due_s += gap_s
            while (left_s := due_s - time.perf_counter()) > 0.0:
                time.sleep(left_s)
        started = time.perf_counter()
        vm = predictor.admit(request, now_s + idx, request_id=None)
        times[idx] = (time.perf_counter() - started) * 1e6
        running.append(vm)
        if len(running) > N_RUNNING:
            predictor.ended(running.pop(0), now_s + idx)
    for vm in running:
        predictor.withdraw(vm)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=Path(".sojourn/benchmarks/decision_log.json"))
    parser.add_argument("--admissions", type=int, default=6_000)
    parser.add_argument("--rate", type=float, default=2_000.0)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as root:
        folder, requests, now_s = made_bundle(Path(root) / "bundle")
        requests = requests[:asked.admissions]
        other = Path(shutil.copytree(folder, Path(root) / "other"))
        predictors = {"no log": Predictor.load(folder), "log": Predictor.load(folder),
                      "log and shadow": Predictor.load(folder, shadow=other)}
        for name in ("log", "log and shadow"):
            predictors[name].log_to(Path(root) / name)
        for pace, gap_s in (("paced", 1.0 / asked.rate), ("back to back", 0.0)):
            found: dict[str, list[np.ndarray]] = {name: [] for name in predictors}
            for run in range(asked.runs):
                for name, predictor in predictors.items():
                    found[name].append(admissions_us(predictor, requests, now_s + run * len(requests), gap_s))
                    predictor.flush_decisions()
            for name, runs in found.items():
                values = {share: statistics.median(float(np.quantile(each, share)) for each in runs)
                          for share in (0.5, 0.9, 0.99, 0.999)}
                figures.append({"pace": pace, "predictor": name, **{f"p{share:g}_us": value
                                                                    for share, value in values.items()}})
        counters = {name: predictor.counters for name, predictor in predictors.items()}
        for predictor in predictors.values():
            predictor.stop_logging()
        n_bytes = {name: sum(path.stat().st_size for path in (Path(root) / name).iterdir())
                   / counters[name]["decisions_logged"] for name in ("log", "log and shadow")}
        lost = sum(each["decisions_lost"] + each["log_errors"] + each["shadow_errors"] for each in counters.values())
    print(f"{'pace':<14}{'predictor':<16}{'p50':>8}{'p90':>8}{'p99':>8}{'p99.9':>9}{'p50 / no log':>14}")
    for one in figures:
        base = next(each for each in figures if each["pace"] == one["pace"] and each["predictor"] == "no log")
        print(f"{one['pace']:<14}{one['predictor']:<16}{one['p0.5_us']:>8.1f}{one['p0.9_us']:>8.1f}"
              f"{one['p0.99_us']:>8.1f}{one['p0.999_us']:>9.1f}{one['p0.5_us'] / base['p0.5_us']:>14.2f}")
    print("bytes a decision, its end and its share of all else included: "
          + ", ".join(f"{name} {value:.0f}" for name, value in n_bytes.items()) + f"; lost or failed {lost}")
    document = {"figures": figures, "bytes": n_bytes, "lost": lost, "n_cpu": os.cpu_count(),
                "python": platform.python_version(), "load_average": os.getloadavg()[0]}
    asked.path.parent.mkdir(parents=True, exist_ok=True)
    asked.path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
