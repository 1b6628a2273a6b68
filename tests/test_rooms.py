"""The rooms: what may import what, beyond the order that `make contracts` checks. All derived from the files.

A room is a folder within one of the five parts. Rooms of `flows` give no names in their `__init__`: importing one file
there must not load the libraries that its neighbours talk to.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from source_imports import BELOW_ALL, FILES, FOLDER, PARTS, export_order, imported, modules_in, modules_of, place

ROOT = Path(__file__).resolve().parents[1]
ROOMS = sorted({file.parent for file in FILES} - {FOLDER / part for part in PARTS})
OUTSIDE = {"mlflow": "flows/outside", "dask": "flows/outside", "distributed": "flows/outside",
           "onnxruntime": "serving/runtime.py", "sksurv": "models", "lightgbm": "models/lightgbm_library.py"}
"""A library, and the only folder or file of ours that talks to it."""
COMPILED = ("simulator/loop", "simulator/policies")
"""Folders of compiled code, besides kernel files."""
COMPILERS = {"simulator/jit.py", "simulator/engine/compilation.py", "simulator/engine/policy_check.py",
             "serving/kernel.py", "serving/jitable.py", "simulator/__init__.py"}
"""Files that compile, or pass on what compiles."""
NESTED = {"simulator/policies/usage": "above", "simulator/policies/wrappers": "above", "flows/compare/presets": "below"}
"""Rooms within rooms, and whether they stand above or below the files around them in the order of imports."""


def bypassed(text: str, folder: tuple[str, ...]) -> Iterator[str]:
    """Imports of another room that do not come through its `__init__`, or are not listed there.

    folder: of the text, from the part down. A file may import from its own room and from the rooms around it; kernel
    files, which need numba, are imported directly.
    """
    for module, name in imported(text, ("sojourn", *folder)):
        where = module[1:]
        if module[0] != "sojourn" or len(where) < 2 or where[0] == "flows":
            continue
        is_room = FOLDER.joinpath(*where).is_dir()
        room = where if is_room else where[:-1]
        if len(room) < 2 or room == folder[:len(room)] or where[-1].endswith("kernels") or name.endswith("kernels"):
            continue
        listed = importlib.import_module(".".join(("sojourn", *room))).__all__
        is_inner_room = FOLDER.joinpath(*where, name, "__init__.py").is_file() and name != ""
        if not is_room or (name and name not in listed and not is_inner_room):
            yield ".".join(("sojourn", *where, *filter(None, [name])))


def is_compiled(text: str, folder: tuple[str, ...]) -> bool:
    """Whether a source text asks for numba, or for what makes kernels, in whatever form."""
    doors = {("sojourn", "simulator", "jit"), ("sojourn", "serving", "kernel"),
             ("sojourn", "kept_kernels")}
    package = ("sojourn", *folder)
    return (any(module[0] in ("numba", "llvmlite") or module in doors for module in modules_of(text, package))
            or any(module[0] == "sojourn" and name == "kernel" for module, name in imported(text, package)))


@pytest.mark.parametrize("file", FILES, ids=place)
def test_names_of_another_room_come_through_its_init(file: Path) -> None:
    assert not list(bypassed(file.read_text(), file.relative_to(FOLDER).parts[:-1]))


@pytest.mark.parametrize("text", [
    "from sojourn.simulator.loop.state import World", "import sojourn.simulator.loop.state",
    "import sojourn.simulator.loop.state as state", "from sojourn.simulator.loop import state",
    "from ..loop.state import World", "from sojourn.simulator.loop import not_listed",
    "def f():\n    from sojourn.simulator.loop.state import World"])
def test_what_is_found_to_bypass(text: str) -> None:
    assert len(list(bypassed(text, ("simulator", "engine")))) == 1


@pytest.mark.parametrize("text", [
    "from sojourn.simulator.loop import World", "from sojourn.simulator.cluster import Cluster",
    "from sojourn.serving.forest.mask_kernels import narrow", "from sojourn.serving.forest import mask_kernels",
    "from sojourn.flows.store.lock import store_lock", "from sojourn.simulator.engine.world import prepare"])
def test_what_is_no_bypass(text: str) -> None:
    assert not list(bypassed(text, ("simulator", "engine")))


@pytest.mark.parametrize("room", ROOMS, ids=place)
def test_a_room_says_what_it_is_for_and_lists_what_it_gives(room: Path) -> None:
    assert (room / "__init__.py").is_file()
    module = importlib.import_module(".".join(("sojourn", *room.relative_to(FOLDER).parts)))
    assert module.__doc__
    if not place(room).startswith("flows/"):
        assert list(module.__all__) == sorted(module.__all__, key=export_order)
        assert all(hasattr(module, name) for name in module.__all__)


def test_what_all_may_import_imports_none_of_the_parts() -> None:
    assert {file.name for file in BELOW_ALL} >= {"__init__.py", "publishing.py", "source_closure.py"}
    assert not [(place(file), module) for file in BELOW_ALL for module in modules_in(file)
                if module[0] == "sojourn" and module[1:2] and module[1] in PARTS]


def test_the_simulator_imports_the_trace_and_nothing_else_of_features() -> None:
    found = {module for file in FILES if place(file).startswith("simulator/")
             for module in modules_in(file) if module[:2] == ("sojourn", "features")}
    assert found == {("sojourn", "features", "trace")}


@pytest.mark.parametrize("library", OUTSIDE)
def test_a_library_outside_is_talked_to_in_one_place(library: str) -> None:
    found = [place(file) for file in FILES if any(module[0] == library for module in modules_in(file))]
    assert not [file for file in found if not file.startswith(OUTSIDE[library])]
    assert found or library == "dask"


def test_compiled_code_stands_in_the_loop_in_policies_and_in_kernel_files() -> None:
    files = [*FILES, *BELOW_ALL]
    found = {place(file) for file in files if is_compiled(file.read_text(), file.relative_to(FOLDER).parts[:-1])}
    assert found >= COMPILERS
    assert not [file for file in found - COMPILERS if not file.startswith(COMPILED) and not file.endswith("kernels.py")]


@pytest.mark.parametrize("text", [
    "import numba", "from numba import njit", "import numba as nb", "from numba.extending import register_jitable",
    "from sojourn.simulator.jit import kernel as k", "from sojourn.simulator import jit",
    "import sojourn.serving.kernel", "from sojourn.simulator import kernel", "def f():\n    import numba",
    "class A:\n    from sojourn.simulator.jit import inner"])
def test_what_is_found_to_be_compiled(text: str) -> None:
    assert is_compiled(text, ("models",))
    assert not is_compiled("from sojourn.serving.jitable import register_jitable", ("serving", "curves"))


def test_rooms_within_rooms_stand_above_or_below_the_files_around_them() -> None:
    assert {place(room) for room in ROOMS if len(room.relative_to(FOLDER).parts) > 2} == NESTED.keys()
    for inner, where in NESTED.items():
        room, around = FOLDER / inner, (FOLDER / inner).parent
        upper, lower = (room, around) if where == "above" else (around, room)
        bad = ("sojourn", *upper.relative_to(FOLDER).parts)
        for file in sorted(lower.glob("*.py")):
            found = [module for module in modules_in(file) if module[:len(bad)] == bad]
            assert not [module for module in found if where == "above" or module[:len(bad) + 1] != (*bad, room.name)]


def layers() -> dict[str, list[set[str]]]:
    """The order of imports within each part, by the contracts, lowest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return {contract["containers"][0].split(".")[1]: [set(layer.split(" | ")) for layer in reversed(contract["layers"])]
            for contract in contracts if contract["type"] == "layers"}


def test_the_architecture_page_has_the_order_of_the_contracts() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    for part, order in layers().items():
        row = re.search(rf"^\| `{part}` \| (.*`.*;.*) \|$", page, re.MULTILINE)
        assert row is not None, part
        shown = [set(re.findall(r"`(\w+)`|\[(\w+)\]", layer)) for layer in row[1].split(";")]
        assert [{"".join(names) for names in layer} for layer in shown] == order, part


def named_in_backticks() -> Iterator[tuple[str, str]]:
    """Dotted names of ours in the docs, docstrings and comments, and the file that names each."""
    pattern = re.compile(rf"`((?:{'|'.join(PARTS)})(?:\.[A-Za-z_]\w*)+)`")
    for file in [*FILES, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        yield from ((name, file.name) for name in pattern.findall(file.read_text()) if name[-3:] not in (".md", ".py"))


def is_there(name: str) -> bool:
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        path = FOLDER.joinpath(*parts[:n])
        if path.is_dir() or path.with_suffix(".py").is_file():
            found = importlib.import_module(".".join(("sojourn", *parts[:n])))
            for attribute in parts[n:]:
                if not hasattr(found, attribute):
                    return attribute in getattr(found, "__annotations__", {})
                found = getattr(found, attribute)
            return True
    return False


def test_dotted_names_in_docs_and_docstrings_are_there() -> None:
    found = list(named_in_backticks())
    assert len(found) > 10
    assert not [(name, file) for name, file in found if not is_there(name)]
    assert not is_there("flows.predictors") and not is_there("serving.curve.fill_hazard")
