"""What help loads: a library of this list would take longer than all else that a help page needs."""

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
    assert end.code == 0, end.code
print("loaded", *sorted({{name.partition(".")[0] for name in sys.modules}} & set({heavy!r})))
print("own", *sorted(name for name in sys.modules if name.startswith("sojourn.")))
"""


@pytest.mark.parametrize(("arguments", "loaded_by_typer"), [
    (["--help"], []),
    (["trace", "--help"], ["pydantic"]),  # typer finds a command and checks its options with it
    (["rollback", "--help"], ["pydantic"]),
    (["versions", "--help"], ["pydantic"]),
])  # fmt: skip
def test_help_loads_no_heavy_library(arguments: list[str], loaded_by_typer: list[str]) -> None:
    code = _ASK.format(arguments=["sojourn", *arguments], heavy=HEAVY)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    *page, loaded, own = found.splitlines()
    assert "Usage: sojourn" in "\n".join(page)
    assert loaded.split()[1:] == loaded_by_typer
    outside = [name for name in own.split()[1:] if name.startswith(("sojourn.features", "sojourn.models",
                                                                    "sojourn.serving", "sojourn.simulator"))]
    assert outside == []
