"""A policy chosen on a trace's past: does what gained most there gain in the later part, too?

    python -m studies policy-choice [synthetic:SEED ...] [READER=PATH ...] [--seeds 5] [--budget 5] [--json FILE]

The past is the trace as it was known when its later part (the test window of `retrain`) begins. Of the past the earlier
part is learnt from and the later one placed, as `retrain` does with the whole trace. Taken is the candidate with the
highest mean gain there: best-fit, nilas-expected, joint-fit or joint-exact, each with `value`. A seed is a small move
of the trace, of openb another arrangement as well, and other requests that can't migrate. Then the whole trace, other
seeds: gains in empty hosts over best-fit without migrations, of the one taken, of the best there, and of DVLA (dapp
with pdre); percentage points, with 95 % t-intervals over the seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sojourn.simulator as sim
from sojourn.features import Trace
from sojourn.flows.placement.workloads import replica
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.simulator.measures import signed_text
from studies.dvla_tables import interval, print_table
from studies.later_parts import known_by, later_from_s, later_parts, of_name

CANDIDATES = ("best-fit", "nilas-expected", "joint-fit", "joint-exact")
DVLA = "dapp"


def gains(config: RetrainConfig, trace: Trace, seeds: Sequence[int], budget: int,
          policies: Sequence[str]) -> dict[str, np.ndarray]:
    """Gain of each policy with its rectifier over best-fit without migrations, pp, by seed; higher is better."""
    found: dict[str, list[float]] = {policy: [] for policy in policies}
    for seed, (drawn, source) in zip(seeds, later_parts(config, trace, seeds), strict=True):
        workload = replica(drawn, seed)
        still = sim.simulate(workload, "best-fit").metrics.empty_hosts_pct
        for policy in policies:
            rectify = sim.Rectify("pdre" if policy == DVLA else "value", budget, seed=seed)
            result = sim.simulate(workload, policy, source, rectify=rectify)
            found[policy].append(result.metrics.empty_hosts_pct - still)
    return {policy: np.array(values) for policy, values in found.items()}


def best_of(gain: dict[str, np.ndarray]) -> str:
    """The policy with the highest mean; the first of several."""
    return max(gain, key=lambda policy: float(gain[policy].mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows, record = [], []
    for name in given.traces:
        config, trace = of_name(name)
        past = gains(config, known_by(trace, later_from_s(config, trace)), range(100, 100 + given.seeds), given.budget,
                     CANDIDATES)
        taken = best_of(past)
        later = gains(config, trace, range(given.seeds), given.budget, (*CANDIDATES, DVLA))
        best = best_of({policy: later[policy] for policy in CANDIDATES})
        title = name if config.trace is None else config.trace.stem
        rows.append((title, *(interval(past[policy]) for policy in CANDIDATES), taken, interval(later[taken]),
                     f"{best} {signed_text(later[best].mean())}", interval(later[taken] - later[DVLA])))
        record.append(_record(title, past, taken, later))
        print(rows[-1], flush=True)
        if given.json:
            given.json.write_text(json.dumps(record, indent=1) + "\n")
    print_table("Chosen on the past, pp", ("", *(f"past, {policy}" for policy in CANDIDATES), "taken",
                                           "later, taken", "later, best", "later, taken less DVLA"), rows)


def _record(title: str, past: dict[str, np.ndarray], taken: str, later: dict[str, np.ndarray]) -> dict[str, Any]:
    return {"trace": title, "past": {policy: values.tolist() for policy, values in past.items()}, "taken": taken,
            "later": {policy: values.tolist() for policy, values in later.items()}}


if __name__ == "__main__":
    main()
