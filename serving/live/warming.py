"""Compiles all kernels of serving before they are needed: when an image is built, not at a predictor's first start."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sojourn.serving.bundle import Schema, example_bundle, load_bundle
from sojourn.serving.curves import IS_COMPILED, HazardCurve, ModelNumbers
from sojourn.serving.forest import AgeFeatures, Forest, RangeWalk, varying_walk
from sojourn.serving.live.live_habits import LiveHabits
from sojourn.serving.live.pool import CurvePool, HostExits

_EDGES, _RESIDUALS = (0.0, 1.0, 2.0), (-0.1, 0.1)
_NUMBERS = {
    "hazard": ModelNumbers(_EDGES, (0.0, 0.0), _EDGES),
    "hazard-limit": ModelNumbers(_EDGES, (0.0, 0.0, 0.0), _EDGES, shares=(0.5, 1.0), limit_place=0),
    "uptime": ModelNumbers(residuals=_RESIDUALS),
    "once": ModelNumbers(residuals=_RESIDUALS),
}
"""The numbers of a smallest model of each kind of `KINDS`."""
_NAME_ONE = "name one that this user may write by NUMBA_CACHE_DIR"


def warm() -> str:
    """Compile what is not kept yet of the kernels of serving, for each kind of model, pools and hosts; what was done.

    They are kept in `sojourn` in the folder that NUMBA_CACHE_DIR names, else in the user's cache, for this version of
    the source and this type of processor. OSError if something had to be compiled and can't be kept;
    ModuleNotFoundError without numba (`sojourn[fast]`).
    """
    if not IS_COMPILED:
        raise ModuleNotFoundError("warm needs numba, which is not installed: in a checkout, pip install '.[fast]'")
    from sojourn.kept_kernels import FORMS, cache_folder

    started_s, before = time.perf_counter(), set(FORMS)
    folder = cache_folder()
    if folder is None:
        raise OSError(f"the cache folder must be one that may be written, got none: {_NAME_ONE}")
    encoder = load_bundle(example_bundle()).schema.encoder
    for kind, numbers in _NUMBERS.items():
        _load(Schema(kind, "", encoder, numbers, {}))
    CurvePool()
    HostExits(1)
    compiled = [path for path in FORMS if FORMS[path] and path not in before]
    if not all(path.is_file() for path in compiled):
        raise OSError(f"{folder} must be a folder that may be written, got one where compiled kernels can't be kept: "
                      f"{_NAME_ONE}")
    names = sorted({path.name.partition("-")[0].partition(".")[2] for path in compiled})
    done = f"{len(names)} kernels" if names else "nothing, all kernels were kept"
    listed = f"kernels   {', '.join(names)}\n" if names else ""
    return f"compiled  {done}, {time.perf_counter() - started_s:.1f} s\n{listed}kept in   {folder}"


def main(arguments: Sequence[str] | None = None, prog: str | None = "sojourn serve warm") -> int:
    """Print what `warm` did; 0, or 2 with one line on standard error if nothing can be kept."""
    argparse.ArgumentParser(prog, description="Compile all kernels of serving, so that no predictor's start does. They "
                            "are kept in NUMBA_CACHE_DIR, else in the user's cache.").parse_args(arguments)
    try:
        print(warm())
    except (OSError, ModuleNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _load(schema: Schema) -> None:
    """All kernels that a model of this schema needs, by a forest without splits."""
    kind, names, numbers = schema.curves, schema.encoder.feature_names(), schema.numbers
    if kind.has_age_features:
        ages = np.arange(len(numbers.offsets) + 1.0)
        schema = replace(schema, numbers=replace(numbers, age_features=AgeFeatures.of(names, ages)))
    numbers, forest = schema.numbers, Forest.without_splits(schema.n_features)
    grid, walked = kind.grid(numbers, forest), forest if kind.is_varying else forest.with_spare()
    features = [math.nan] * len(names)
    rows = np.array([[*features, *[0.0] * (walked.n_features - len(names))]])
    for walk in (varying_walk(walked, grid, numbers.age_features), RangeWalk(walked, grid, numbers.age_features)):
        curve = kind.made(numbers, grid).of_scores(walk.scores(rows)[0], features)
    if isinstance(curve, HazardCurve):
        LiveHabits.empty(schema)
