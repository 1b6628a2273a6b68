"""FGD's own experiment: pods come until they ask for 130 % of the GPUs, and none ends or is tried again (USENIX ATC
2023, section 6.2). What share of the GPUs is allocated, by policy.

    python -m studies inflation FOLDER [--lists NAME ...] [--seeds N]

FOLDER has openb_node_list_gpu_node.csv.gz, 1,213 nodes with 6,212 GPUs, and openb_pod_list_NAME.csv.gz. Each seed
shuffles the list; if it asks for too little, further pods are drawn from it. The six policies are those of the
experiment, and open-fgd is ours. Random, dot-product, clustering, packing and best fit over CPU and GPU follow the
published scores, which are whole percent; of hosts with one score the first is taken (drawn ones leave 2 % more of the
GPUs unallocated with packing than was published).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.progress import track

import sojourn.simulator as sim
from sojourn.simulator import Cluster, Hooks, Policy, Request, kernel
from sojourn.simulator.cluster import WHOLE_GPU
from sojourn.simulator.engine.world import Prepared, prepared
from sojourn.simulator.loop.state import World
from sojourn.simulator.policies.baselines import draw, unchanged
from sojourn.simulator.policies.fgd import MIX_SHARE, useless

LISTS = ("default", "cpu250", "gpushare100", "gpuspec33", "multigpu50")
UNTIL = 1.3
"""The GPUs that pods ask for, over those that exist."""
EARLIER = 0.8
"""When fragments are measured; later nearly all that is free is of no use, under each policy."""
MAX_CORES, MAX_GPUS = 128_000.0, 8_000.0
"""The largest node, as the published scores divide by it; thousandths."""
N_TAGS = 9
"""A share of a GPU, and 1 to 8 whole ones."""


@kernel
def gpu_of(cluster: Cluster) -> int:
    """Index of the GPUs among the resources."""
    return cluster.gpu_dimension[0] if len(cluster.gpu_dimension) > 0 else 0


@kernel
def draw_gpu(cluster: Cluster, host: int, request: Request, gpu: int) -> float:
    """A GPU of the host at random."""
    return draw(cluster, host + gpu * cluster.capacity.shape[0], request, 0)


class TagState(NamedTuple):
    """idx_cpu: int64 (1,), index of the cores. n_of: int64 (n_hosts, N_TAGS), requests of each tag on each host.
    tag_of: int64 (n_requests,), the tag of each, -1 = no GPU."""

    idx_cpu: np.ndarray
    n_of: np.ndarray
    tag_of: np.ndarray


def tag_state(n_hosts: int, n_requests: int) -> TagState:
    """Empty hosts."""
    return TagState(np.zeros(1, np.int64), np.zeros((n_hosts, N_TAGS), np.int64), np.full(n_requests, -1))


@kernel
def tag(cluster: Cluster, request: Request) -> int:
    """0 = a share of a GPU, k = k whole ones, -1 = none."""
    milli = request.need[gpu_of(cluster)]
    return -1 if milli == 0 else milli // WHOLE_GPU


@kernel
def placed(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """Count it."""
    own = tag(cluster, request)
    cluster.state.tag_of[request.row] = own
    if own >= 0:
        cluster.state.n_of[host, own] += 1


@kernel
def departed(cluster: Cluster, host: int, row: int, now: int) -> None:
    """Count it no more."""
    own = cluster.state.tag_of[row]
    if own >= 0:
        cluster.state.n_of[host, own] -= 1


@kernel
def free_share(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Best fit: what the request leaves free of the CPU and the GPUs, over the largest node's; their mean, %."""
    cpu, gpu = cluster.state.idx_cpu[0], gpu_of(cluster)
    return np.ceil(50.0 * ((cluster.free[host, cpu] - request.need[cpu]) / MAX_CORES
                           + (cluster.free[host, gpu] - request.need[gpu]) / MAX_GPUS))


@kernel
def dot_product(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """What is free times what is asked for, of CPU and GPU over the largest node's; their mean, %: less is better."""
    cpu, gpu = cluster.state.idx_cpu[0], gpu_of(cluster)
    return np.ceil(50.0 * (cluster.free[host, cpu] / MAX_CORES * request.need[cpu] / MAX_CORES
                           + cluster.free[host, gpu] / MAX_GPUS * request.need[gpu] / MAX_GPUS))


@kernel
def clustering(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Hosts that hold only requests of as many GPUs, then also such ones, then none with GPUs, then others; of alike
    ones the least free GPUs. 0 for a request without GPUs."""
    own, n_kinds = tag(cluster, request), 0
    if own < 0:
        return 0.0
    for other in range(N_TAGS):
        n_kinds += cluster.state.n_of[host, other] > 0
    rank = 2 if n_kinds == 0 else 3
    if cluster.state.n_of[host, own] > 0:
        rank = 0 if n_kinds == 1 else 1
    return 25 * rank + np.ceil(25 * cluster.free[host, gpu_of(cluster)] / MAX_GPUS)


@kernel
def packing(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """GPUs in use, the fullest first; then free ones of hosts in use, few first; then hosts whose GPUs are all free,
    few first. 0 for a request without GPUs."""
    milli, free = request.need[gpu_of(cluster)], cluster.gpu_free
    if milli == 0:
        return 0.0
    n_free, fullest = 0, WHOLE_GPU
    for gpu in range(free.shape[1]):
        n_free += free[host, gpu] == WHOLE_GPU
        if free[host, gpu] >= milli:
            fullest = min(fullest, free[host, gpu])
    if WHOLE_GPU * n_free == cluster.capacity[host, gpu_of(cluster)]:
        return 67.0 + n_free
    if milli < WHOLE_GPU and fullest < WHOLE_GPU:
        return np.floor(fullest / 100.0)
    return 50.0 + max(milli // WHOLE_GPU, 1)


_TAGS = Hooks(tag_state, placed, departed, unchanged)
POLICIES = {
    "random": Policy("random-gpu", (draw,), gpu_score=draw_gpu),
    "dot-product": Policy("dot-product", (dot_product,), hooks=_TAGS),
    "clustering": Policy("clustering", (clustering,), hooks=_TAGS),
    "packing": Policy("packing", (packing,), hooks=_TAGS),
    "best-fit": Policy("gpu-best-fit", (free_share,), hooks=_TAGS),
    "fgd": sim.POLICIES["fgd"],
    "open-fgd": sim.POLICIES["open-fgd"],
}
"""By the name in the table."""


def workload(nodes: pd.DataFrame, pods: pd.DataFrame, seed: int) -> sim.Workload:
    """Pods in the order of a seed, one each second, that never end, until they ask for UNTIL of the GPUs."""
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(len(pods)), rng.integers(len(pods), size=20 * len(pods))])
    asked = (pods["num_gpu"] * pods["gpu_milli"]).to_numpy()[order].cumsum()
    order = order[:int(np.searchsorted(asked, UNTIL * WHOLE_GPU * nodes["gpu"].sum())) + 1]
    own = pods.iloc[order]
    has_gpu = (own["num_gpu"] > 0).to_numpy()
    spec = own["gpu_spec"] if "gpu_spec" in own else pd.Series(np.nan, own.index)
    requests = pd.DataFrame({
        "request_id": range(len(own)), "arrival_s": range(len(own)), "departure_s": pd.NA,
        "cpu_cores": own["cpu_milli"].to_numpy() / 1000, "mem_gib": own["memory_mib"].to_numpy() / 1024,
        "gpu": np.where(has_gpu, own["num_gpu"] * own["gpu_milli"] / WHOLE_GPU, 0.0),
        "model": spec.where(spec.notna(), None).to_numpy(dtype=object)})
    hosts = pd.DataFrame({
        "host_id": nodes["sn"], "cpu_cores": nodes["cpu_milli"] / 1000, "mem_gib": nodes["memory_mib"] / 1024,
        "gpu": nodes["gpu"].astype(float), "model": nodes["model"]})
    trace = sim.Trace(requests.astype({"arrival_s": "Int64", "departure_s": "Int64"}), len(own) + 1)
    return sim.Workload("inflation", trace, hosts, np.full(len(own), 2 * len(own)),
                        constraints=sim.Constraints(host_type="model"))


def replayed(given: sim.Workload, policy: Policy, stop_row: int = -1) -> Prepared:
    """The replay, up to before a row or whole."""
    replay = prepared(given, policy, sim.Oracle(given), is_ranked=None, upkeep=(), migration=sim.Migration(),
                      is_checked=False, stop_row=stop_row)
    replay.run()
    return replay


def fragments(world: World) -> float:
    """The share of the free GPUs that is of no use to the mix, %: `fgd`'s measure, over the mix of all requests."""
    shapes, counts = np.unique(world.need, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    order = order[:int(np.searchsorted(counts[order].cumsum(), MIX_SHARE * counts.sum())) + 1]
    none = np.zeros(shapes.shape[1], np.int64)
    lost = [sum(useless(world.cluster, host, shapes[k], none, 0, -1) for host in range(len(world.cluster.free)))
            for k in order]
    return float(100 * np.average(lost, weights=counts[order]) / world.cluster.gpu_free.sum())


def measured(given: sim.Workload, policy: Policy) -> tuple[float, float, float]:
    """GPUs that are allocated when pods have asked for all, and for UNTIL of them, %; `fragments` at EARLIER, %."""
    asked, total = given.trace.requests["gpu"].to_numpy(), given.hosts["gpu"].sum()
    host = replayed(given, policy).world.requests["first_host"]
    got = 100 * np.where(host >= 0, asked, 0.0).cumsum() / total
    early, at_all = np.searchsorted(asked.cumsum(), [EARLIER * total, total])
    return float(got[at_all]), float(got[-1]), fragments(replayed(given, policy, int(early)).world)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lists", nargs="+", default=list(LISTS), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=10, metavar="N")
    options = parser.parse_args()
    nodes = pd.read_csv(options.folder / "openb_node_list_gpu_node.csv.gz")
    for name in options.lists:
        pods = pd.read_csv(options.folder / f"openb_pod_list_{name}.csv.gz")
        drawn = [workload(nodes, pods, seed) for seed in range(options.seeds)]
        print(f"{name}: {len(pods)} pods, {len(drawn[0].trace)} come\n  GPUs allocated, %: mean (sd over orders)")
        print(f"  {'policy':<14}{'all asked for':>16}{'130 % asked for':>18}{'of free at 80 %, useless':>26}")
        for policy, rules in track(POLICIES.items(), name, transient=True):
            found = np.array([measured(own, rules) for own in drawn])
            mean, sd = found.mean(axis=0), found.std(axis=0, ddof=min(len(drawn) - 1, 1))
            print(f"  {policy:<14}" + "".join(f"{a:>{width}.2f} ({b:.2f})"
                                              for a, b, width in zip(mean, sd, (9, 11, 19), strict=True)))


if __name__ == "__main__":
    main()
