"""A scheduler in a page: each VM goes to the host whose predicted exit it extends least (NILAS), ties by best fit.

What this gains on a trace is for `sojourn.simulator` to say; here, what a loop asks the predictor.
"""

import heapq
import sys

import numpy as np

from sojourn.serving import HostExits, Predictor, example_bundle

N_HOSTS, N_VMS, HOST_CORES, START_S, HOUR_S = 40, 2_000, 16, 1_706_486_400, 3_600
BUCKET_S = np.array([0.5, 1, 1.5, 2, 3, 4, 6, 12, 24, 168]) * HOUR_S
"""Extensions of a host's exit within one bucket cost the same (LAVA, section 4.2)."""


def choose(cores: int, free: np.ndarray, exits_s: np.ndarray, exit_s: float) -> int:
    """The host of a request with this predicted exit; -1 where none has room."""
    fits = free >= cores
    if not fits.any():
        return -1
    cost = np.searchsorted(BUCKET_S, exit_s - exits_s, side="right")
    fits &= cost == cost[fits].min()
    return int(np.where(fits, free, HOST_CORES + 1).argmin())


rng = np.random.default_rng(7)
bundle = sys.argv[1] if sys.argv[1:] else example_bundle()
predictor, exits = Predictor.load(bundle), HostExits(N_HOSTS)
free = np.full(N_HOSTS, HOST_CORES)
running = []  # a heap of what has been placed, by its end
now_s, n_placed = START_S, 0
for number in range(N_VMS):
    now_s += int(rng.exponential(300))
    while running and running[0][0] <= now_s:
        end_s, _, vm, host, cores = heapq.heappop(running)
        predictor.ended(vm, end_s)
        exits.leave(vm)
        free[host] += cores

    cores, is_long = int(rng.choice([1, 2, 4, 8])), rng.random() < 0.15
    lifetime_s = int(rng.exponential(72 if is_long else 2) * HOUR_S) + 1
    request = {"cpu_cores": cores, "mem_gib": 4 * cores, "subscription": f"s{number % 5 + 5 * is_long}"}
    vm = predictor.admit(request, now_s)
    exits_s = exits.at(now_s)
    host = choose(cores, free, exits_s, now_s + vm.remaining(0))
    if host < 0:
        predictor.withdraw(vm)
        continue
    exits.place(host, vm)
    free[host] -= cores
    n_placed += 1
    heapq.heappush(running, (now_s + lifetime_s, number, vm, host, cores))
    if number in (0, 9, 99, 999):
        before_h, after_h = (exits_s[host] - now_s) / HOUR_S, (exits.at(now_s)[host] - now_s) / HOUR_S
        print(f"VM {number}: {cores} cores for {vm.remaining(0) / HOUR_S:.0f} h, as expected; "
              f"to host {host}, its exit in {after_h:.0f} h, before in {before_h:.0f} h")

_, _, vm, host, _ = sorted(running, key=lambda placed: placed[2].arrival_s)[len(running) // 2]
uptime_s = now_s - vm.arrival_s
print(f"{n_placed} of {N_VMS} placed, {(free == HOST_CORES).sum()} of {N_HOSTS} hosts empty now")
print(f"a VM on host {host} has run {uptime_s / HOUR_S:.1f} h, {vm.remaining(uptime_s) / HOUR_S:.0f} h are left; "
      f"asked again at {vm.next_change(uptime_s) / HOUR_S:.1f} h")
