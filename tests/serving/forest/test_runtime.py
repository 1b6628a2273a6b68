"""What ONNX Runtime does besides running the model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from made_bundles import Made

PROGRAM = "import sys; from sojourn.serving import Predictor; Predictor.load(sys.argv[1]).predict({}, 0).remaining(0)"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hazard", "once"])
def test_the_predictor_leaves_no_event_for_anyone(made: Made, tmp_path: Path, kind: str) -> None:
    """A home that is empty stays so: neither a database of events nor a number for the device."""
    environment = {name: value for name, value in os.environ.items()
                   if name != "ORT_DISABLE_TELEMETRY" and not name.startswith("XDG_")}
    subprocess.run([sys.executable, "-c", PROGRAM, str(made.folders[kind])], check=True,
                   env=environment | {"HOME": str(tmp_path)})
    assert [path.name for path in tmp_path.rglob("*") if "onnxruntime" in str(path).lower()] == []
