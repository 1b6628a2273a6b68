"""What `joint-fit` and `aligned-fit` gain over NILAS, LAVA and nilas-expected, and what each of their parts is worth.

    python -m studies own-policy [synthetic] [READER=PATH ...] [--n-requests 100000] [--seeds 10 ...]
        [--arrangements 10] [--readings] [--cores 96] [--mem 384] [--json PATH.json]
    python -m studies own-policy --gap [--n-requests 60000] [--seeds 0 1 2 3 4]

The hazard model learns from the earlier 70 % of a trace and places the rest. On the synthetic trace each seed is a
trace with a model of its own (mean of 3 replicas), on others each seed is a replica (flows/placement/workloads.py): the
same requests, slightly moved. With `--arrangements N` each of N seeds is a new arrangement instead: of openb other
shifts of the recipe's ten copies, of synthetic another trace, one replay each; a log has only one. `--readings` replays
the readings of LAVA (studies/policies/one_rule_changed.py) instead of ours. Gains are percentage points of empty hosts
over best-fit, paired, with 95 % t-intervals over the seeds; the columns on the right are differences to nilas, lava and
nilas-expected with the same predictor. `--gap` replays whole synthetic traces with the oracle and with flawed ones, and
prints shares of the gap between best-fit and the bound.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import t

import sojourn.simulator as sim
from sojourn.features.synthetic import synthesize, synthesize_with_truth
from sojourn.flows.placement.predictors import truth_source
from sojourn.flows.placement.workloads import replica
from sojourn.flows.settings.retrain import load_config
from sojourn.simulator import PACKING, Cluster, Policy, Request
from sojourn.simulator.measures import interval_text, signed_text
from sojourn.simulator.policies import free_share_left
from sojourn.simulator.policies.joint import SCALE_S
from sojourn.simulator.policies.nilas import expected_extension
from studies.later_parts import later_parts, of_file
from studies.policies import VARIANTS

N_SYNTHETIC_REPLICAS = 3
OTHERS = ("nilas", "lava", "nilas-expected")
READINGS: tuple[str | Policy, ...] = (
    *(VARIANTS[name] for name in (
        "lava-any-class", "lava-95", "lava-from-opening", "lava-soft", "lava-soft-expected", "lava-soft-joint")),
    "joint-fit")


@sim.kernel
def mean_cost(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """joint-fit by the mean's overhang: without the whole distribution."""
    host_left_s = 0 if cluster.n_running[host] == 0 else cluster.exit_s[host] - now
    extension_s = max(request.exit_s - now - host_left_s, 0)
    return math.log1p(extension_s / SCALE_S) + free_share_left(cluster, host, request, 0)


@sim.kernel
def linear_cost(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """joint-fit without the logarithm, which is aligned-fit without alignment."""
    return expected_extension(cluster, host, request, now) / SCALE_S + free_share_left(cluster, host, request, 0)


ABLATIONS = (
    Policy("- fit (extension alone)", (expected_extension, *PACKING), predictions="current"),
    Policy("- distribution (mean)", (mean_cost, *PACKING), predictions="current"),
    Policy("- logarithm (linear)", (linear_cost, *PACKING), predictions="current"),
)
Sources = Mapping[str, sim.LifetimeSource]


def synthetic_groups(n_requests: int, seeds: list[int],
                     n_replicas: int) -> Iterator[list[tuple[sim.Workload, Sources]]]:
    """Per seed, the replicas of one synthetic trace, each with its sources."""
    for seed in seeds:
        trace, mixtures = synthesize_with_truth(n_requests, seed=seed)
        [(workload, live)] = later_parts(load_config(n_requests=n_requests, seed=seed), trace, [seed])
        sources = {"hazard": live, "truth": truth_source(trace, mixtures)}
        yield [(replica(workload, moved), sources) for moved in range(n_replicas)]


def file_groups(spec: str, seeds: list[int], cores: float, mem: float) -> Iterator[list[tuple[sim.Workload, Sources]]]:
    """Per seed, one replica of a trace that stands in files."""
    config, trace = of_file(spec, host_cpu_cores=cores, host_mem_gib=mem)
    [(workload, live)] = later_parts(config, trace, [config.seed])
    for seed in seeds:
        yield [(replica(workload, seed), {"hazard": live})]


def arranged_groups(spec: str, seeds: list[int]) -> Iterator[list[tuple[sim.Workload, Sources]]]:
    """Per seed, another arrangement of openb's later pods, all placed with the one model of the earlier ones."""
    if not spec.startswith("openb="):
        raise SystemExit(f"arrangements must be of synthetic or openb=PATH, since a log has only one, got {spec!r}")
    config, trace = of_file(spec)
    for workload, live in later_parts(config, trace, seeds):
        yield [(workload, {"hazard": live})]


def gains(workload: sim.Workload, sources: Sources,
          policies: Sequence[str | Policy]) -> dict[tuple[str, str], tuple[float, int]]:
    """Gain over best-fit of each policy and predictor, pp, and the requests that it rejected."""
    base = sim.simulate(workload).metrics.empty_hosts_pct
    found = {}
    made: Sources = {"oracle": sim.Oracle(workload), "noise 1": sim.NoisyOracle(workload, 1.0)}
    for predictor, source in {**sources, **made}.items():
        for policy in (*OTHERS, *policies):
            result = sim.simulate(workload, policy, source)
            found[predictor, result.policy] = (result.metrics.empty_hosts_pct - base, result.metrics.n_rejected)
    return found


def interval(values: np.ndarray) -> str:
    """Mean and 95 % t-interval."""
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{signed_text(values.mean())} [{interval_text(values.mean() - half, values.mean() + half, between=', ')}]"


def measure(groups: Iterator[list[tuple[sim.Workload, Sources]]],
            policies: Sequence[str | Policy]) -> dict[str, dict[str, list[float]]]:
    """Prints the table of one trace; gains by predictor and policy, one a seed."""
    rows, told = [], ""
    for group in groups:
        each = [gains(workload, sources, policies) for workload, sources in group]
        rows.append({key: np.mean([one[key] for one in each], axis=0) for key in each[0]})
        if group[0][0].description != told:
            told = group[0][0].description
            print(f"  {told}", flush=True)
    table: dict[str, dict[str, list[float]]] = {}
    for predictor, policy in rows[0]:
        values = {name: np.array([row[predictor, name][0] for row in rows]) for name in (policy, *OTHERS)}
        n_rejected = sum(row[predictor, policy][1] for row in rows)
        differences = "".join(f"{interval(values[policy] - values[name]):>24}" for name in OTHERS if name != policy)
        shown = differences if policy not in OTHERS else ""
        rejected = f"  ({n_rejected:g} rejected)" if n_rejected else ""
        print(f"{predictor:>8} {policy:<24}{interval(values[policy]):>24}  {shown}{rejected}")
        table.setdefault(predictor, {})[policy] = values[policy].tolist()
    return table


def measure_gap(n_requests: int, seeds: list[int]) -> dict[str, dict[str, list[float]]]:
    """Prints the shares of the gap between best-fit and the bound that policies close with oracles, true or flawed."""
    shares: dict[str, dict[str, list[float]]] = {}
    hosts = []
    for seed in seeds:
        workload = sim.build_workload("synthetic", synthesize(n_requests, seed=seed))
        base = sim.simulate(workload)
        gap = base.bound_empty_hosts_pct - base.metrics.empty_hosts_pct
        hosts.append(len(workload.hosts))
        sources: Sources = {
            "oracle": sim.Oracle(workload), "noise 0.3": sim.NoisyOracle(workload, 0.3, seed),
            "noise 1": sim.NoisyOracle(workload, 1.0, seed), "recall 0.95": sim.LongAsShort(workload, 0.95, seed=seed)}
        for predictor, source in sources.items():
            for policy in ("nilas", "lava", "joint-fit", "aligned-fit"):
                found = sim.simulate(workload, policy, source).metrics.empty_hosts_pct
                of_policy = shares.setdefault(predictor, {}).setdefault(policy, [])
                of_policy.append(100 * (found - base.metrics.empty_hosts_pct) / gap)
    print(f"{n_requests:,} requests on {hosts} hosts; % of the gap")
    for predictor, table in shares.items():
        for policy, values in table.items():
            print(f"{predictor:>12} {policy:<14}{interval(np.array(values)):>26}")
    return shares


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", default=["synthetic"])
    parser.add_argument("--n-requests", type=int, default=100_000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12, 13, 14])
    parser.add_argument("--arrangements", type=int, default=0)
    parser.add_argument("--readings", action="store_true")
    parser.add_argument("--cores", type=float, default=96.0)
    parser.add_argument("--mem", type=float, default=384.0)
    parser.add_argument("--gap", action="store_true")
    parser.add_argument("--json", type=Path, default=Path(".sojourn/studies/own_policy.json"))
    asked = parser.parse_args()
    results = {}
    policies: Sequence[str | Policy] = READINGS if asked.readings else ("joint-fit", "aligned-fit", *ABLATIONS)
    for spec in asked.traces:
        print(spec)
        if asked.gap:
            results[spec] = measure_gap(asked.n_requests, asked.seeds)
        elif spec == "synthetic":
            seeds = list(range(asked.arrangements)) or asked.seeds
            n_replicas = 1 if asked.arrangements else N_SYNTHETIC_REPLICAS
            results[spec] = measure(synthetic_groups(asked.n_requests, seeds, n_replicas), policies)
        elif asked.arrangements:
            results[spec] = measure(arranged_groups(spec, list(range(asked.arrangements))), policies)
        else:
            results[spec] = measure(file_groups(spec, asked.seeds, asked.cores, asked.mem), policies)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
