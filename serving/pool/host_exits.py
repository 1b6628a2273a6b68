"""When each host will be empty: the latest predicted exit of what runs on it, exact at any time.

A request's predicted exit is held: asked at its arrival and again at each `next_change`, as the simulator does. So
a host's exit can only change when a request comes or goes, when the exit of the last-leaving request is asked again,
or when that of another rises above it. A request's held exits are known once its curve is, and with them the time at
which its host must be looked at again; until then nothing is done.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from sojourn.serving.checks import Moment, clock_second
from sojourn.serving.curves import IS_COMPILED, KERNELS
from sojourn.serving.lifetime import Lifetime
from sojourn.serving.pool._curve_models import CurveModels, smallest_requests

_N_BLOCK = KERNELS.N_BLOCK if IS_COMPILED else 1
_N_ROWS_MIN = 64
_N_MEMBERS_MIN = 8


class Hosts(NamedTuple):
    """What runs where, and what is known of each host's exit.

    exit_s: float64 (n_hosts,), the latest held exit, -infinity where empty; due_s: likewise, from when on it must be
    looked at again. soon_s: float64, for each 128 hosts a bound from below of their due_s (compiled code only).
    last: int32 (n_hosts,), the row of the last-leaving request. members: int32 (n_hosts, m), rows of requests, of which
    the first n_members count.
    By row: arrival_s float64, model int32 (the row in `changes_s`), totals_s float64 (n_rows, width), held totals,
    -infinity after the last. changes_s: float64 (n_models, width + 1), uptimes from which each total holds, infinity
    after the last; n_changes: int64 (n_models,), their number.
    """

    exit_s: np.ndarray
    due_s: np.ndarray
    soon_s: np.ndarray
    last: np.ndarray
    members: np.ndarray
    n_members: np.ndarray
    arrival_s: np.ndarray
    model: np.ndarray
    totals_s: np.ndarray
    changes_s: np.ndarray
    n_changes: np.ndarray


class HostExits:
    """The latest predicted exit of each of `n_hosts` hosts; hosts are numbered from 0. For one thread at a time.

    A held total that is outlived before it is asked again counts as the next uptime of asking; the last one doubles.
    Kept per request: 8 bytes for each uptime of asking (hazard: two per interval; point: one per threshold).

    >>> from sojourn.serving.curves.curve import OnceCurve
    >>> curves = [OnceCurve.from_score(score, 1.0, (-0.1, 0.1)) for score in (2.0, 3.0)]
    >>> vms = [Lifetime(curve, np.empty(0), 0, (), "v1", None) for curve in curves]
    >>> exits = HostExits(3)
    >>> exits.place(0, vms[0])
    >>> exits.place(0, vms[1])
    >>> exits.at(50).tolist()
    [1000.0, 50.0, 50.0]
    >>> exits.leave(vms[1])
    >>> exits.at(99).tolist(), exits.at(100).tolist()
    ([100.0, 99.0, 99.0], [200.0, 100.0, 100.0])
    """

    _is_loaded: ClassVar[bool] = False

    def __init__(self, n_hosts: int, *, is_compiled: bool = IS_COMPILED) -> None:
        if not isinstance(n_hosts, int | np.integer) or n_hosts < 1:
            raise ValueError(f"n_hosts must be a whole number >= 1, got {n_hosts!r}")
        self._is_compiled = is_compiled and IS_COMPILED
        self._models = CurveModels(self._is_compiled)
        self._now_s = -math.inf
        self._placed: dict[Lifetime, tuple[int, int]] = {}  # row and host
        self._free: list[int] = []
        self._hosts = Hosts(
            np.full(n_hosts, -math.inf), np.full(n_hosts, math.inf), np.full(-(-n_hosts // _N_BLOCK), math.inf),
            np.full(n_hosts, -1, np.int32),
            np.empty((n_hosts, _N_MEMBERS_MIN), np.int32), np.zeros(n_hosts, np.int32), np.empty(_N_ROWS_MIN),
            np.empty(_N_ROWS_MIN, np.int32), np.empty((_N_ROWS_MIN, 0)), self._models.changes,
            self._models.n_changes,
        )  # fmt: skip
        if self._is_compiled and not HostExits._is_loaded:
            HostExits._is_loaded = True
            _load_kernels()

    def __len__(self) -> int:
        """Number of requests on all hosts."""
        return len(self._placed)

    def place(self, host: int, vm: Lifetime, *, arrival_s: int | None = None) -> None:
        """Note a request on a host; ValueError for a host out of range, and for a request that is on one already.

        arrival_s: when it began to run, where that was not its admission.
        """
        if not isinstance(host, int | np.integer) or not 0 <= host < len(self._hosts.exit_s):
            raise ValueError(f"host must be in 0..{len(self._hosts.exit_s) - 1}, got {host!r}")
        if vm in self._placed:
            raise ValueError(f"vm must be on no host yet, got one on host {self._placed[vm][1]}")
        start_s = vm.arrival_s if arrival_s is None else clock_second(arrival_s, "arrival_s")
        curve = vm.curve
        model = self._models.enter(curve)
        row = self._free.pop() if self._free else len(self._placed)
        self._make_room(row, host)
        hosts = self._hosts
        if self._is_compiled:
            self._models.place(model, curve, hosts, host, row, float(start_s), self._now_s)
        else:
            totals_s = self._models.held_totals(model, curve)
            hosts.arrival_s[row], hosts.model[row] = start_s, model
            hosts.totals_s[row, : len(totals_s)] = totals_s
            hosts.totals_s[row, len(totals_s) :] = -math.inf
            hosts.members[host, hosts.n_members[host]] = row
            hosts.n_members[host] += 1
            hosts.due_s[host] = -math.inf
        self._placed[vm] = row, int(host)

    def leave(self, vm: Lifetime) -> None:
        """Strike a request off its host; ValueError where it is on none."""
        if vm not in self._placed:
            raise ValueError("vm must be on a host, got one that is on none")
        row, host = self._placed.pop(vm)
        hosts = self._hosts
        if self._is_compiled:
            self._models.leave(KERNELS.leave_row(hosts, host, row))
        else:
            n_left = int(hosts.n_members[host]) - 1
            members = hosts.members[host]
            members[members[: n_left + 1].tolist().index(row)] = members[n_left]
            hosts.n_members[host] = n_left
            if n_left == 0:
                hosts.exit_s[host], hosts.due_s[host] = -math.inf, math.inf
            elif hosts.last[host] == row:
                hosts.due_s[host] = -math.inf
            self._models.leave(int(hosts.model[row]))
        self._free.append(row)

    def at(self, now_s: Moment) -> np.ndarray:
        """Latest predicted exit of each host, float64 (n_hosts,), on the clock of `now_s`; `now_s` where it is empty.

        Where the clock goes back, all hosts are looked at again: a clock that was ahead once leaves nothing behind.
        """
        now = float(clock_second(now_s, "now_s"))
        hosts = self._hosts
        if now < self._now_s:
            hosts.due_s[hosts.n_members > 0] = -math.inf
            hosts.soon_s.fill(-math.inf)
        self._now_s = now
        if self._is_compiled:
            answers: np.ndarray = KERNELS.host_exits(hosts, now)
            return answers
        due = np.flatnonzero(hosts.due_s <= now)
        if len(due):
            _refresh(hosts, due, now)
        return np.maximum(hosts.exit_s, now)

    def _make_room(self, row: int, host: int) -> None:
        hosts = self._hosts
        if hosts.changes_s is not self._models.changes:
            hosts = hosts._replace(changes_s=self._models.changes, n_changes=self._models.n_changes)
        n_rows, width = hosts.totals_s.shape
        if row >= n_rows or width < hosts.changes_s.shape[1] - 1:
            more = n_rows if row >= n_rows else 0
            totals_s = np.full((n_rows + more, max(width, hosts.changes_s.shape[1] - 1)), -math.inf)
            totals_s[:n_rows, :width] = hosts.totals_s
            hosts = hosts._replace(totals_s=totals_s, arrival_s=np.append(hosts.arrival_s, np.empty(more)),
                                   model=np.append(hosts.model, np.empty(more, np.int32)))
        if hosts.n_members[host] == hosts.members.shape[1]:
            hosts = hosts._replace(members=np.hstack([hosts.members, np.empty_like(hosts.members)]))
        self._hosts = hosts


def _load_kernels() -> None:
    """Load compiled code when the first hosts are made, not at the first decision."""
    exits = HostExits(1)
    for vm in smallest_requests():
        exits.place(0, vm)
        exits.at(0)
        exits.leave(vm)


def _refresh(hosts: Hosts, due: np.ndarray, now: float) -> None:
    """Bring the exits of non-empty hosts up to `now`, all in one go; twin of the kernel `host_exits`."""
    counts = hosts.n_members[due]
    rows = hosts.members[due][np.arange(hosts.members.shape[1]) < counts[:, None]]
    starts, of_host, each = np.cumsum(counts) - counts, np.repeat(np.arange(len(due)), counts), np.arange(len(rows))
    arrival_s, totals_s, model = hosts.arrival_s[rows], hosts.totals_s[rows], hosts.model[rows]
    changes_s, last_step = hosts.changes_s[model], hosts.n_changes[model] - 1
    uptime_s = now - arrival_s
    step = np.maximum(np.count_nonzero(changes_s <= uptime_s[:, None], axis=1) - 1, 0)
    doubled_s = totals_s[each, last_step]
    while (is_outlived := doubled_s <= uptime_s).any():
        doubled_s[is_outlived] *= 2.0
    exit_s = arrival_s + np.where(step == last_step, doubled_s, totals_s[each, step])
    host_exit_s = np.maximum.reduceat(exit_s, starts)
    attaining = np.flatnonzero(exit_s == host_exit_s[of_host])[::-1]
    last = np.empty(len(due), np.int64)
    last[of_host[attaining]] = attaining
    is_above = arrival_s[:, None] + totals_s > host_exit_s[of_host, None]
    is_above &= np.arange(totals_s.shape[1]) > step[:, None]
    is_above[last] = False
    following = np.minimum(step[last] + 1, last_step[last])
    is_above[last, following] = following > step[last]
    ahead = is_above.argmax(axis=1)
    change_s = np.where(is_above[each, ahead], changes_s[each, ahead], doubled_s)
    hosts.exit_s[due], hosts.last[due] = host_exit_s, rows[last]
    hosts.due_s[due] = np.minimum.reduceat(arrival_s + change_s, starts)
