"""The curves of all running requests, packed into arrays: answers for many requests in one call, and exits of hosts.

`CurveModels` has a row for each model in use, since after a reload curves of several models exist.
`HostExits` answers when each host will be empty: the latest predicted exit of its requests, exact
at any time.

A request's predicted exit is held: it is computed at its arrival and again at each `next_change`,
as in the simulator. So a host's exit changes only when a request comes or goes, when the exit of
the last-leaving request is computed again, or when that of another rises above it. The curve gives
all held exits of a request, and so the next time at which its host must be checked; until then
there is nothing to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sojourn.serving.answers import Lifetime
from sojourn.serving.checks import Moment, clock_second
from sojourn.serving.curves import (
    IS_COMPILED,
    KERNELS,
    KIND_OF_CODE,
    N_BLOCK,
    CurveArrays,
    CurveKind,
    HazardCurve,
    Hosts,
    LifetimeCurve,
    PointCurve,
    Shared,
    checked_seconds,
    checked_share,
    held_totals,
    kind_of,
    next_change_at,
    quantile_at,
    survival_at,
)
from sojourn.serving.errors import shown

Slots: TypeAlias = Sequence[int] | np.ndarray
Seconds: TypeAlias = Sequence[float] | np.ndarray


def remaining_of(vms: Sequence[Lifetime], uptimes_s: Seconds) -> np.ndarray:
    """Mean remaining time in whole seconds, float64 (n,), of n requests, at one uptime each; for
    one call, without a pool.

    >>> from sojourn.serving.curves.curve import OnceCurve
    >>> vm = Lifetime(OnceCurve.from_score(2.0, 1.0, (-0.1, 0.0, 0.1)), np.empty(0), 0, (), "v1", None)
    >>> remaining_of([vm, vm], [0.0, 40.0]).tolist()
    [100.0, 60.0]
    """
    if len(vms) != len(uptimes_s):
        raise ValueError(f"uptimes_s must have {len(vms)} elements, got {len(uptimes_s)}")
    return np.array([vm.remaining(uptime_s) for vm, uptime_s in zip(vms, uptimes_s, strict=True)], np.float64)


class CurvePool:
    """Lifetime curves in packed arrays, each in a numbered slot; of any kind and model version side by side.

    The answers are those of the single curves, to the bit. ValueError if a slot holds no curve, or
    an uptime is not finite and >= 0. Equal curves are rare, so each is stored. A hazard curve of J
    intervals takes 32 (J + 1) + 8 bytes, a point curve of K thresholds 16 (K + 1) + 8; all take as
    much as the widest. `capacity`, the number of slots, doubles when it is exceeded. For one thread
    at a time.

    >>> from sojourn.serving.curves.curve import HazardCurve
    >>> curve = HazardCurve.from_hazards((0.0, 10.0, 100.0), (0.5, 1.0), 1000.0, (0.0, 10.0, 100.0))
    >>> pool = CurvePool()
    >>> slots = [pool.add(Lifetime(curve, np.empty(0), arrival_s, (), "v1", None)) for arrival_s in (0, 45)]
    >>> pool.remaining(slots, [0.0, 55.0]).tolist(), pool.remaining_all(100)[slots].tolist()
    ([266.0, 642.0], [1000.0, 642.0])
    """

    _is_loaded: ClassVar[bool] = False

    def __init__(self, capacity: int = 16, *, is_compiled: bool = IS_COMPILED) -> None:
        if not isinstance(capacity, int | np.integer) or capacity < 1:
            raise ValueError(f"capacity must be a whole number >= 1, got {capacity!r}")
        self._is_compiled = is_compiled and IS_COMPILED
        self._models = CurveModels(self._is_compiled)
        self._model = np.full(capacity, -1, np.int32)
        self._arrival_s = np.zeros(capacity)
        self._numbers = np.empty((capacity, 0))
        self._free: list[int] = []
        self._n_opened = 0
        if self._is_compiled and not CurvePool._is_loaded:
            CurvePool._is_loaded = True
            _load_kernels()

    def __len__(self) -> int:
        return self._n_opened - len(self._free)

    @property
    def arrays(self) -> CurveArrays:
        """The packed curves, for `remaining_at` in compiled code; valid until the next `add`."""
        models = self._models
        return CurveArrays(self._model, self._numbers, models.kind, models.bounds, models.n_bounds, models.changes,
                           models.residuals, models.n_residuals)

    def add(self, vm: Lifetime) -> int:
        """Pack a request's curve; returns its slot, which another curve may get after `remove`."""
        model = self._models.enter(vm.curve)
        numbers = self._models.packed(model, vm.curve)
        slot = self._free.pop() if self._free else self._n_opened
        self._n_opened = max(self._n_opened, slot + 1)
        self._make_room(len(numbers) + 1)  # one spare: the kernel loads three numbers at any position
        self._numbers[slot, : len(numbers)] = numbers
        self._arrival_s[slot] = vm.arrival_s
        self._model[slot] = model
        return slot

    def remove(self, slot: int) -> None:
        """Free a slot."""
        index = int(self._known([slot])[0])
        self._models.leave(int(self._model[index]))
        self._model[index] = -1
        self._free.append(index)

    def remaining(self, slots: Slots, uptimes_s: Seconds) -> np.ndarray:
        """E[Tr | Tu] in whole seconds, float64 (n,), of the curves in n slots, at one uptime each."""
        if self._is_compiled:
            checked, ages_s = _whole_numbers(slots), _numbers(uptimes_s, len(slots))
            answers: np.ndarray = KERNELS.remaining_rows(self.arrays, checked, ages_s)
            if len(answers) == len(checked):
                return answers
        return _remaining_rows(self.arrays, *self._checked(slots, uptimes_s))

    def remaining_all(self, now_s: Moment) -> np.ndarray:
        """E[Tr | Tu] in whole seconds of every curve at `now_s`, by slot, float64 (capacity,); NaN where it is free.

        A request with a later arrival, admitted while the clock was ahead, is answered at uptime 0.
        """
        slots = np.flatnonzero(self._model >= 0)
        uptimes_s = np.maximum(clock_second(now_s, "now_s") - self._arrival_s[slots], 0.0)
        answers = np.full(len(self._model), math.nan)
        answers[slots] = self.remaining(slots, uptimes_s)
        return answers

    def quantile(self, q: float, slots: Slots, uptimes_s: Seconds) -> np.ndarray:
        """The remaining times that a share `q` does not exceed, whole seconds, float64 (n,)."""
        checked, ages_s = self._checked(slots, uptimes_s)
        return self._ask("quantile_rows", quantile_at, checked, np.full(len(checked), checked_share(q)), ages_s)

    def survival(self, horizon_s: float, slots: Slots, uptimes_s: Seconds) -> np.ndarray:
        """Probabilities of still running `horizon_s` seconds after the uptimes, in [0, 1], float64 (n,)."""
        checked, ages_s = self._checked(slots, uptimes_s)
        spans_s = np.full(len(checked), checked_seconds(horizon_s, "horizon_s"))
        return self._ask("survival_rows", survival_at, checked, spans_s, ages_s)

    def next_change(self, slots: Slots, uptimes_s: Seconds) -> np.ndarray:
        """The next uptimes at which held exits change, s, float64 (n,); infinity if never."""
        checked, ages_s = self._checked(slots, uptimes_s)
        return self._ask("next_change_rows", next_change_at, checked, ages_s)

    def _ask(self, kernel: str, answer: Callable[..., float], *columns: np.ndarray) -> np.ndarray:
        curves = self.arrays
        if self._is_compiled:
            answers: np.ndarray = getattr(KERNELS, kernel)(curves, *columns)
            return answers
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return np.array([answer(curves, *row) for row in rows], np.float64)

    def _checked(self, slots: Slots, uptimes_s: Seconds) -> tuple[np.ndarray, np.ndarray]:
        seconds = _numbers(uptimes_s, len(slots))
        is_good = (seconds >= 0.0) & (seconds < math.inf)
        if not is_good.all():
            raise ValueError(f"uptimes_s must be finite and >= 0, got {seconds[~is_good][0]}")
        return self._known(slots), seconds

    def _known(self, slots: Slots) -> np.ndarray:
        indices = _whole_numbers(slots)
        is_bad = (indices < 0) | (indices >= self._n_opened)
        if not is_bad.any():
            is_bad = self._model[indices] < 0
        if is_bad.any():
            raise ValueError(f"slots must hold a curve, got {indices[is_bad][0]}")
        return indices

    def _make_room(self, width: int) -> None:
        capacity, widest = self._numbers.shape
        if self._n_opened <= capacity and width <= widest:
            return
        more = capacity if self._n_opened > capacity else 0
        numbers = np.empty((capacity + more, max(width, widest)))
        numbers[:capacity, :widest] = self._numbers
        self._numbers = numbers
        self._model = np.append(self._model, np.full(more, -1, np.int32))
        self._arrival_s = np.append(self._arrival_s, np.zeros(more))


def _load_kernels() -> None:
    """Load compiled code when the first pool is created, not at its first answer."""
    pool = CurvePool()
    slots, uptimes_s = [pool.add(vm) for vm in smallest_requests()], [0.0, 0.0]
    pool.remaining(slots, uptimes_s)
    pool.quantile(0.5, slots, uptimes_s)
    pool.survival(0.0, slots, uptimes_s)
    pool.next_change(slots, uptimes_s)


def _whole_numbers(slots: Slots) -> np.ndarray:
    numbers = np.asarray(slots)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and numbers.size):
        raise ValueError(f"slots must be whole numbers in one dimension, got {slots!r}")
    return np.ascontiguousarray(numbers, np.int64)


def _numbers(uptimes_s: Seconds, n: int) -> np.ndarray:
    values = np.asarray(uptimes_s)
    if (values.dtype.kind not in "iuf" and values.size) or (
            not isinstance(uptimes_s, np.ndarray) and not {bool, np.bool_}.isdisjoint(map(type, uptimes_s))):
        raise ValueError(f"uptimes_s must be numbers, got {shown(uptimes_s)}")
    numbers = np.ascontiguousarray(values, np.float64)
    if numbers.shape != (n,):
        raise ValueError(f"uptimes_s must have {n} elements, got shape {numbers.shape}")
    return numbers


def _remaining_rows(curves: CurveArrays, slots: np.ndarray, uptimes_s: np.ndarray) -> np.ndarray:
    """`remaining_at` without numba: arrays but for the libm calls, as numpy's own differ in the last bit."""
    answers = np.empty(len(slots))
    model_of = curves.model[slots]
    for model in np.flatnonzero(np.bincount(model_of)):
        rows = np.flatnonzero(model_of == model)
        kind = KIND_OF_CODE[int(curves.kind[model])]
        answers[rows] = kind.remaining_rows(curves.bounds[model], curves.numbers, slots[rows], uptimes_s[rows])
    return answers


def smallest_requests() -> list[Lifetime]:
    """Requests whose curves, added and answered, load all compiled code of a pool or of hosts."""
    curves = (HazardCurve.from_hazards((0.0, 1.0), (0.5,), 1.0, (0.0, 1.0)),
              PointCurve.from_scores((1.0,), (0.0, 0.0), 1.0, (-0.1, 0.1)))
    return [Lifetime(curve, np.empty(0), 0, (), "", None) for curve in curves]


@dataclass(slots=True)
class _Model:
    """One row of `CurveModels`."""

    key: tuple[int, Sequence[float], Sequence[float]]
    kind: CurveKind
    shared: Shared
    n_curves: int = 0


class CurveModels:
    """Arrays that the curves of a model share, as in `CurveArrays`; rows without curves are used again."""

    def __init__(self, is_compiled: bool) -> None:
        self._kernels = KERNELS if is_compiled else None
        self._rows: list[_Model] = []
        self._row_of: dict[tuple[int, Sequence[float], Sequence[float]], int] = {}
        self._latest: tuple[Sequence[float], Sequence[float], int] = ((), (), -1)
        self._stack()

    def enter(self, curve: LifetimeCurve) -> int:
        """Count a curve in its model's row; returns the row. TypeError for an unknown kind of curve."""
        kind = kind_of(curve)
        first, second = kind.shared_of(curve)
        latest_first, latest_second, row = self._latest
        if row < 0 or first is not latest_first or second is not latest_second or self._rows[row].kind is not kind:
            row = self._find(kind, first, second)
            self._latest = (first, second, row)
        self._rows[row].n_curves += 1
        return row

    def leave(self, row: int) -> None:
        """Count one curve less in a row."""
        self._rows[row].n_curves -= 1

    def packed(self, row: int, curve: LifetimeCurve) -> np.ndarray:
        """The numbers of a curve of the row's model in the order of `CurveArrays.numbers`."""
        return self._rows[row].kind.packed(curve, self._kernels)

    def held_totals(self, row: int, curve: LifetimeCurve) -> np.ndarray:
        """Predicted total lifetimes of a curve of the row's model, s: see `curve_kind.held_totals`."""
        return held_totals(self._rows[row].kind, curve, self._rows[row].shared, self._kernels)

    def place(self, row: int, curve: LifetimeCurve, places: Any, host: int, idx: int, start_s: float,
              now_s: float) -> None:
        """Add a request with a curve of the row's model to a host, as row `idx` of `Hosts`; compiled only."""
        model = self._rows[row]
        model.kind.place(self._kernels, places, host, idx, start_s, row, curve, model.shared, now_s)

    def _find(self, kind: CurveKind, first: Sequence[float], second: Sequence[float]) -> int:
        key = (kind.code, tuple(first), tuple(second))
        row = self._row_of.get(key)
        if row is None:
            model = _Model(key, kind, kind.shared(first, second))
            row = next((idx for idx, each in enumerate(self._rows) if each.n_curves == 0), len(self._rows))
            if row < len(self._rows):
                del self._row_of[self._rows[row].key]
                self._rows[row] = model
            else:
                self._rows.append(model)
            self._row_of[key] = row
            self._stack()
        return row

    def _stack(self) -> None:
        shared = [model.shared for model in self._rows]
        self.kind = np.array([model.kind.code for model in self._rows], np.int64)
        self.n_bounds = np.array([len(one.bounds) for one in shared], np.int64)
        self.n_residuals = np.array([len(one.residuals) for one in shared], np.int64)
        self.n_changes = np.array([len(one.changes) for one in shared], np.int64)
        self.bounds = _padded([one.bounds for one in shared])
        self.changes = _padded([one.changes for one in shared])
        self.residuals = _padded([one.residuals for one in shared])


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of different lengths as one matrix, filled with infinity."""
    padded = np.full((len(rows), 1 + max(map(len, rows), default=0)), math.inf)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded


_N_BLOCK = N_BLOCK if IS_COMPILED else 1
_N_ROWS_MIN = 64
_N_MEMBERS_MIN = 8


class HostExits:
    """The latest predicted exit of each of `n_hosts` hosts; hosts are numbered from 0. For one thread at a time.

    A held total that is outlived before its next change counts as the uptime of that change; the
    last one doubles. Memory per request: 8 bytes for each change (hazard: two per interval; point:
    one per threshold).

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
        self._hold(Hosts(
            np.full(n_hosts, -math.inf), np.full(n_hosts, math.inf), np.full(-(-n_hosts // _N_BLOCK), math.inf),
            np.full(n_hosts, -1, np.int32),
            np.empty((n_hosts, _N_MEMBERS_MIN), np.int32), np.empty((n_hosts, _N_MEMBERS_MIN)),
            np.zeros(n_hosts, np.int32), np.empty(_N_ROWS_MIN), np.empty(_N_ROWS_MIN, np.int32),
            np.empty((_N_ROWS_MIN, 0)), self._models.changes, self._models.n_changes,
        ))  # fmt: skip
        if self._is_compiled and not HostExits._is_loaded:
            HostExits._is_loaded = True
            _load_exit_kernels()

    def __len__(self) -> int:
        return len(self._placed)

    def place(self, host: int, vm: Lifetime, *, arrival_s: int | None = None) -> None:
        """Add a request to a host; ValueError for a host out of range, or a request that is on a host already.

        arrival_s: when it began to run, if not at its admission.
        """
        if not isinstance(host, int | np.integer) or not 0 <= host < len(self._hosts.exit_s):
            raise ValueError(f"host must be in 0..{len(self._hosts.exit_s) - 1}, got {host!r}")
        if vm in self._placed:
            raise ValueError(f"vm must be on no host yet, got one on host {self._placed[vm][1]}")
        start_s = vm.arrival_s if arrival_s is None else clock_second(arrival_s, "arrival_s")
        model = self._models.enter(curve := vm.curve)
        row = self._free.pop() if self._free else len(self._placed)
        self._make_room(row, host)
        hosts = self._hosts
        if self._is_compiled:
            self._models.place(model, curve, self._places, host, row, float(start_s), self._now_s)
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
        """Remove a request from its host; ValueError if it is on none."""
        if vm not in self._placed:
            raise ValueError("vm must be on a host, got one that is on none")
        (row, host), hosts = self._placed.pop(vm), self._hosts
        if self._is_compiled:
            self._models.leave(KERNELS.leave_row(self._places, host, row))
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

        If the clock goes back, all hosts are checked again, so a clock that was once ahead has no lasting effect.
        """
        now, hosts = float(clock_second(now_s, "now_s")), self._hosts
        if now < self._now_s:
            hosts.due_s[hosts.n_members > 0] = -math.inf
            hosts.soon_s.fill(-math.inf)
        self._now_s = now
        if self._is_compiled:
            answers: np.ndarray = KERNELS.host_exits(self._places, now)
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
            hosts = hosts._replace(members=np.hstack([hosts.members, np.empty_like(hosts.members)]),
                                   rises_s=np.hstack([hosts.rises_s, np.empty_like(hosts.rises_s)]))
        if hosts is not self._hosts:
            self._hold(hosts)

    def _hold(self, hosts: Hosts) -> None:
        self._hosts, self._places = hosts, np.array([(x.ctypes.data, x.shape[0], x.shape[-1]) for x in hosts], np.int64)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._hold(self._hosts)  # a copy's arrays lie elsewhere


def _load_exit_kernels() -> None:
    """Load compiled code when the first hosts are created, not at the first decision."""
    exits = HostExits(1)
    for vm in smallest_requests():
        exits.place(0, vm)
        exits.at(0)
        exits.leave(vm)


def _refresh(hosts: Hosts, due: np.ndarray, now: float) -> None:
    """Update the exits of non-empty hosts to `now`, all at once; twin of the kernel `host_exits`."""
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
