"""The rooms: each says what it is for, and names from another room of the four libraries come through its `__init__`.

Which room may import which is checked by `make contracts`. Rooms of `flows` have no names in their `__init__`:
importing one file there must not load the libraries that its neighbours talk to.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import sojourn

FOLDER = Path(sojourn.__path__[0])
PARTS = ("features", "flows", "models", "serving", "simulator")
ROOMS = [init.parent for part in PARTS for init in sorted((FOLDER / part).rglob("__init__.py"))
         if init.parent != FOLDER / part]
FILES = [file for part in PARTS for file in sorted((FOLDER / part).rglob("*.py"))]


def bypassed(tree: ast.AST, folder: tuple[str, ...]) -> Iterator[str]:
    """Files of other rooms that a file imports names from directly; not kernel files, which need numba.

    folder: of the file, from the package down. A file may import from its own room and from the rooms around it.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module is None or node.module.split(".")[0] != "sojourn":
            continue
        *room, name = node.module.split(".")[1:] or [""]
        is_file = FOLDER.joinpath(*room, f"{name}.py").is_file()
        is_in_room = len(room) > 1 and room[0] != "flows" and tuple(room) != folder[:len(room)]
        if is_file and is_in_room and not name.endswith("kernels"):
            yield node.module


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_names_of_another_room_come_through_its_init(file: Path) -> None:
    assert not list(bypassed(ast.parse(file.read_text()), file.relative_to(FOLDER).parts[:-1]))


def test_what_is_found() -> None:
    tree = ast.parse("from sojourn.simulator.loop.state import World\n"
                     "from sojourn.simulator.loop import World\n"
                     "from sojourn.simulator.cluster import Cluster\n"
                     "from sojourn.serving.forest.mask_kernels import narrow\n"
                     "from sojourn.flows.store.lock import store_lock\n")
    assert list(bypassed(tree, ("simulator", "engine"))) == ["sojourn.simulator.loop.state"]
    assert list(bypassed(tree, ("simulator", "loop"))) == []


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(FOLDER)))
def test_a_room_says_what_it_is_for_and_lists_what_it_gives(room: Path) -> None:
    parts = room.relative_to(FOLDER).parts
    module = importlib.import_module(".".join(("sojourn", *parts)))
    assert module.__doc__
    if parts[0] != "flows":
        order = [(0 if name.isupper() else 1 if name[0].isupper() else 2, name) for name in module.__all__]
        assert order == sorted(order)
        assert all(hasattr(module, name) for name in module.__all__)


def is_compiled(tree: ast.Module) -> bool:
    """Whether a file has functions at its top that numba compiles."""
    return any(isinstance(node, ast.FunctionDef) and any(
        isinstance(decorator, ast.Name) and decorator.id in ("kernel", "inner", "inlined")
        for decorator in node.decorator_list) for node in tree.body)


def test_compiled_code_stands_in_the_loop_in_policies_and_in_kernel_files() -> None:
    found = {file.relative_to(FOLDER) for file in FILES if is_compiled(ast.parse(file.read_text()))}
    rooms = {Path("simulator/loop"), Path("simulator/policies"), Path("simulator/policies/wrappers")}
    assert {file.parent for file in found} > rooms
    assert not [str(file) for file in found if file.parent not in rooms and not file.stem.endswith("kernels")]
