"""A terminal without ticks and boxes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
from sojourn.flows.cli import app
from rich.table import Table
from sojourn.flows.console import console, stage
with stage("work"):
    pass
table = Table("a", title="×1.78 …")
table.add_row("✗ 字 \\udcff")
console.print(table)
app(["model", "predict", "/none ✓", "{}"])
"""


@pytest.mark.parametrize("encoding", ["ascii", pytest.param("latin-1", marks=pytest.mark.slow), "utf-8"])
def test_what_cannot_be_encoded_is_shown_as_something_near(encoding: str) -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, "PYTHONIOENCODING": encoding},
                           capture_output=True, check=False)
    # click itself writes UTF-8 where it finds ASCII
    out, err = found.stdout.decode(encoding), found.stderr.decode(encoding, "replace")
    assert found.returncode == 2, err
    assert err.startswith("error: /none ")
    if encoding == "utf-8":
        assert all(part in out for part in ("✓ work", "×1.78 …", "✗ 字 ?"))
    else:
        assert all(part in out for part in ("+ work", "1.78 ...", "x ? ?"))
