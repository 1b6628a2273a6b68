"""What import-linter and ruff cannot check: links, faces of rooms, what an import loads, names and links of the docs.

A room is a folder within one of the five parts. Rooms of `flows` give no names in their `__init__`: importing one file
there must not load the libraries that its neighbours talk to.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import sojourn

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(sojourn.__path__[0])
PARTS = ("features", "flows", "models", "serving", "simulator")
FILES = [*FOLDER.glob("*.py"), *(file for part in PARTS for file in sorted((FOLDER / part).rglob("*.py")))]
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
         *sorted((ROOT / "docs").rglob("*.md"))]
BANNED = {"serving": "pandas lightgbm sksurv mlflow prefect sklearn starlette",
          "features": "lightgbm sksurv mlflow prefect onnxruntime sklearn",
          "simulator": "lightgbm sksurv mlflow prefect onnxruntime sklearn"}
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_OUTSIDE = re.compile(r"[a-z]+:")


def bypassed(text: str, folder: tuple[str, ...]) -> Iterator[str]:
    """Private names of other files that a text imports, and names of another room that its `__init__` does not list.

    folder: of the text, from the package down. A private file may be used within its folder; a file may import from
    the rooms around it; kernel files, which need numba, and files of flows are imported directly.
    """
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        waiting += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr)]  # none imports
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sojourn."):
            modules = [(*node.module.split(".")[1:], alias.name) for alias in node.names]  # type: ignore[union-attr]
        elif isinstance(node, ast.Import):
            modules = [tuple(alias.name.split(".")[1:]) for alias in node.names if alias.name.startswith("sojourn.")]
        else:
            continue
        for path in modules:
            is_file = FOLDER.joinpath(*path).is_dir() or FOLDER.joinpath(*path).with_suffix(".py").is_file()
            room = path[:next(n for n in range(len(path), -1, -1) if FOLDER.joinpath(*path[:n]).is_dir())]
            if any(re.match("_[^_]", part) and (folder[:at] != path[:at] or (at == len(path) - 1 and not is_file))
                   for at, part in enumerate(path)):
                yield ".".join(path)
            elif (len(room) < 2 or room == path or room == folder[:len(room)] or path[0] == "flows"
                  or any(part.endswith("kernels") for part in path)):
                continue
            elif len(path) > len(room) + 1 or path[-1] not in importlib.import_module(
                    ".".join(("sojourn", *room))).__all__:
                yield ".".join(path)


def without_code(text: str) -> str:
    """Markdown without fenced blocks, in which a # is a comment and a bracket an index."""
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)


def anchor(heading: str) -> str:
    """The link to a heading in GitHub's form."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(text: str) -> list[str]:
    """Links that headings of a page answer to."""
    return [anchor(heading.strip().replace("`", "")) for heading in re.findall(r"^#+ +(.+)$", without_code(text), re.M)]


def broken_links(page: Path) -> list[str]:
    """Relative links of a page whose file or heading does not exist."""
    broken = []
    for link in _LINK.findall(without_code(page.read_text())):
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        if not _OUTSIDE.match(link) and (
                not target.exists() or (heading and heading not in anchors(target.read_text()))):
            broken.append(link)
    return broken


def is_there(name: str) -> bool:
    """Whether a dotted name, from a part down, is a module of ours or a name in one."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        path = FOLDER.joinpath(*parts[:n])
        if path.is_dir() or path.with_suffix(".py").is_file():
            thing = importlib.import_module(".".join(("sojourn", *parts[:n])))
            for attribute in parts[n:]:
                if not hasattr(thing, attribute):
                    return attribute in getattr(thing, "__annotations__", {})
                thing = getattr(thing, attribute)
            return True
    return False


def test_each_part_is_a_relative_link_and_nothing_is_imported_under_two_names() -> None:
    for part in PARTS:
        assert str((FOLDER / part).readlink()) == f"../../{part}"
        importlib.import_module(f"sojourn.{part}")
    files = Counter(Path(file).resolve() for module in list(sys.modules.values())
                    if (file := getattr(module, "__file__", None)) and "site-packages" not in file)
    assert not [file for file, n in files.items() if n > 1 and any(file.is_relative_to(ROOT / part) for part in PARTS)]
    assert not any(name.split(".")[0] in PARTS for name in sys.modules)


def test_a_part_and_a_room_say_what_they_are_for_and_list_what_they_give() -> None:
    """Ruff checks that the list has all imports (F401), no other names (F822) and is sorted (RUF022)."""
    rooms = sorted({file.parent for file in FILES} - {FOLDER})
    assert len(rooms) > 30
    for room in rooms:
        module = importlib.import_module(".".join(("sojourn", *room.relative_to(FOLDER).parts)))
        assert module.__doc__, room
        if room.relative_to(FOLDER).parts[0] != "flows":
            assert all(hasattr(module, name) for name in module.__all__), room


def test_importing_a_part_loads_only_what_it_needs() -> None:
    for part, banned in BANNED.items():
        code = f"import sys, sojourn.{part}; print([n for n in {banned.split()!r} if n in sys.modules])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert (part, done.stdout.strip()) == (part, "[]")


def test_names_of_another_room_come_through_its_init_and_private_ones_do_not_leave() -> None:
    assert {file: names for file in FILES
            if (names := list(bypassed(file.read_text(), file.relative_to(FOLDER).parts[:-1])))} == {}


def test_what_is_found_to_bypass() -> None:
    bad = ("from sojourn.simulator.loop.state import World\nimport sojourn.simulator.loop.state as state\n"
           "from sojourn.simulator.loop import state, not_listed\nfrom sojourn.serving.predictor import _whole\n"
           "def f():\n    import sojourn.serving.c._c_text\n")
    good = ("from sojourn.simulator.loop import World\nfrom sojourn.simulator.cluster import Cluster\n"
            "from sojourn.serving.forest.mask_kernels import narrow\nfrom sojourn.serving.forest import mask_kernels\n"
            "from sojourn.flows.store.lock import store_lock\nfrom sojourn.simulator.engine.world import prepare\n"
            "from sojourn.simulator.engine import _inner\nfrom numpy import _core\nimport sojourn.simulator.loop\n")
    assert len(list(bypassed(bad, ("simulator", "engine")))) == 6
    assert list(bypassed(good, ("simulator", "engine"))) == ["simulator.engine._inner"]  # a name, no file


def test_dotted_names_in_docs_and_docstrings_are_there() -> None:
    pattern = re.compile(rf"`((?:{'|'.join(PARTS)})(?:\.[A-Za-z_]\w*)+)`")
    names = {(name, file.name) for file in [*FILES, *PAGES] if file.name != "CHANGELOG.md"
             for name in pattern.findall(file.read_text()) if name[-3:] not in (".md", ".py")}
    assert len(names) > 10
    assert [(name, file) for name, file in sorted(names) if not is_there(name)] == []
    assert not is_there("flows.predictors") and not is_there("serving.curve.fill_hazard")


def test_a_page_of_the_docs_is_one_sitting() -> None:
    docs = [page for page in PAGES if page.is_relative_to(ROOT / "docs")]
    lines = {page.relative_to(ROOT / "docs").as_posix(): len(page.read_text().splitlines()) for page in docs}
    assert {page: n for page, n in lines.items() if n >= 250} == {}


def test_the_glossary_has_words_of_other_pages_and_its_names_stand_in_code() -> None:
    lines = (ROOT / "docs/glossary.md").read_text().splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ") and not line.startswith("| word ")]
    words = Counter(row[0].removeprefix("| ") for row in rows)
    assert 40 < len(words) <= 60
    assert [word for word, n in words.items() if n > 1] == []
    others = "\n".join(page.read_text() for page in PAGES if page.name not in ("glossary.md", "CHANGELOG.md")).lower()
    assert [word for word in words if not re.search(rf"\b{word.lower()}", others)] == []
    source = set(re.findall(r"\w+", "\n".join(file.read_text() for file in FILES)))
    names = {name for row in rows if len(row) == 4 for code in re.findall(r"`([^`]+)`", row[2])
             for name in re.findall(r"[A-Za-z_]\w*(?!\w*\*)", code)}
    assert len(names) > 40
    assert sorted(names - source) == []


def test_links_between_pages_lead_to_one_place(tmp_path: Path) -> None:
    assert {page: links for page in PAGES if (links := broken_links(page))} == {}
    assert {page: twice for page in PAGES if (twice := [name for name, n in Counter(anchors(page.read_text())).items()
                                                        if n > 1])} == {}
    page = tmp_path / "page.md"
    page.write_text("# A `b`, c\n\n```\n# no heading\n[no](link.md)\n```\n[one](#a-b-c) [two](page.md#a-b-c) "
                    "[away](gone.md) [none](#no-heading) ![picture](gone.png) [elsewhere](https://example.org/x)\n")
    assert broken_links(page) == ["gone.md", "#no-heading", "gone.png"]
