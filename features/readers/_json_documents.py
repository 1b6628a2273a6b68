"""JSON documents of a file in order, with long lists element by element: memory holds one element."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ijson

from sojourn.inflated import inflated, not_utf_8

MAX_ELEMENT = 1 << 26
"""Characters. Kubernetes' objects have at most 1.5 MB."""
MAX_DEPTH = 100
_BLOCK_BYTES = 1 << 20
FAULT = "fault"
_LIST = "items"
"""The key of the list that is read element by element."""
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_OBJECT = re.compile(r"^(?= {0,8}\{)", re.MULTILINE)
"""The possible start of an object with the indentation of kubectl and jq. Text is split there, so
the line of each element is known."""


@dataclass(frozen=True, slots=True)
class JsonPart:
    """A value of a document.

    line: of its first character, from 1. key: `items` for an element of such a list, "[]" for one of a document that is
    a list; "" for the document, which comes after its elements and without them.
    """

    line: int
    key: str
    value: Any


def json_parts(path: Path) -> Iterator[JsonPart]:
    """The documents of a file in file order: plain or gzipped, UTF-8, with a byte order mark also UTF-16.

    Invalid bytes become U+FFFD. If a document is no JSON, its last part has the key FAULT and a
    ValueError with the line; reading continues at the next line that starts with a brace.

    Raises OSError if the file cannot be opened, and ValueError if a gzip is damaged.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "pods.json"
    >>> _ = file.write_text('{"items": [{"a": 1}, 2], "kind": "List"} [3]')
    >>> [(part.key, part.value) for part in json_parts(file)]
    [('items', {'a': 1}), ('items', 2), ('', {'kind': 'List'}), ('[]', 3), ('', None)]
    """
    reading: _Documents | None = _Documents(path)
    line, is_line_start, last_line = 1, True, 1
    for text in _texts(path):
        for piece in _OBJECT.split(text):
            if reading is None and is_line_start and piece.startswith("{"):
                reading = _Documents(path)
            if reading is not None and piece:
                yield from reading.take(piece, line)
                reading = None if reading.is_over else reading
            if not piece.isspace():
                last_line = line + piece.rstrip().count("\n")
            line += piece.count("\n")
            is_line_start = piece.endswith("\n") if piece else is_line_start
    if reading is not None:
        yield from reading.end(last_line)


class _Documents:
    """Documents up to the first fault: events of ijson become parts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._events: list[tuple[str, Any]] = ijson.sendable_list()
        self._parser = ijson.basic_parse_coro(self._events, multiple_values=True, use_float=True)
        self._open: list[Any] = []  # open objects and lists, and the names of their next values
        self._names: list[str] = []
        self._line = self._document_line = 1
        self._n_chars = 0
        self.is_over = False

    def take(self, piece: str, line: int) -> Iterator[JsonPart]:
        """The parts that end in a piece of text; line: its first line."""
        reason = ""
        self._n_chars += len(piece)
        try:
            self._parser.send(piece.encode())
        except ijson.JSONError as error:
            what = str(error.args[0]).splitlines()[0].strip()
            reason = f"must be JSON ({what})" if self._open or self._events else "must be a JSON object or list"
        except ValueError as error:  # a number with thousands of digits
            reason = f"must be JSON ({error})"
        try:
            yield from self._parts(line)
        except _Fault as error:
            reason = str(error)
        if not reason and self._n_chars > MAX_ELEMENT:
            reason = f"must have values of at most {MAX_ELEMENT:,} characters"
        if reason:
            got = piece.strip()[:60].split("\n")[0]
            yield self._fault(f"line {line} {reason}, got {got!r}{_hint(got) if line == 1 else ''}")

    def end(self, line: int) -> Iterator[JsonPart]:
        """The parts at the end of the file; line: its last line."""
        try:
            self._parser.close()
            yield from self._parts(line)
        except ijson.JSONError:
            is_whole = not self._open
        except _Fault as error:
            yield self._fault(f"line {line} {error}, got a number")
            return
        else:
            is_whole = True
        if not is_whole:
            yield self._fault(f"must hold whole JSON documents, got one cut short in line {line}")

    def _fault(self, text: str) -> JsonPart:
        self.is_over = True
        return JsonPart(self._document_line, FAULT, ValueError(f"{self._path}: {text}"))

    def _parts(self, line: int) -> Iterator[JsonPart]:
        stack, names = self._open, self._names
        for event, value in self._events:
            if event == "map_key":
                names[-1] = value
                continue
            if event == "start_map" or event == "start_array":
                value = {} if event == "start_map" else []
            is_end = event == "end_map" or event == "end_array"
            if is_end:
                value = stack.pop()
                names.pop()
            elif not stack:
                self._document_line = line
                if not isinstance(value, dict | list):
                    raise _Fault("must be a JSON object or list")
            elif isinstance(stack[-1], dict):
                stack[-1][names[-1]] = value
            else:
                stack[-1].append(value)
            key = self._list_key()
            if event.startswith("start"):
                if key:
                    self._line = line
                stack.append(value)
                names.append("")
                if len(stack) > MAX_DEPTH:
                    raise _Fault("must be nested less deeply")
            elif key:
                del stack[-1][-1]
                yield JsonPart(self._line if is_end else line, key, value)
                self._n_chars = 0
            elif not stack:
                small_fields = {name: each for name, each in value.items() if name != _LIST or each not in (None, [])
                                } if isinstance(value, dict) else None
                yield JsonPart(self._document_line, "", small_fields)
                self._n_chars = 0
        self._events.clear()

    def _list_key(self) -> str:
        """The list whose elements are read now; "" if none."""
        depth = len(self._open)
        if depth == 1 and isinstance(self._open[0], list):
            return "[]"
        is_in = depth == 2 and self._names[0] == _LIST and isinstance(self._open[0], dict)
        return self._names[0] if is_in and isinstance(self._open[1], list) else ""


class _Fault(ValueError):
    """An error in the text."""


def _texts(path: Path) -> Iterator[str]:
    """The file's text in non-empty blocks; ValueError if it is not UTF-8 (or UTF-16 with its mark)."""
    decoder: codecs.IncrementalDecoder | None = None
    n_chars = 0
    n_bytes, n_lines, line_at = 0, 0, 0  # read before this block; its line feeds; the start of its last line
    with inflated(path, lambda: f" after {n_chars:,} characters") as source:
        while True:
            block = source.read(_BLOCK_BYTES)
            if decoder is None:
                mark, encoding = next((pair for pair in _BOMS if block.startswith(pair[0])), (b"", "utf-8"))
                decoder = codecs.getincrementaldecoder(encoding)("strict" if encoding == "utf-8" else "replace")
                block = block[len(mark):]
                if not block and mark:
                    continue
            if not block:  # a killed watch may end within a character
                decoder.errors = "replace"
            at = n_bytes - len(decoder.getstate()[0])  # a character may start in the block before
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                good = error.object[:error.start]
                start = at + good.rfind(b"\n") + 1 if b"\n" in good else line_at
                raise not_utf_8(path, n_lines + good.count(b"\n") + 1, at + error.start - start + 1,
                                error.object[error.start]) from None
            if b"\n" in block:
                n_lines, line_at = n_lines + block.count(b"\n"), n_bytes + block.rfind(b"\n") + 1
            n_bytes += len(block)
            n_chars += len(text)
            if text:
                yield text
            if not block:
                return


def _hint(got: str) -> str:
    """The probable type of the file, by its start."""
    if got.startswith(("apiVersion:", "---", "kind:", "items:")):
        return " (YAML: write JSON, with kubectl get pods -A -o json)"
    if got.startswith(("NAME ", "NAMESPACE ")):
        return " (a table for people: write JSON, with kubectl get pods -A -o json)"
    return ""
