"""Which source decides what a module does: found by lines, and nothing missed that the syntax trees have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sojourn
from sojourn.source_closure import PACKAGE, Import, NoSource, SourceTree, imports_in, installed

FOLDER = Path(sojourn.__path__[0])
FILES = sorted(file for part in FOLDER.iterdir() for file in (part.rglob("*.py") if part.is_dir() else [part])
               if file.suffix == ".py")

KEPT_UNDER = ("sojourn.serving.forest.mask_kernels", "sojourn.features.synthetic", "sojourn.features.readers.swf",
              "sojourn.flows.retrain.features", "sojourn.flows.retrain.train",
              "sojourn.flows.placement.predictors", "sojourn.flows.compare.cells")


def name_of(file: Path) -> str:
    return ".".join([PACKAGE, *file.relative_to(FOLDER).with_suffix("").parts]).removesuffix(".__init__")


def parsed(tree: ast.AST) -> Iterator[Import]:
    """The imports of a syntax tree, those for type checkers apart."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield from (Import(node.module, alias.name) for alias in node.names)
        elif not isinstance(node, ast.expr) and not (
                isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from parsed(node)


def test_no_import_is_missed() -> None:
    for file in FILES:
        text = file.read_text()
        found = set(imports_in(text, name_of(file)))
        exact = set(parsed(ast.parse(text)))
        assert exact <= found, file
        strangers = {one.module for one in found - exact if not one.module.startswith(PACKAGE)}
        assert not strangers or "import" in text.partition('"""')[2], (file, strangers)


def test_every_form_of_import_is_read() -> None:
    text = """
from __future__ import annotations
import os, sojourn.a as b, sojourn.c  # and no more
from sojourn.d import (
    one,  # of them
    two as three,
)
from sojourn.e import four, \\
    five
from . import six
from ..up.f import seven
from sojourn.g import *
if TYPE_CHECKING:
    from sojourn.not_this import eight

    from sojourn.nor_this import nine
else:
    from sojourn.h import ten

def lazily():
    if True:
        from sojourn.i import(eleven)
"""
    assert {one for one in imports_in(text, "sojourn.here.within") if one.module != "__future__"} == {
        Import("os", None), Import("sojourn.a", None), Import("sojourn.c", None), Import("sojourn.d", "one"),
        Import("sojourn.d", "two"), Import("sojourn.e", "four"), Import("sojourn.e", "five"),
        Import("sojourn.here.within", "six"), Import("sojourn.here.up.f", "seven"), Import("sojourn.g", None),
        Import("sojourn.h", "ten"), Import("sojourn.i", "eleven")}


def test_names_of_modules_that_are_imported_by_a_computed_name_count() -> None:
    registry = 'KNOWN = {"a": "sojourn.features.readers.swf:read_swf", "b": ".near"}\n'
    assert not list(imports_in(registry, "sojourn.here"))
    assert list(imports_in(registry + "def get(name): return import_module(KNOWN[name])\n", "sojourn.here")) == [
        Import("sojourn.features.readers.swf", None), Import("sojourn.here.near", None)]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A small package: a module, one that it needs, a package that passes a name on, and what it gathers besides."""
    files = {
        "__init__": "",
        "maker": "from sojourn.parts import part, LIST_OF_ALL\n\ndef make():\n    import sojourn.lazily\n",
        "lazily": "import numpy as np\n", "other": "from sojourn.maker import make\nimport pandas\n",
        "parts/__init__": "from sojourn.parts.one import part\nfrom sojourn.parts.two import drawn\nLIST_OF_ALL = 1\n",
        "parts/one": "from sojourn.parts import three\n", "parts/two": "import matplotlib\n", "parts/three": "",
    }  # fmt: skip
    for name, text in files.items():
        file = tmp_path / PACKAGE / f"{name}.py"
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text)
    return tmp_path / PACKAGE


def test_a_closure_is_what_a_module_needs(made: Path) -> None:
    tree = SourceTree(made)
    assert list(tree.closure("sojourn.parts.one")) == ["sojourn.parts.one", "sojourn.parts.three"]
    # LIST_OF_ALL is made by the package itself, so all that it imports counts
    assert list(tree.closure("sojourn.maker")) == [
        f"sojourn.{name}" for name in ("lazily", "maker", "parts", "parts.one", "parts.three", "parts.two")]
    (made / "maker.py").write_text("from sojourn.parts import part\n")
    assert list(SourceTree(made).closure("sojourn.maker")) == [
        "sojourn.maker", "sojourn.parts.one", "sojourn.parts.three"]


@pytest.mark.parametrize("text", ["part = part\n", "def part(): ...\n", "from sojourn.parts.two import x as part\n",
                                  "def __getattr__(name): ...\n"])
def test_a_name_that_a_package_binds_itself_is_its_own(made: Path, text: str) -> None:
    with (made / "parts" / "__init__.py").open("a") as file:
        file.write(text)
    (made / "maker.py").write_text("from sojourn.parts import part\n")
    assert "sojourn.parts.two" in SourceTree(made).closure("sojourn.maker")


def test_what_is_no_module_of_ours_is_refused(made: Path) -> None:
    for name in ("sojourn.nowhere", "numpy", "sojourn.maker.make"):
        with pytest.raises(ValueError, match=f"modules must be modules of sojourn, got '{name}'"):
            SourceTree(made).hash(name)


def test_a_module_without_source_is_told(made: Path) -> None:
    (made / "lazily.py").rename(made / "lazily.pyc")
    with pytest.raises(NoSource, match=r"sojourn\.lazily must .*, got lazily\.pyc alone"):
        SourceTree(made).hash("sojourn.maker")


@pytest.mark.slow
def test_an_edit_within_a_closure_changes_its_hash_and_one_outside_does_not() -> None:
    """What kernels, traces, features, cells and curves are kept under, against an edit of each file of ours."""
    tree = SourceTree(FOLDER)
    before = {name: tree.hash(name) for name in KEPT_UNDER}
    unseen = []
    for module in map(name_of, FILES):
        source = tree._source(module)
        assert source is not None
        tree._files[module] = source + b"# an edit\n"
        is_new = {name: tree.hash(name) != before[name] for name in KEPT_UNDER}
        assert is_new == {name: module in installed().closure(name) for name in KEPT_UNDER}, module
        tree._files[module] = source
        unseen += [] if any(is_new.values()) else [module]
    assert {"sojourn.simulator.page.page", "sojourn.simulator.page.static_figures", "sojourn.flows.cli"} <= set(unseen)


def test_an_edit_on_disk_changes_the_hash(made: Path) -> None:
    before = SourceTree(made).hash("sojourn.maker")
    (made / "other.py").write_text("OTHER = 1\n")
    assert SourceTree(made).hash("sojourn.maker") == before
    (made / "lazily.py").write_text("import scipy\n")
    assert SourceTree(made).hash("sojourn.maker") != before
