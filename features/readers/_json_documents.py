"""JSON documents of a file, one after another, long lists in them element by element: memory holds one element."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.inflated import inflated, not_utf_8

MAX_ELEMENT = 1 << 26
"""Characters. Kubernetes' objects have at most 1.5 MB."""
_BLOCK_BYTES = 1 << 20
_BLANKS = " \t\r\n"
FAULT = "fault"
_LISTS = frozenset(("items", "events"))
"""Keys whose lists are read element by element."""
_AT_END = 32
"""A fault so near to the end of what was read may be a value that goes on."""
_DIGITS_MAX = 40
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def _whole_signs(value: Any) -> Any:
    """The value with U+FFFD for each half of a sign (a lone surrogate), which no text may hold."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_whole_signs(name): _whole_signs(each) for name, each in value.items()}
    return [_whole_signs(each) for each in value] if isinstance(value, list) else value


def _whole(text: str) -> int | str:
    return int(text) if len(text) <= _DIGITS_MAX else text


_DECODER = json.JSONDecoder(parse_int=_whole, parse_constant=str, strict=False)


@dataclass(frozen=True, slots=True)
class JsonPart:
    """A value of a document. line: of its first sign, from 1.

    key: `items` or `events` for an element of such a list, "[]" for one of a document that is a list; "" for the
    document itself, which comes after its elements and without them.
    """

    line: int
    key: str
    value: Any


def json_parts(path: Path) -> Iterator[JsonPart]:
    """The documents of a file in file order: plain or gzipped, UTF-8, with a byte order mark also UTF-16.

    Bytes that are no text, and halves of signs such as "\\ud800", become U+FFFD. A whole number of more than 40 digits
    is given as its text, NaN and Infinity likewise. Where a document is no JSON, its last part has the key FAULT and
    the ValueError that names the line; what follows goes on with the next line that begins with a brace.

    Raises OSError where the file cannot be opened, and ValueError where a gzip is damaged.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "pods.json"
    >>> _ = file.write_text('{"items": [{"a": 1}, 2], "kind": "List"} [3]')
    >>> [(part.key, part.value) for part in json_parts(file)]
    [('items', {'a': 1}), ('items', 2), ('', {'kind': 'List'}), ('[]', 3), ('', None)]
    """
    text = _Text(path)
    while text.sign():
        line = text.line_here()
        try:
            yield from _document(text)
        except _Fault as error:
            yield JsonPart(line, FAULT, ValueError(str(error)))
            text.skip_document()


def _document(text: _Text) -> Iterator[JsonPart]:
    line = text.line_here()
    if text.sign() == "[":
        yield from _elements(text, "[]")
        yield JsonPart(line, "", None)
        return
    if text.sign() != "{":
        raise text.fault("must be a JSON object or list")
    text.skip()
    whole: dict[str, Any] = {}
    while text.sign() != "}":
        if whole and text.sign() == ",":
            text.skip()
        elif whole:
            raise text.fault("must have , or } here")
        if text.sign() != '"':
            raise text.fault("must have a name in quotes here")
        key = text.value()
        if text.sign() != ":":
            raise text.fault("must have : here")
        text.skip()
        if key in _LISTS and text.sign() == "[":
            yield from _elements(text, key)
            whole[key] = None
        else:
            whole[key] = text.value()
    text.skip()
    yield JsonPart(line, "", {key: value for key, value in whole.items() if value is not None or key not in _LISTS})


def _elements(text: _Text, key: str) -> Iterator[JsonPart]:
    text.skip()
    is_first = True
    while text.sign() != "]":
        if not is_first:
            if text.sign() != ",":
                raise text.fault("must have , or ] here")
            text.skip()
            text.sign()
        line = text.line_here()
        yield JsonPart(line, key, text.value())
        is_first = False
    text.skip()


class _Text:
    """The text of a file from where it is read to; what is behind is forgotten."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._blocks = _texts(path)
        self._text, self._at = "", 0
        self._line, self._counted = 1, 0
        self._is_over = False

    def sign(self) -> str:
        """The next sign that is no blank; "" at the end of the file."""
        while True:
            text, at = self._text, self._at
            while at < len(text) and text[at] in _BLANKS:
                at += 1
            self._at = at
            if at < len(text):
                return text[at]
            if not self._fill():
                return ""

    def skip(self) -> None:
        self._at += 1

    def value(self) -> Any:
        """The value that begins at the next sign."""
        self.sign()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _AT_END
                if is_cut and len(self._text) - self._at < MAX_ELEMENT and self._fill():
                    continue
                if self._is_over and is_cut:
                    raise self._cut_short() from None
                if is_cut:
                    raise self.fault(f"must have values of at most {MAX_ELEMENT:,} characters") from None
                self._at = error.pos
                raise self.fault(f"must be JSON ({error.msg})") from None
            except RecursionError:
                raise self.fault("must be nested less deeply") from None
            if end == len(self._text) and not isinstance(value, dict | list | str) and self._fill():
                continue  # a number may go on
            is_odd = "\\ud" in self._text[self._at:end].casefold()
            self._at = end
            return _whole_signs(value) if is_odd else value

    def line_here(self) -> int:
        """Number of the line that the next sign is in."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def fault(self, rule: str) -> _Fault:
        """What is wrong where the text is read to."""
        if not self.sign():
            return self._cut_short()
        got = self._text[self._at:self._at + 60].split("\n")[0]
        hint = _hint(got) if self.line_here() == 1 else ""
        return _Fault(f"{self._path}: line {self.line_here()} {rule}, got {got!r}{hint}")

    def _cut_short(self) -> _Fault:
        return _Fault(f"{self._path}: must hold whole JSON documents, got one cut short in line {self.line_here()}")

    def skip_document(self) -> None:
        """On to the next line that begins with a brace."""
        while True:
            found = self._text.find("\n{", self._at)
            if found >= 0:
                self._at = found + 1
                return
            self._at = max(len(self._text) - 1, self._at)
            if not self._fill():
                self._at = len(self._text)
                return

    def _fill(self) -> bool:
        """Read on; False at the end of the file."""
        self.line_here()
        pieces, wanted = [self._text[self._at:]], max(_BLOCK_BYTES, len(self._text) - self._at)
        self._text, self._at, self._counted = "", 0, 0
        n_read = 0
        while n_read < wanted:
            block = next(self._blocks, "")
            if not block:
                self._is_over = True
                break
            pieces.append(block)
            n_read += len(block)
        self._text = "".join(pieces)
        return n_read > 0


class _Fault(ValueError):
    """Where the text stops being JSON."""


def _texts(path: Path) -> Iterator[str]:
    """The file's text in blocks, none of them empty; ValueError where it is not UTF-8 (or begins as UTF-16)."""
    decoder: codecs.IncrementalDecoder | None = None
    n_chars = 0
    n_bytes, n_lines, line_at = 0, 0, 0  # read before this block; line feeds in them; where their last line began
    with inflated(path, lambda: f" after {n_chars:,} characters") as source:
        while True:
            block = source.read(_BLOCK_BYTES)
            if decoder is None:
                mark, encoding = next((pair for pair in _BOMS if block.startswith(pair[0])), (b"", "utf-8"))
                decoder = codecs.getincrementaldecoder(encoding)("strict" if encoding == "utf-8" else "replace")
                block = block[len(mark):]
                if not block and mark:
                    continue
            if not block:  # a watch that was killed may end within a character
                decoder.errors = "replace"
            at = n_bytes - len(decoder.getstate()[0])  # a character may go on from the block before
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
    """What the file probably is, by how it begins."""
    if got.startswith(("apiVersion:", "---", "kind:", "items:")):
        return " (YAML: write JSON, with kubectl get pods -A -o json)"
    if got.startswith(("NAME ", "NAMESPACE ")):
        return " (a table for people: write JSON, with kubectl get pods -A -o json)"
    return ""
