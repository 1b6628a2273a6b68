"""Docstrings as reStructuredText: in the source they are plain text with `code`, parameters and doctests."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

_CODE = re.compile(r"``?([^`]+)``?")
_SPECIAL = re.compile(r"([*|\\]|(?<=\w)_(?!\w))")


def inline(text: str) -> str:
    """A line with its code as literals and all else as it stands.

    >>> print(inline("`a_b` of *args, x_ and 2 | 3"))
    ``a_b`` of \\*args, x\\_ and 2 \\| 3
    """
    parts = _CODE.split(text)
    return "".join(f"``{part.strip()}``" if idx % 2 else _SPECIAL.sub(r"\\\1", part) for idx, part in enumerate(parts))


def as_rst(lines: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    """The lines of a docstring, paragraph by paragraph.

    names: parameters or fields. A line that begins with one and a colon says what it is, and becomes a list item.
    """
    known = set(names)
    for paragraph in "\n".join(lines).split("\n\n"):
        found = [line for line in paragraph.split("\n") if line.strip()]
        if not found:
            continue
        if found[0].lstrip().startswith(">>>"):
            yield from (*inspect.cleandoc("\n".join(found)).splitlines(), "")
        elif found[0].startswith(" "):
            yield from ("::", "", *("    " + line for line in found), "")
        else:
            yield from _text(found, known)


def _text(lines: list[str], names: set[str]) -> Iterator[str]:
    is_item = False
    doctest_at = next((idx for idx, line in enumerate(lines) if line.startswith(">>>")), len(lines))
    for line in lines[:doctest_at]:
        name, colon, rest = line.partition(":")
        if line.startswith("- "):
            yield from ("", "- " + inline(line[2:].strip()))
            is_item = True
        elif colon and set(re.split(r", | and ", name)) <= names:
            yield from ("", f"- ``{name}``: {inline(rest.strip())}")
            is_item = True
        else:
            yield ("  " if is_item else "") + inline(line.strip())
    yield from ("", *lines[doctest_at:], "")


def names_of(value: Any) -> tuple[str, ...]:
    """What a call takes, or the fields of a class."""
    try:
        return tuple(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return ()


def setup(app: Any) -> dict[str, bool]:
    def process(_app: Any, _what: str, _name: str, value: Any, _options: Any, lines: list[str]) -> None:
        lines[:] = as_rst(list(lines), names_of(value))

    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True}
