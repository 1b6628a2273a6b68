"""What help, and the refusal of a missing trace, load: a library of this list would take longer than all else there."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("alembic", "distributed", "fastapi", "flask", "httpx", "lightgbm", "matplotlib", "mlflow", "numba", "numpy",
         "onnxruntime", "optuna", "pandas", "plotly", "prefect", "pyarrow", "pydantic", "requests", "scipy", "sklearn",
         "sksurv", "sqlalchemy", "statsmodels")  # fmt: skip
_ASK = """
import sys
sys.argv = {arguments!r}
from sojourn.flows.entry import main
try:
    main()
except SystemExit as end:
    assert end.code == {code}, end.code
print("loaded", *sorted({{name.partition(".")[0] for name in sys.modules}} & set({heavy!r})))
print("own", *sorted(name for name in sys.modules if name.startswith("sojourn.")))
"""


@pytest.mark.parametrize(("arguments", "loaded_by_typer"), [
    (["--help"], []),
    (["trace", "--help"], ["pydantic"]),  # typer finds a command and checks its options with it
    (["model", "rollback", "--help"], ["pydantic"]),
    (["model", "list", "--help"], ["pydantic"]),
])  # fmt: skip
def test_help_loads_no_heavy_library(arguments: list[str], loaded_by_typer: list[str]) -> None:
    page, loaded = _loaded(arguments, 0)
    assert "Usage: sojourn" in page
    assert loaded == loaded_by_typer


def test_a_trace_that_is_not_there_is_told_before_libraries_are_loaded() -> None:
    assert _loaded(["train", "/no/such/file", "--reader", "swf"], 2) == ("", ["pydantic"])


def _loaded(arguments: list[str], code: int) -> tuple[str, list[str]]:
    """What a command prints that ends with this code, and which of the heavy libraries it loads."""
    text = _ASK.format(arguments=["sojourn", *arguments], heavy=HEAVY, code=code)
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    *page, loaded, own = found.splitlines()
    outside = [name for name in own.split()[1:] if name.startswith(("sojourn.features", "sojourn.models",
                                                                    "sojourn.serving", "sojourn.simulator"))]
    assert outside == []
    return "\n".join(page), loaded.split()[1:]
