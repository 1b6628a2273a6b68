"""The requests of README's example and of `examples/` are of owners that the installed model knows."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from sojourn.serving import Predictor, example_bundle

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "examples/admission.py", "examples/predict.py", "examples/restart.py")


def test_the_owners_of_the_examples_are_known_to_the_bundle() -> None:
    predictor = Predictor.load(example_bundle())
    for page in PAGES:
        owners = re.findall(r'"subscription": "(\w+)"', (ROOT / page).read_text())
        assert owners, page
        for owner in owners:
            assert not predictor.predict({"subscription": owner}, now_s=1_706_486_400).not_seen, (page, owner)


def test_the_trace_of_make_run_is_there_with_its_acknowledgement() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.search(r"sojourn train (\S+)", makefile)
    assert named is not None
    with gzip.open(ROOT / named[1], "rt") as file:
        assert "Acknowledge: Bill Nitzberg" in file.read(2_000)
