"""Hypothesis' failing test cases as the `@example(...)` lines that keep them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_FOUND = re.compile(r"^Failing (?:test case|explicit example): (\w+\(\n.*?^\)|\w+\([^\n]*\))", re.DOTALL | re.MULTILINE)
_DRAW = re.compile(r"^Draw \d+.*", re.MULTILINE)


def example_lines(error: BaseException, name: str) -> Iterator[str]:
    """For each failing case noted on an error, and on those that it groups: the test and an `@example(...)`.

    Fixtures are to be taken out by hand, and an argument whose repr is no expression is to be written anew; draws of
    `st.data()` follow as comments.

    >>> error = AssertionError()
    >>> error.add_note("Failing test case: test_x(\\n    n=1,  # or any other generated value\\n    q=0.5,\\n)")
    >>> list(example_lines(error, "test_a.py::test_x"))
    ['test_a.py::test_x\\n@example(n=1, q=0.5)']
    """
    notes = "\n".join(getattr(error, "__notes__", ()))
    for call in _FOUND.findall(notes):
        yield "\n".join([name, f"@example{_arguments(call)}", *(f"# {draw}" for draw in _DRAW.findall(notes))])
    for inner in getattr(error, "exceptions", ()):
        yield from example_lines(inner, name)


def _arguments(call: str) -> str:
    """The call's arguments with their brackets, on one line where they can be parsed."""
    try:
        written = ast.unparse(ast.parse(call, mode="eval"))
    except SyntaxError:
        written = call
    return written[written.index("("):]
