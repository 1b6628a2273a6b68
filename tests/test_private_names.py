"""No file of ours uses another one's private names; `obj._name` is left to ruff (SLF001)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from source_imports import BELOW_ALL, FILES, FOLDER, imported


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_imports(text: str, folder: tuple[str, ...]) -> Iterator[str]:
    """What a file imports of ours that begins with an underscore: names of other files, and files of other folders.

    folder: of the file, from the package down. A private file may be used within its folder and the folders in that.
    """
    for module, name in imported(text, ("sojourn", *folder)):
        if module[0] != "sojourn":
            continue
        path, own = module[1:], name
        if name and (FOLDER.joinpath(*path, f"{name}.py").is_file() or FOLDER.joinpath(*path, name).is_dir()):
            path, own = (*path, name), ""
        private = next((idx for idx, part in enumerate(path) if is_private(part)), None)
        if is_private(own) or (private is not None and folder[:private] != path[:private]):
            yield f"{'.'.join(module)} {name}".strip() if own else ".".join(("sojourn", *path))


@pytest.mark.parametrize("file", [*BELOW_ALL, *FILES], ids=lambda file: str(file.relative_to(FOLDER)))
def test_no_private_name_of_another_file_is_imported(file: Path) -> None:
    assert not list(private_imports(file.read_text(), file.relative_to(FOLDER).parts[:-1]))


def test_what_is_found() -> None:
    text = ("from sojourn.serving.curves import _kernels\n"
                     "from sojourn.serving.curves._kernels import walk\n"
                     "from sojourn.serving.predictor import _whole\n"
                     "import sojourn.serving.c._c_text\n"
                     "from sojourn.serving.curves.curve import __doc__\n"
                     "from numpy import _core\n")
    assert list(private_imports(text, ("serving", "curves"))) == ["sojourn.serving.predictor _whole",
                                                                  "sojourn.serving.c._c_text"]
    assert len(list(private_imports(text, ("serving",)))) == len(list(private_imports(text, ("models",)))) == 4


def test_flows_ask_models_nothing_beyond_their_contract() -> None:
    found = [file.name for file in FILES if "flows" in file.parts and ".boosted_" in file.read_text()]
    assert not found
