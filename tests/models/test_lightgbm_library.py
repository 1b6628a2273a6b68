"""The threads' setting is there when LightGBM's OpenMP runtime starts, whoever fits first, and a user's own stays."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FIT = """
import builtins, os, sys
import numpy as np

def watched(name, *rest, **kwargs):
    if name == "lightgbm" and "lightgbm" not in sys.modules:
        print(os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_WAIT_POLICY"))
    return imported(name, *rest, **kwargs)

imported, builtins.__import__ = builtins.__import__, watched
from sojourn.models.lifetime import Rows
from sojourn.models.lifetime.gbdt import boost
rows = Rows(np.arange(40.0)[:, None], np.arange(40.0))
print(boost("regression", rows, None, n_varying=0, n_rounds=1, n_threads=1).n_rounds)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("own", "seen"), [
    ({}, "1000 None"),
    ({"GOMP_SPINCOUNT": "7"}, "7 None"),
    ({"OMP_WAIT_POLICY": "active"}, "None active"),
])  # fmt: skip
def test_the_setting_stands_before_the_runtime_starts(own: dict[str, str], seen: str) -> None:
    given = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", FIT], env={**given, **own}, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == [seen, "1"]
