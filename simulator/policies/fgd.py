"""FGD: the host where least free GPU becomes useless to the workload's own mix (Weng et al., "Beware of Fragmentation:
Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023).

A host's fragmentation is the free GPU that a request of the mix could not use, expected over the mix:
all of it if the request does not fit on the host or asks for no GPU, else the GPUs that have less
free than the request needs of one. FGD chooses the host, and for a share the GPU, where a placement
adds least to it. Without GPUs the free amount of the binding resource takes their place.

The mix: all requests that have been placed so far, so nothing of the future; its most frequent shapes
that make MIX_SHARE of them, as in the published scheduler. Its scores are whole percent; ours are
steps of 40 milli-GPU, which is the same near 0. Within a step the fewest free GPUs decide, then best fit: by best fit
alone CPU-only requests, if the cores are what binds, take the cores of free GPUs (docs/simulator/evaluations_pools.md).

fgd does not mind an empty host, so it empties fewer than best fit. open-fgd, ours, takes a host in use
before an empty one, and compares fragments among these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.simulator.cluster import WHOLE_GPU, Cluster, Request
from sojourn.simulator.policies.baselines import MOST_RESOURCES, STEPS, departed, unchanged
from sojourn.simulator.policies.policy import PACKING, Hooks, Policy, kernel, opens_host

MIX_SHARE = 0.95
MOST_SHAPES = 256
"""Later shapes are not counted once there are so many."""
STEP_MILLI = 40
OFFSET = 10_000
"""Makes scores positive: more steps than a host's GPUs have."""


class MixState(NamedTuple):
    """The mix. need: int64 (MOST_SHAPES, MOST_RESOURCES), shapes by falling count; n_of: int64, counts (MOST_SHAPES,).
    total: int64 (1,), requests counted. is_counted: int64 (n_requests,), 1 for those."""

    need: np.ndarray
    n_of: np.ndarray
    total: np.ndarray
    is_counted: np.ndarray


def mix_state(n_hosts: int, n_requests: int) -> MixState:
    """The state before the first request.

    >>> mix_state(2, 9).total.tolist()
    [0]
    """
    return MixState(np.zeros((MOST_SHAPES, MOST_RESOURCES), np.int64), np.zeros(MOST_SHAPES, np.int64),
                    np.zeros(1, np.int64), np.zeros(n_requests, np.int64))


@kernel
def is_shape(state: MixState, k: int, need: np.ndarray) -> bool:
    """Whether the k-th shape of the mix is this need."""
    for d in range(len(need)):
        if state.need[k, d] != need[d]:
            return False
    return True


@kernel
def placed(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """Count a request when it is first placed, not when it migrates or starts again.

    >>> one = Cluster(np.array([[8]]), np.array([[8]]), np.array([0]), np.array([0]), state=mix_state(1, 3))
    >>> for row, cores in enumerate((2, 4, 4)):
    ...     placed(one, 0, Request(row, np.array([cores]), 0), 0)
    >>> one.state.need[:2, 0].tolist(), one.state.n_of[:2].tolist()
    ([4, 2], [2, 1])
    """
    state, need = cluster.state, request.need
    if state.is_counted[request.row] == 1:
        return
    state.is_counted[request.row] = 1
    k = 0
    while k < MOST_SHAPES and state.n_of[k] > 0 and not is_shape(state, k, need):
        k += 1
    if k == MOST_SHAPES:
        return
    state.total[0] += 1
    count = state.n_of[k] + 1
    while k > 0 and state.n_of[k - 1] < count:  # more frequent shapes come first
        state.n_of[k] = state.n_of[k - 1]
        for d in range(len(need)):
            state.need[k, d] = state.need[k - 1, d]
        k -= 1
    state.n_of[k] = count
    for d in range(len(need)):
        state.need[k, d] = need[d]


@kernel
def useless(cluster: Cluster, host: int, asked: np.ndarray, need: np.ndarray, n_more: int, gpu: int) -> int:
    """Free milli-GPU of a host that a request for `asked` could not use, after n_more (0 or 1) requests for `need`.

    gpu: which one the need's share gets; -1 = the fullest with room. Without GPUs the amount of the
    binding resource: all or nothing.
    """
    free, n_gpus = cluster.gpu_free, cluster.gpu_free.shape[1]
    fits = True
    for d in range(len(need)):
        fits = fits and cluster.free[host, d] - n_more * need[d] >= asked[d]
    if n_gpus == 0:
        return 0 if fits else cluster.free[host, 0] - n_more * need[0]
    taken = n_more * need[cluster.gpu_dimension[0]]
    if 0 < taken < WHOLE_GPU and gpu < 0:
        for g in range(n_gpus):
            if free[host, g] >= taken and (gpu < 0 or free[host, g] < free[host, gpu]):
                gpu = g
    n_whole = taken // WHOLE_GPU
    milli = asked[cluster.gpu_dimension[0]]
    each = min(milli, WHOLE_GPU)
    n_wanted = (milli + WHOLE_GPU - 1) // WHOLE_GPU
    total, n_useless = 0, 0
    for g in range(n_gpus):
        left = free[host, g]
        if n_whole > 0 and left == WHOLE_GPU:
            n_whole, left = n_whole - 1, 0
        elif 0 < taken < WHOLE_GPU and g == gpu:
            left -= taken
        total += left
        if left < each:
            n_useless += left
        else:
            n_wanted -= 1
    return n_useless if fits and milli > 0 and n_wanted <= 0 else total


@kernel
def added_fragments(cluster: Cluster, host: int, request: Request, gpu: int) -> float:
    """What the request adds to the host's fragmentation, milli-GPU expected over the mix; 0 before the first request.

    >>> state = mix_state(1, 9)
    >>> state.need[0, 0], state.n_of[0], state.total[0] = 500, 1, 1  # all ask for half a GPU
    >>> two = Cluster(np.array([[2000]]), np.array([[1400]]), np.array([1]), np.array([0]), state=state,
    ...               gpu_free=np.array([[400, 1000]]), gpu_dimension=np.array([0]))
    >>> [added_fragments(two, 0, Request(0, np.array([300]), 0), gpu) for gpu in (0, 1)]
    [-300.0, 0.0]
    """
    state, need = cluster.state, request.need
    n, added = 0, 0.0
    for k in range(MOST_SHAPES):
        if state.n_of[k] == 0 or n >= MIX_SHARE * state.total[0]:
            break
        n += state.n_of[k]
        added += state.n_of[k] * (useless(cluster, host, state.need[k], need, 1, gpu)
                                   - useless(cluster, host, state.need[k], need, 0, -1))
    return added / max(n, 1)


@kernel
def least_added(cluster: Cluster, host: int, request: Request) -> float:
    """`added_fragments` on the best of the host's GPUs."""
    free, least = cluster.gpu_free, np.inf
    milli = request.need[cluster.gpu_dimension[0]] if free.shape[1] > 0 else 0
    for gpu in range(free.shape[1]):
        is_new = 0 < milli < WHOLE_GPU and free[host, gpu] >= milli
        for earlier in range(gpu):
            is_new = is_new and free[host, earlier] != free[host, gpu]
        if is_new:
            least = min(least, added_fragments(cluster, host, request, gpu))
    return least if least < np.inf else added_fragments(cluster, host, request, -1)


@kernel
def fragmentation_step(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """What the request adds to the host's fragmentation, in steps of 40 milli-GPU, or of 2 % of the host without GPUs;
    10,000 if that is nothing.

    >>> one = Cluster(np.array([[8]]), np.array([[6]]), np.array([1]), np.array([0]), state=mix_state(1, 9))
    >>> one.state.need[0, 0], one.state.n_of[0], one.state.total[0] = 4, 1, 1  # all ask for 4 cores
    >>> [fragmentation_step(one, 0, Request(0, np.array([cores]), 0), 0) for cores in (2, 4)]  # useless: 0, 2 of 8
    [10000.0, 10012.0]
    """
    step = STEP_MILLI if cluster.gpu_free.shape[1] > 0 else max(cluster.capacity[host, 0], 1) / STEPS
    return float(np.rint(OFFSET + least_added(cluster, host, request) / step))


@kernel
def gpus_left(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Milli-GPU that the placement leaves free on the host; 0 without GPUs.

    >>> one = Cluster(np.array([[2000]]), np.array([[1400]]), np.array([1]), np.array([0]),
    ...               gpu_free=np.array([[400, 1000]]), gpu_dimension=np.array([0]))
    >>> gpus_left(one, 0, Request(0, np.array([300]), 0), 0)
    1100.0
    """
    if cluster.gpu_free.shape[1] == 0:
        return 0.0
    return float(cluster.free[host, cluster.gpu_dimension[0]] - request.need[cluster.gpu_dimension[0]])


_HOOKS = Hooks(mix_state, placed, departed, unchanged)
_SCORERS = (fragmentation_step, gpus_left, *PACKING)
FGD = Policy("fgd", _SCORERS, hooks=_HOOKS, gpu_score=added_fragments,
             about="the host where least free GPU becomes useless to the mix of requests so far (FGD, ATC 2023)")
OPEN_FGD = Policy("open-fgd", (opens_host, *_SCORERS), hooks=_HOOKS, gpu_score=added_fragments,
                  about="a host in use before an empty one, then as fgd; ours")
