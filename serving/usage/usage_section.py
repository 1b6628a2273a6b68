"""The usage section: a folder of data beside a lifetime bundle, each file with its hash.

`usage.json` the clock, the observation time and the names of requests; `usage.npz` classes and pulse waves (plain
arrays, never pickle); `MANIFEST.json` the sha256 of each. Loading runs no code.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving import document_fields
from sojourn.serving.bundle import MANIFEST, VouchedFiles, manifest_of, read_arrays, version_of, write_arrays
from sojourn.serving.checks import folder_path, whole_seconds
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.usage.day_clock import DAY_S, DayClock
from sojourn.serving.usage.pulse_wave import PulseWave
from sojourn.serving.usage.usage_waves import UsageWaves
from sojourn.serving.usage.workload_classes import CLASSES, SEEN_S, SURPLUS_RULES, WorkloadClasses

FORMAT_VERSION = 3
DOCUMENT, ARRAYS = "usage.json", "usage.npz"
N_BYTES_MAX = {DOCUMENT: 1 << 25, ARRAYS: 1 << 27}
"""The files beside the manifest, and the largest that each may be. Hostile JSON takes 27 times its size in memory, so
0.9 GB."""
USAGE_FILES = tuple(N_BYTES_MAX)
N_ARRAY_BYTES_MAX = 1 << 27
"""Arrays take no more bytes in all: N_WAVES_MAX waves are 80 MB, N_CLASSES_MAX classes of both resources 4 MB."""
N_CLASSES_MAX, N_WAVES_MAX = 256, 500_000
WAVE_COLUMNS = ("peak", "trough", "period_s", "phase_s", "duty")
"""Of the array `waves`; once more for the wave that is added, all NaN where there is none; all of it for expected use,
then for its upper level."""
N_WAVE_NUMBERS = 4 * len(WAVE_COLUMNS)
OBSERVED_S = SEEN_S[0]
"""A newcomer is observed for so long before it gets a class."""
RESOURCES = ("cpu", "mem")
_KIND = "usage"
_LARGEST = 1e12
_CLASS_ARRAYS = ("ids", "centres", "means", "surplus", "n_members")
_FILES = VouchedFiles("usage section", FORMAT_VERSION, N_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class UsageSection:
    """What is served of usage in time. All shares are of what a request reserved.

    clock: local time of day on the trace's clock. observed_s: how long a newcomer is observed before it gets a class.
    classes: by resource, `cpu` and perhaps `mem`. rows: request id as text -> row of `waves`. waves: float64 (n, 20),
    pulse waves of CPU use of requests that ran at the trace's end, by WAVE_COLUMNS, on local time.
    surplus_rules: by resource, what its surplus was learnt of at each of SEEN_S, of SURPLUS_RULES. document: the whole
    of usage.json, with training window and metrics. version: the first 12 hex digits of the manifest's sha256.
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
        """Expected use and its upper level, of a request that ran at the trace's end; None for any other."""
        row = self.rows.get(request_id)
        if row is None:
            return None
        numbers = self.waves[row].tolist()
        return _waves_of(numbers[:N_WAVE_NUMBERS // 2]), _waves_of(numbers[N_WAVE_NUMBERS // 2:])


def usage_files(clock: DayClock, observed_s: int, classes: Mapping[str, WorkloadClasses], request_ids: Sequence[str],
                waves: np.ndarray, about: Mapping[str, Any]) -> dict[str, bytes]:
    """The section's files by name, MANIFEST.json among them; the same content gives the same bytes.

    request_ids: of the rows of `waves`, float64 (n, 20). about: what else a reader should know, as
    `surplus_rules`; JSON values only.
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
    """Read and verify a usage section; one that is replaced meanwhile is read as it was before or is after.

    Raises BundleError naming the file and the reason: missing, wrong hash, wrong version, truncated, malformed.
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
    except Exception as error:  # whatever arrays that do not fit make numpy raise
        raise BundleError(f"{ARRAYS} must hold the section's arrays, got {type(error).__name__}: {error}") from error
    return UsageSection(clock, observed_s, classes, rows, waves, surplus_rules, document,
                        version_of(contents[MANIFEST]))


def check_usage_files(folder: str | Path) -> str:
    """The version of a folder whose files are those that its manifest vouches for; BundleError if not."""
    return _FILES.version(Path(folder))


def _rules(given: Any) -> dict[str, tuple[str, ...]]:
    """The rules of each resource, `classes` where a section says nothing."""
    if not isinstance(given, dict) or not set(given) <= set(RESOURCES):
        raise ValueError(f"surplus_rules must be by resource, {' and '.join(RESOURCES)}, got {shown(given)}")
    rules = {}
    for resource in RESOURCES:
        each = tuple(document_fields.texts(given.get(resource, [CLASSES] * len(SEEN_S)), "surplus_rules", len(SEEN_S)))
        if len(each) != len(SEEN_S) or not set(each) <= set(SURPLUS_RULES):
            raise ValueError(f"surplus_rules of {resource} must be {len(SEEN_S)} of {', '.join(SURPLUS_RULES)}, got "
                             f"{shown(each)}")
        rules[resource] = each
    return rules


def _classes(arrays: dict[str, np.ndarray], resource: str) -> WorkloadClasses:
    ids, centres, means, surplus, n_members = (arrays.pop(f"{resource}_{name}") for name in _CLASS_ARRAYS)
    if any(array.dtype != np.int64 or array.ndim != 1 for array in (ids, n_members)) or len(ids) > N_CLASSES_MAX:
        raise ValueError(f"{resource}_ids and {resource}_n_members must be at most {N_CLASSES_MAX} int64")
    if any(array.dtype != np.float64 or (array > _LARGEST).any() for array in (centres, means, surplus)):
        raise ValueError(f"{resource}_centres, means and surplus must be float64 of at most {_LARGEST:g}")
    k = len(ids)
    return WorkloadClasses(ids, _rows(centres, k), _rows(means, k), _rows(surplus, k), n_members)


def _rows(array: np.ndarray, n_rows: int) -> np.ndarray:
    """The array as rows of equal length; ValueError where it has two axes, or another number of elements."""
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
