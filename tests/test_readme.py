"""What README's example takes as given is there after `make run`."""

from __future__ import annotations

import re
from pathlib import Path

from sojourn.features.synthetic import synthesize
from sojourn.flows.settings.retrain import RetrainConfig

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/tutorials/import_the_predictor.md", "examples/admission.py", "examples/predict.py",
         "examples/restart.py")


def test_the_owners_of_the_examples_are_known_to_the_bundle() -> None:
    """`make run` makes this trace, and its bundle carries the whole history of its owners."""
    made = RetrainConfig()
    trace = synthesize(made.n_requests, seed=made.seed)
    owners = set(trace.requests.loc[trace.is_event(), "subscription"].astype(str))
    for page in PAGES:
        named = re.findall(r'"subscription": "(\w+)"', (ROOT / page).read_text())
        assert named and set(named) <= owners, page
