"""examples/openstack/sojourn_weigher.py within the real nova of PyPI, in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace
from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import split_by_time
from sojourn.models import LIFETIME_MODELS, FitSettings, write_bundle
from sojourn.serving import load_bundle
from sojourn.serving.inputs import HistoryState

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "openstack"
NOVA = "34.0.0"
HOUR_S = 3_600
_TOO_LONG_S = 120


def _trace(seed: int) -> Trace:
    """VMs of a project that runs for about 5 hours, and of one that runs for about 20 days."""
    rng = np.random.default_rng(seed)
    n = 1_200
    is_web = rng.random(n) < 0.5
    arrival_s = np.sort(rng.integers(0, 90 * 24 * HOUR_S, n))
    lifetime_s = np.where(is_web, 480, 5) * HOUR_S * rng.uniform(0.8, 1.2, n)
    end_s = (arrival_s + lifetime_s).astype(np.int64)
    horizon_s = 100 * 24 * HOUR_S
    project = np.where(is_web, "web", "batch")
    requests = pd.DataFrame({
        "request_id": np.arange(n), "arrival_s": arrival_s, "departure_s": pd.array(end_s, "Int64"), "cpu_cores": 2.0,
        "mem_gib": 4.0, "project_id": project, "user_id": [f"{name}-1" for name in project],
        "availability_zone": "az1", "disk_gib": 20.0})
    requests.loc[requests["departure_s"] > horizon_s, "departure_s"] = pd.NA
    begin_s = int(time.time()) - horizon_s
    return Trace(requests, horizon_s, Roles(("project_id", "user_id"), ("availability_zone",), ("disk_gib",))
                 ).moved(begin_s, begin_s)


def _bundle(folder: Path, seed: int) -> Path:
    trace = _trace(seed)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    rows = build_rows(trace, encoder, history)
    split = split_by_time(rows)
    exported = LIFETIME_MODELS["hazard"]().fit(split.train, split.valid, split.past, FitSettings(
        backoff_keys(encoder), 1, 0, names=rows.names)).export()
    assert exported is not None
    about = {"training": {"start_unix_s": trace.meta["start_unix_s"]}}
    return write_bundle(folder, "hazard", exported, encoder, history, about)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What nova did; skipped where it cannot be installed."""
    at = tmp_path_factory.mktemp("nova")
    uv, python = Path(sys.executable).with_name("uv"), str(at / "env" / "bin" / "python")
    venv.create(at / "env", with_pip=not uv.exists())
    tool = [str(uv), "pip", "install", "--python", python] if uv.exists() else [python, "-m", "pip", "install"]
    try:
        done = subprocess.run([*tool, "-q", f"nova=={NOVA}", "onnxruntime", "numpy"], capture_output=True, text=True,
                              timeout=_TOO_LONG_S, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"nova {NOVA} was not installed within {_TOO_LONG_S} s")
    if done.returncode:
        pytest.skip(f"nova {NOVA} cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
    bundles = [_bundle(at / f"bundle-{seed}", seed) for seed in (1, 2)]
    ran = subprocess.run([python, EXAMPLES / "check_weigher.py", *bundles], capture_output=True, text=True, check=False,
                         timeout=120, cwd=at,
                         env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "HOME": str(at)})
    assert ran.returncode == 0, ran.stderr
    read: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return {**read, "versions": [load_bundle(folder).version for folder in bundles]}


@pytest.mark.slow
def test_nova_finds_the_weigher_beside_its_own(found: dict[str, Any]) -> None:
    assert found["classes"] == ["RAMWeigher", "SojournWeigher"]


@pytest.mark.slow
def test_a_vm_goes_where_it_extends_the_exit_least(found: dict[str, Any]) -> None:
    """20 days extend an empty host and one of 5 hours by more than a week: -10 of -10. Within the long host: 0."""
    assert found["web"][0] == ["long", 10.0]
    assert dict(map(tuple, found["web"]))["empty"] == dict(map(tuple, found["web"]))["short"] == 0.0
    batch = dict(map(tuple, found["batch"]))
    assert batch["long"] == batch["short"] == 10.0
    assert batch["empty"] in (3.0, 4.0)  # 4 to 6 hours are bucket 6 of 10, 6 to 12 hours 7


@pytest.mark.slow
def test_other_weighers_count_beside_it(found: dict[str, Any]) -> None:
    assert found["with_ram"][0] == ["long", 11.0]  # most free memory, too


@pytest.mark.slow
def test_an_unknown_project_is_weighed(found: dict[str, Any]) -> None:
    assert {name for name, _ in found["stranger"]} == {"empty", "short", "long"}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["damaged", "none", "half_known"])
def test_where_something_cannot_be_read_all_hosts_weigh_the_same(found: dict[str, Any], case: str) -> None:
    assert len({weight for _, weight in found[case]}) == 1


@pytest.mark.slow
def test_another_bundle_is_served_when_it_is_published(found: dict[str, Any]) -> None:
    assert found["version"] == found["versions"] and len(set(found["versions"])) == 2


def test_the_class_is_short() -> None:
    assert len((EXAMPLES / "sojourn_weigher.py").read_text().splitlines()) <= 80
