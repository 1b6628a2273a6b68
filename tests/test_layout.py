"""The house: five linked folders, one import name, and what importing each part may load."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from source_imports import FILES, FOLDER, PARTS, export_order, modules_in

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_a_relative_link_to_its_folder(part: str) -> None:
    link = ROOT / "src" / "sojourn" / part
    assert link.is_symlink()
    assert str(link.readlink()) == f"../../{part}"
    assert link.resolve() == ROOT / part


def test_nothing_is_imported_under_two_names() -> None:
    for part in PARTS:
        importlib.import_module(f"sojourn.{part}")
    by_file: dict[str, set[str]] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and any(Path(file).resolve().is_relative_to(ROOT / part) for part in PARTS):
            by_file.setdefault(str(Path(file).resolve()), set()).add(name)
    doubles = {file: names for file, names in by_file.items() if len(names) > 1}
    assert not doubles
    assert not any(name.split(".")[0] in PARTS for name in sys.modules)


@pytest.mark.parametrize("part", PARTS)
def test_exports_are_sorted_and_present(part: str) -> None:
    module = importlib.import_module(f"sojourn.{part}")
    assert list(module.__all__) == sorted(module.__all__, key=export_order)
    assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize(("part", "banned"), [
    ("serving", ("pandas", "lightgbm", "sksurv", "mlflow", "prefect", "sklearn")),
    ("features", ("lightgbm", "sksurv", "mlflow", "prefect", "onnxruntime", "sklearn")),
    ("simulator", ("lightgbm", "sksurv", "mlflow", "prefect", "onnxruntime", "sklearn")),
])  # fmt: skip
def test_importing_a_part_loads_only_what_it_needs(part: str, banned: tuple[str, ...]) -> None:
    code = f"import sys, sojourn.{part}; print([n for n in {banned!r} if n in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_no_file_imports_itself_by_way_of_others() -> None:
    """Imports within functions and those for type checkers alone count as well."""
    files = {_module_name(file.relative_to(FOLDER)): file for file in FILES}
    assert len(files) > 200
    left = {name: {".".join(module) for module in modules_in(file)} & files.keys() - {name}
            for name, file in files.items()}
    while ends := [name for name, imported in left.items() if not imported & left.keys()
                   or not any(name in others for others in left.values())]:
        for name in ends:
            del left[name]
    assert not left


def _module_name(path: Path) -> str:
    return ".".join(("sojourn", *path.with_suffix("").parts)).removesuffix(".__init__")
