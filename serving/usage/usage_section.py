"""The usage section: a folder of data beside a lifetime bundle, each file with its hash.

`usage.json`: the clock, the observation time and the names of requests. `usage.npz`: classes and
pulse waves as plain arrays, never pickle. `MANIFEST.json`: the sha256 of each. Loading runs no
code.

A `PulseWave` is at its peak for a share of each period, else at its trough. `UsageWaves` are one or
two of them added: those of a day and of a week.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving import checks as document_fields
from sojourn.serving.bundle import MANIFEST, VouchedFiles, manifest_of, read_arrays, version_of, write_arrays
from sojourn.serving.checks import folder_path, whole_seconds
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.inputs import DAY_S
from sojourn.serving.usage.observed_use import CLASSES, SEEN_S, SURPLUS_RULES, DayClock, WorkloadClasses

FORMAT_VERSION = 3
DOCUMENT, ARRAYS = "usage.json", "usage.npz"
N_BYTES_MAX = {DOCUMENT: 1 << 25, ARRAYS: 1 << 27}
"""The files beside the manifest, and the largest size of each. Hostile JSON takes 27 times its size
in memory, so 0.9 GB."""
USAGE_FILES = tuple(N_BYTES_MAX)
N_ARRAY_BYTES_MAX = 1 << 27
"""The most bytes of all arrays: N_WAVES_MAX waves are 80 MB, N_CLASSES_MAX classes of both resources 4 MB."""
N_CLASSES_MAX, N_WAVES_MAX = 256, 500_000
WAVE_COLUMNS = ("peak", "trough", "period_s", "phase_s", "duty")
"""Columns of one wave in `waves`. They repeat for the second wave (all NaN if there is none), and
both repeat for the upper level."""
N_WAVE_NUMBERS = 4 * len(WAVE_COLUMNS)
OBSERVED_S = SEEN_S[0]
"""The time of observation before a newcomer gets a class."""
RESOURCES = ("cpu", "mem")
_KIND = "usage"
_LARGEST = 1e12
_CLASS_ARRAYS = ("ids", "centres", "means", "surplus", "n_members")
_FILES = VouchedFiles("usage section", FORMAT_VERSION, N_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class UsageSection:
    """A served usage section. All shares are of a request's reservation.

    clock: local time of day on the trace's clock. observed_s: how long a newcomer is observed before it gets a class.
    classes: by resource, `cpu` and perhaps `mem`. rows: request id as text -> row of `waves`. waves: float64 (n, 20),
    pulse waves of CPU use of requests that ran at the trace's end, by WAVE_COLUMNS, on local time.
    surplus_rules: by resource, the rule (of SURPLUS_RULES) at each of SEEN_S. document: all of
    usage.json, with training window and metrics. version: the first 12 hex digits of the manifest's
    sha256.
    """

    clock: DayClock
    observed_s: int
    classes: Mapping[str, WorkloadClasses]
    rows: Mapping[str, int]
    waves: np.ndarray
    surplus_rules: Mapping[str, tuple[str, ...]]
    document: Mapping[str, Any]
    version: str

    def waves_of(self, request_id: str) -> tuple[UsageWaves, UsageWaves] | None:
        """Expected use and its upper level of a request that ran at the trace's end; None for any other."""
        row = self.rows.get(request_id)
        if row is None:
            return None
        numbers = self.waves[row].tolist()
        return _waves_of(numbers[:N_WAVE_NUMBERS // 2]), _waves_of(numbers[N_WAVE_NUMBERS // 2:])


def usage_files(clock: DayClock, observed_s: int, classes: Mapping[str, WorkloadClasses], request_ids: Sequence[str],
                waves: np.ndarray, about: Mapping[str, Any]) -> dict[str, bytes]:
    """The section's files by name, MANIFEST.json among them; the same content gives the same bytes.

    request_ids: of the rows of `waves`, float64 (n, 20). about: more fields, such as `surplus_rules`; JSON values only.
    """
    document = {
        "format_version": FORMAT_VERSION,
        "kind": _KIND,
        "clock": {"start_unix_s": clock.start_unix_s, "timezone": clock.timezone},
        "observed_s": observed_s,
        "request_ids": list(request_ids),
        **about,
    }  # fmt: skip
    arrays = {"waves": np.asarray(waves, np.float64).reshape(-1)}  # an archive's second axis is at most 9 long
    for resource, each in classes.items():
        arrays |= {f"{resource}_{name}": getattr(each, name).reshape(-1) for name in _CLASS_ARRAYS}
    packed = io.BytesIO()
    write_arrays(packed, arrays)
    contents = {DOCUMENT: (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode(),
                ARRAYS: packed.getvalue()}
    contents[MANIFEST] = manifest_of(contents, FORMAT_VERSION)
    return contents


def load_usage(folder: str | Path) -> UsageSection:
    """Read and verify a usage section; if it is replaced meanwhile, the result is the old or the new one.

    Raises BundleError with the file and the reason: missing, wrong hash, wrong version, truncated,
    malformed.
    """
    contents = _FILES.read(folder_path(folder, "folder"))
    document = _FILES.document(contents[DOCUMENT], DOCUMENT)
    try:
        version, kind = document["format_version"], document["kind"]
        if version != FORMAT_VERSION or kind != _KIND:
            raise ValueError(f"format_version and kind must be {FORMAT_VERSION} and {_KIND!r}, got {shown(version)} "
                             f"and {shown(kind)}")
        clock = DayClock(whole_seconds(document["clock"]["start_unix_s"], "start_unix_s"),
                         document_fields.text(document["clock"]["timezone"], "timezone"))
        observed_s = whole_seconds(document["observed_s"], "observed_s")
        if not SEEN_S[0] <= observed_s <= DAY_S:
            raise ValueError(f"observed_s must be from {SEEN_S[0]} to {DAY_S}, got {observed_s}")
        ids = document_fields.texts(document["request_ids"], "request_ids", N_WAVES_MAX)
        rows = {request_id: row for row, request_id in enumerate(ids)}
        if len(rows) < len(ids):
            raise ValueError(f"request_ids must be unique, got {len(ids) - len(rows)} twice")
        surplus_rules = _rules(document.get("surplus_rules", {}))
    except BundleError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BundleError(f"{DOCUMENT} must be complete, got {type(error).__name__}: {error}") from error
    try:
        arrays = read_arrays(contents[ARRAYS], N_ARRAY_BYTES_MAX)
        classes = {resource: _classes(arrays, resource) for resource in RESOURCES
                   if resource == "cpu" or f"{resource}_ids" in arrays}
        waves = _waves(arrays.pop("waves"), len(ids))
        if arrays:
            raise ValueError(f"array {shown(next(iter(arrays)))}, which is not known")
    except Exception as error:  # numpy may raise anything for arrays that do not fit
        raise BundleError(f"{ARRAYS} must hold the section's arrays, got {type(error).__name__}: {error}") from error
    return UsageSection(clock, observed_s, classes, rows, waves, surplus_rules, document,
                        version_of(contents[MANIFEST]))


def check_usage_files(folder: str | Path) -> str:
    """The version of a usage section's folder; BundleError if its files do not match its manifest."""
    return _FILES.version(Path(folder))


def _rules(rules: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(rules, dict) or not set(rules) <= set(RESOURCES):
        raise ValueError(f"surplus_rules must be by resource, {' and '.join(RESOURCES)}, got {shown(rules)}")
    resource_rules = {}
    for resource in RESOURCES:
        each = tuple(document_fields.texts(rules.get(resource, [CLASSES] * len(SEEN_S)), "surplus_rules", len(SEEN_S)))
        if len(each) != len(SEEN_S) or not set(each) <= set(SURPLUS_RULES):
            raise ValueError(f"surplus_rules of {resource} must be {len(SEEN_S)} of {', '.join(SURPLUS_RULES)}, got "
                             f"{shown(each)}")
        resource_rules[resource] = each
    return resource_rules


def _classes(arrays: dict[str, np.ndarray], resource: str) -> WorkloadClasses:
    ids, centres, means, surplus, n_members = (arrays.pop(f"{resource}_{name}") for name in _CLASS_ARRAYS)
    if any(array.dtype != np.int64 or array.ndim != 1 for array in (ids, n_members)) or len(ids) > N_CLASSES_MAX:
        raise ValueError(f"{resource}_ids and {resource}_n_members must be at most {N_CLASSES_MAX} int64")
    if any(array.dtype != np.float64 or (array > _LARGEST).any() for array in (centres, means, surplus)):
        raise ValueError(f"{resource}_centres, means and surplus must be float64 of at most {_LARGEST:g}")
    k = len(ids)
    return WorkloadClasses(ids, _rows(centres, k), _rows(means, k), _rows(surplus, k), n_members)


def _rows(array: np.ndarray, n_rows: int) -> np.ndarray:
    """The array as rows of equal length; ValueError if it has two axes or another number of elements."""
    if array.ndim != 1 or not n_rows or len(array) % n_rows:
        raise ValueError(f"an array of {n_rows} rows must have one axis and as many elements a row, got {array.shape}")
    return array.reshape(n_rows, -1)


def _waves(array: np.ndarray, n_rows: int) -> np.ndarray:
    if array.dtype != np.float64 or array.shape != (n_rows * N_WAVE_NUMBERS,):
        raise ValueError(f"waves must be {n_rows * N_WAVE_NUMBERS} float64, got {array.shape} {array.dtype}")
    pairs = array.reshape(2 * n_rows, 2, len(WAVE_COLUMNS))
    first, second = pairs[:, 0], pairs[:, 1]
    has_second = ~np.isnan(second).all(axis=1)
    if not (_is_wave(first) & (~has_second | _is_wave(second) & np.isfinite(second[:, 2]) & np.isfinite(first[:, 2]))
            ).all():
        raise ValueError("waves must have finite levels and phases, periods above 0, and duties within (0, 1)")
    return array.reshape(n_rows, N_WAVE_NUMBERS)


def _waves_of(numbers: Sequence[float]) -> UsageWaves:
    first, second = PulseWave(*numbers[:len(WAVE_COLUMNS)]), numbers[len(WAVE_COLUMNS):]
    return UsageWaves((first,) if second[0] != second[0] else (first, PulseWave(*second)))


def _is_wave(rows: np.ndarray) -> np.ndarray:
    peak, trough, period_s, _, duty = rows.T
    is_small = (np.abs(rows[:, [0, 1, 3]]) <= _LARGEST).all(axis=1)
    return is_small & (peak >= trough) & (period_s >= 1.0) & (duty > 0.0) & (duty < 1.0) \
        & ((period_s <= _LARGEST) | (period_s == np.inf))


_INF = math.inf


@dataclass(frozen=True, slots=True)
class PulseWave:
    """Expected use over time, by five numbers (period-aware placement, section III-A).

    peak, trough: use within and without the busy window, as a share of the request's reservation;
    trough <= peak. The second of two waves has levels around 0.
    period_s: seconds from one busy window to the next; infinite = aperiodic, always at `peak`.
    phase_s: when a busy window begins, seconds on the trace's clock modulo the period.
    duty: share of the period that is busy, above 0 and below 1.

    ValueError if one of these rules is broken.

    >>> wave = PulseWave(peak=0.8, trough=0.2, period_s=100.0, phase_s=10.0, duty=0.3)
    >>> wave.at(np.array([0, 10, 39, 40, 110])).tolist()
    [0.2, 0.8, 0.8, 0.2, 0.8]
    >>> wave.largest(40, 100), wave.largest(40, 111), wave.next_busy(20), wave.next_busy(50)
    (0.2, 0.8, (20, 40.0), (110.0, 140.0))
    """

    peak: float
    trough: float
    period_s: float = _INF
    phase_s: float = 0.0
    duty: float = 0.5

    def __post_init__(self) -> None:
        if not (math.isfinite(self.peak) and math.isfinite(self.trough) and self.trough <= self.peak):
            raise ValueError(f"peak and trough must be finite and trough at most peak, got {self.peak!r} and "
                             f"{self.trough!r}")
        if not self.period_s > 0.0:
            raise ValueError(f"period_s must be above 0, got {self.period_s!r}")
        if not math.isfinite(self.phase_s):
            raise ValueError(f"phase_s must be finite, got {self.phase_s!r}")
        if not 0.0 < self.duty < 1.0:
            raise ValueError(f"duty must be above 0 and below 1, got {self.duty!r}")

    @property
    def is_periodic(self) -> bool:
        """Whether it has a period."""
        return self.period_s < _INF

    def at(self, time_s: np.ndarray) -> np.ndarray:
        """Use at each time, float64, the shape of `time_s` (seconds on the trace's clock)."""
        times = np.asarray(time_s, np.float64)
        if not self.is_periodic:
            return np.full(times.shape, self.peak)
        is_busy = np.mod(times - self.phase_s, self.period_s) < self.duty * self.period_s
        return np.where(is_busy, self.peak, self.trough)

    def largest(self, from_s: float, to_s: float) -> float:
        """The largest use at any time of [from_s, to_s). An interval that ends before it begins is refused."""
        check_interval(from_s, to_s)
        return self.peak if not self.is_periodic or self.next_busy(from_s)[0] < to_s else self.trough

    def next_busy(self, from_s: float) -> tuple[float, float]:
        """Start and end of the next busy window; a current one starts at `from_s`. Aperiodic: endless."""
        if not self.is_periodic:
            return from_s, _INF
        since_s = (from_s - self.phase_s) % self.period_s
        if since_s < self.duty * self.period_s:
            return from_s, from_s - since_s + self.duty * self.period_s
        begin_s = from_s - since_s + self.period_s
        return begin_s, begin_s + self.duty * self.period_s


def check_interval(from_s: float, to_s: float) -> None:
    """ValueError unless both ends are finite and `to_s` is after `from_s`.

    >>> check_interval(0.0, 1.0)
    """
    if not (math.isfinite(from_s) and math.isfinite(to_s) and from_s < to_s):
        raise ValueError(f"to_s must be after from_s = {from_s!r} and both finite, got {to_s!r}")


_EDGES_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class UsageWaves:
    """Expected use over time: one or two pulse waves added, the second with levels around 0.

    Two are enough for a day and a week, beyond the paper, which has one (section III-A, discussion).

    >>> day = PulseWave(0.6, 0.2, period_s=24.0, phase_s=8.0, duty=0.5)
    >>> week = PulseWave(0.1, -0.25, period_s=168.0, phase_s=0.0, duty=5 / 7)
    >>> waves = UsageWaves((day, week))
    >>> waves.at(np.array([0, 8, 128])).round(2).tolist()
    [0.3, 0.7, 0.35]
    >>> round(waves.largest(0, 8), 2), round(waves.largest(120, 168), 2), waves.next_busy(25)
    (0.3, 0.35, (32.0, 44.0))
    """

    waves: tuple[PulseWave, ...]

    def __post_init__(self) -> None:
        if len(self.waves) not in (1, 2):
            raise ValueError(f"waves must be one or two, got {len(self.waves)}")
        if len(self.waves) == 2 and not all(wave.is_periodic for wave in self.waves):
            raise ValueError("waves must both have a period where there are two, got an infinite one")

    @property
    def is_periodic(self) -> bool:
        """Whether it has a period."""
        return self.waves[0].is_periodic

    def at(self, time_s: np.ndarray) -> np.ndarray:
        """Use at each time, float64, the shape of `time_s` (seconds on the trace's clock)."""
        total = self.waves[0].at(time_s)
        for wave in self.waves[1:]:
            total = total + wave.at(time_s)
        return total

    def largest(self, from_s: float, to_s: float) -> float:
        """The largest use at any time of [from_s, to_s), exact. An interval that ends before it begins is refused.

        Use is constant between two edges, so it is enough to look at `from_s` and the start of
        every busy window in the interval. The search stops if all waves are at their peak together;
        until then its time grows with the number of windows.
        """
        check_interval(from_s, to_s)
        if len(self.waves) == 1:
            return self.waves[0].largest(from_s, to_s)
        bound = sum(wave.largest(from_s, to_s) for wave in self.waves)
        best = float(self.at(np.array([from_s]))[0])
        for wave, partner in (self.waves, self.waves[::-1]):
            begin_s = from_s - (from_s - wave.phase_s) % wave.period_s + wave.period_s
            while begin_s < to_s and best < bound:
                begins = begin_s + wave.period_s * np.arange(_EDGES_AT_ONCE)
                begins = begins[begins < to_s]
                best = max(best, wave.peak + float(partner.at(begins).max()))
                begin_s += wave.period_s * _EDGES_AT_ONCE
        return best

    def next_busy(self, from_s: float) -> tuple[float, float]:
        """Start and end of the next busy window; a current one starts at `from_s`.

        Aperiodic: endless. Busy = above the middle between the lowest and the highest sum. This is
        so exactly while the wave with the larger distance from trough to peak is busy; at equal
        distances, the first.
        """
        return max(self.waves, key=lambda wave: wave.peak - wave.trough).next_busy(from_s)
