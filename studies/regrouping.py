"""What the groups of classes of DVLA's placement are worth where owners' habits drift, and what updating them is.

    python -m studies regrouping [--n-requests 60000] [--days 84] [--seeds 0 1 2 3 4] [--drift none step:3 ...]

Of a synthetic trace the first third is learnt from (km) and the rest replayed, 28 days in; the drift begins half way
through the rest. All readings take dapp-weighted's classes and tags and differ in the groups alone: none, the first
one for good, algorithm 1 with the 14 days of the paper's figure 9, a timer of 28 days, and one of a day, whose group
is that of the day before. Differences of empty hosts to the reading with the first group for good, percentage points,
paired, with 95 % t-intervals over the seeds; and at how many seeds any placement differs.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

import sojourn.simulator as sim
from sojourn.features.synthetic import Drift, synthesize
from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.settings.retrain import load_config
from sojourn.simulator.measures import interval_text, signed_text
from studies.later_parts import later_parts

WINDOW_DAYS = 14
READINGS = {
    "first group for good": sim.GroupRules("timer", timer_days=100_000, window_days=WINDOW_DAYS),
    "no groups": sim.GroupRules("off"),
    "algorithm 1": sim.GroupRules("algorithm-1", window_days=WINDOW_DAYS),
    "timer, 28 days": sim.GroupRules("timer", timer_days=28, window_days=WINDOW_DAYS),
    "timer, every day": sim.GroupRules("timer", timer_days=1, window_days=1),
}
KEPT = "first group for good"


def drifts_of(text: str, from_day: float) -> tuple[Drift, ...]:
    shape, _, size = text.partition(":")
    if shape == "none":
        return ()
    return (Drift(shape, from_day, share=float(size)) if shape == "owners" else
            Drift(shape, from_day, factor=float(size), days=7.0),)


def replays(text: str, seed: int, n_requests: int, days: float) -> dict[tuple[str, str], sim.Result]:
    """The result of each predictor and reading, of one trace."""
    trace = synthesize(n_requests, seed=seed, days=days, drifts=drifts_of(text, days * 2 / 3))
    config = load_config(n_requests=n_requests, seed=seed, test_share=2 / 3)
    [(workload, learnt)] = later_parts(config, trace, [seed], "km")
    rules = sim.DappRules(bounds_s=(600, 3_600, 21_600, 86_400, 259_200), long_class=5, tag_rule="weighted")
    found = {}
    for predictor, source in (("oracle", sim.Oracle(workload)), ("km", learnt)):
        for name, groups in READINGS.items():
            policy = sim.dapp_policy("dapp-regrouped", replace(rules, groups=groups))
            found[predictor, name] = sim.simulate(workload, policy, source)
    print(f"  {text}, seed {seed}: {workload.description}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-requests", type=int, default=60_000)
    parser.add_argument("--days", type=float, default=84.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--drift", nargs="+", default=["none", "step:3", "step:10", "step:0.1", "owners:0.5"])
    asked = parser.parse_args()
    for text in asked.drift:
        found = [replays(text, seed, asked.n_requests, asked.days) for seed in asked.seeds]
        for predictor in ("oracle", "km"):
            for name in READINGS:
                kept, own = ([each[predictor, other] for each in found] for other in (KEPT, name))
                gains = np.array([a.metrics.empty_hosts_pct - b.metrics.empty_hosts_pct
                                  for a, b in zip(own, kept, strict=True)])
                mean, half = gains.mean(), float(t_half_width(gains[:, None])[0])
                n_differ = sum(bool((a.host != b.host).any()) for a, b in zip(own, kept, strict=True))
                empty = np.mean([each.metrics.empty_hosts_pct for each in own])
                print(f"{text:12} {predictor:7} {name:22} {empty:6.2f} %  {signed_text(mean)} "
                      f"[{interval_text(mean - half, mean + half, between=', ')}]  "
                      f"differs at {n_differ} of {len(own)} seeds",
                      flush=True)


if __name__ == "__main__":
    main()
