"""A monitor on real requests: trained on a trace's earlier part, its decisions on the later part logged and judged.

    python -m studies monitor-replay STORE [--trace PATH --reader NAME] [--alias challenger] [--shadow BUNDLE]

STORE holds a model of this trace (`sojourn train --store STORE ...`). The earlier part is replayed through the
predictor without a log, so that its history is that of the moment; the later part with one. Requests are decided when
they are submitted and end by their own records. The log and the report stay in STORE/monitored.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.features import Trace
from sojourn.features.readers import read_trace
from sojourn.features.synthetic import synthesize
from sojourn.flows.settings.other_jobs import MonitorConfig
from sojourn.flows.settings.retrain import load_config
from sojourn.flows.tracking.pull import ModelUri, find_version
from sojourn.flows.versions.promotion import fetched, read_store
from sojourn.serving import Lifetime, Predictor

N_FLUSHED = 5_000


def replay(trace: Trace, predictor: Predictor, folder: Path, from_s: int) -> dict[str, int]:
    """Replay a trace, with a log from `from_s` on; returns the predictor's counters. Ends come first in a second."""
    table = trace.requests
    columns = list(predictor.encoder.columns())
    known = np.flatnonzero(trace.is_start_known())
    start_s, end_s, is_event = trace.start_s(), trace.end_s(), trace.is_event()
    decided_s = (table["submit_s"].to_numpy(np.int64) if "submit_s" in table else start_s)
    requests = table[columns].astype(object).to_numpy()
    ids = table["request_id"].astype(str).tolist()
    events = [(int(decided_s[idx]), 1, int(idx)) for idx in known]
    events += [(int(end_s[idx]), 0, int(idx)) for idx in known if is_event[idx]]
    running: dict[int, Lifetime] = {}
    is_logged = False
    in_order = sorted(events, key=lambda event: (event[0], event[1] or 2 * (start_s[event[2]] >= event[0])))
    for n_told, (time_s, kind, idx) in enumerate(in_order):
        if n_told % N_FLUSHED == 0:  # a replay is faster than any scheduler: the queue would overflow
            predictor.flush_decisions()
        if not is_logged and time_s >= from_s:
            predictor.log_to(folder)
            is_logged = True
        if kind:
            request: dict[str, Any] = {column: None if value is None or value != value else value
                                       for column, value in zip(columns, requests[idx], strict=True)}
            running[idx] = predictor.admit(request, time_s, request_id=ids[idx])
        elif idx in running:
            predictor.ended(running.pop(idx), time_s, arrival_s=max(int(start_s[idx]), int(decided_s[idx])))
    predictor.stop_logging()
    return predictor.counters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--reader", default="synthetic")
    parser.add_argument("--n-requests", type=int, default=20_000)
    parser.add_argument("--alias", default="champion")
    parser.add_argument("--shadow", type=Path)
    parser.add_argument("--as-of", type=int, dest="as_of_s")
    parser.add_argument("--from-log", action="store_true", help="take the ends in the log")
    asked = parser.parse_args()
    trace = synthesize(asked.n_requests, seed=0) if asked.trace is None else read_trace(asked.reader, asked.trace)[0]
    config = load_config(store=asked.store, trace=asked.trace, reader=asked.reader)
    tracker = read_store(config)
    folder = asked.store / "monitored"
    shutil.rmtree(folder, ignore_errors=True)
    name = config.registered_name
    version = find_version(tracker, ModelUri(name, asked.alias, None))
    with fetched(tracker, asked.store, name, version) as bundle:
        predictor = Predictor.load(bundle, is_history_kept=False, shadow=asked.shadow)
    from_s = int(predictor.info()["training"]["to_s"])
    started = time.perf_counter()
    counters = replay(trace, predictor, folder, from_s)
    print(f"replayed in {time.perf_counter() - started:.1f} s; logged {counters['decisions_logged']:,}, lost "
          f"{counters['decisions_lost']}; {sum(path.stat().st_size for path in folder.iterdir()):,} bytes")
    outcomes = {} if asked.from_log or asked.trace is None else {"trace": asked.trace, "reader": asked.reader}
    settings = MonitorConfig(store=asked.store, model_name=name, log=folder, alias=asked.alias, as_of_s=asked.as_of_s,
                             **outcomes)
    from sojourn.flows.monitor.job import monitor

    started = time.perf_counter()
    found = monitor(settings)
    print(f"monitored in {time.perf_counter() - started:.1f} s")
    for week in found.weeks:
        scores = ", ".join(f"{name} {value:.3g}" for name, value in week.scores.items())
        print(f"week {week.number}: {week.n:,} decided, {week.n_ended:,} ended, {week.wait or 'judged'}: {scores}")
    print({name: number for name, number in found.counts.items() if number})
    print(() if found.check is None else found.check.alarms)


if __name__ == "__main__":
    main()
