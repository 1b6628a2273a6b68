"""What README's example takes as given is there after `make run`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sojourn.features.synthetic import synthesize
from sojourn.flows.settings.retrain import RetrainConfig

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/tutorials/import_the_predictor.md", "examples/admission.py", "examples/predict.py",
         "examples/restart.py")


@pytest.fixture(scope="module")
def owners() -> set[str]:
    """Owners of the trace that `make run` makes, whose whole history its bundle carries."""
    made = RetrainConfig()
    trace = synthesize(made.n_requests, seed=made.seed)
    return set(trace.requests.loc[trace.is_event(), "subscription"].astype(str))


@pytest.mark.parametrize("page", PAGES)
def test_the_owner_of_the_example_is_known_to_the_bundle(page: str, owners: set[str]) -> None:
    named = re.findall(r'"subscription": "(\w+)"', (ROOT / page).read_text())
    assert named and set(named) <= owners
