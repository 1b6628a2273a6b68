"""The model that is installed with Sojourn: small, loadable, and what today's code learns."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from learnt_bundle import learn_trace
from sojourn.features.synthetic import synthesize
from sojourn.serving import Predictor, example_bundle, load_bundle

N_REQUESTS, SEED = 10_000, 0
REQUESTS = [{"subscription": f"s{owner}", "cpu_cores": n_cores, "mem_gib": 4 * n_cores, "zone": "z0"}
            for owner in range(8) for n_cores in (1, 2, 8)]


def schema(folder: Path) -> object:
    """What a bundle says of itself. Floats are rounded: the last bit of a logarithm differs between processors."""
    return json.loads((folder / "schema.json").read_text(), parse_float=lambda text: f"{float(text):.12g}")


def answers(folder: Path) -> np.ndarray:
    """Mean seconds that are left at three uptimes. Shape (requests, 3)."""
    predictor = Predictor.load(folder)
    rows = [predictor.predict(request, now_s=1_706_486_400) for request in REQUESTS]
    return np.array([[row.remaining(uptime_s) for uptime_s in (0, 3_600, 86_400)] for row in rows])


def test_it_answers_and_is_small() -> None:
    folder = example_bundle()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 300_000
    load_bundle(folder)
    hours = answers(folder) / 3_600
    assert (hours > 0).all()
    assert (hours[:, 1] > hours[:, 0]).all(), "who outlived an hour stays longer"


@pytest.mark.slow
def test_it_is_what_todays_code_learns(tmp_path: Path) -> None:
    """EXAMPLE_BUNDLE=write puts the bundle of today in its place."""
    learnt = learn_trace(synthesize(N_REQUESTS, seed=SEED), tmp_path).folder
    if os.environ.get("EXAMPLE_BUNDLE") == "write":
        shutil.rmtree(example_bundle(), ignore_errors=True)
        shutil.copytree(learnt, example_bundle())
    assert schema(learnt) == schema(example_bundle())
    np.testing.assert_allclose(answers(example_bundle()), answers(learnt), rtol=1e-9,
                               err_msg=f"EXAMPLE_BUNDLE=write pytest -m slow {__file__}")
