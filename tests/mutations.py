"""Damage of small files, for the fuzzing of readers: of their bytes, and of each value of a JSON document."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from sojourn.features.readers import read_trace

Edits = list[tuple[float, str, bytes]]
PIECES = [b"\n", b",", b" ", b"-1", b"nan", b"9" * 30, b"1e308", b"\x1f\x8b", b"\x00", b"\r", b'"']
EDITS: st.SearchStrategy[Edits] = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from(["replace", "insert", "cut", "double"]),
              st.binary(max_size=6) | st.sampled_from(PIECES)), min_size=1, max_size=6)


def mutated(whole: bytes, edits: Edits) -> bytes:
    """The file `whole` after the edits, each at a share of its length."""
    for where, how, piece in edits:
        at = int(where * len(whole))
        if how == "replace":
            whole = whole[:at] + piece + whole[at + len(piece):]
        elif how == "insert":
            whole = whole[:at] + piece + whole[at:]
        elif how == "cut":
            whole = whole[:at]
        else:
            whole = whole[:at] + whole[max(0, at - 40):]
    return whole


def check_read_or_refused(reader: str, path: Path) -> None:
    """A damaged file is read with every row accounted for, or refused by a ValueError that names it."""
    try:
        trace, report = read_trace(reader, path)
    except ValueError as error:
        assert str(path) in str(error)
    else:
        assert report.n_read == report.n_kept + report.n_hosts + report.n_joined + report.n_refused
        assert report.n_kept == len(trace) and report.n_joined >= 0


Place = tuple[str | int, ...]
"""The names and numbers that lead to a value of a document."""
RAW_KINDS = (("null", "true"), ("-1", "0", "1.5"), ("NaN", "-Infinity"), ("1e400", "9" * 400), ("9" * 5_000,),
             ('"x"', '"\\ud800"'), ("[]", "[[1]]"), ("{}",), ("[" * 300 + "]" * 300, "[" * 10_000 + "]" * 10_000))
"""Texts of JSON of each kind that may stand in the place of any value."""
RAW = [text for kind in RAW_KINDS for text in kind]


def paths(value: Any, path: Place = ()) -> Iterator[Place]:
    """The place of every value in a document; of lists that of the first and the last element."""
    if path:
        yield path
    if isinstance(value, dict):
        for name in value:
            yield from paths(value[name], (*path, name))
    elif isinstance(value, list):
        for idx in {0, len(value) - 1} if value else ():
            yield from paths(value[idx], (*path, idx))


def with_raw(document: Any, path: Place, raw: str | None) -> str:
    """The JSON of a document with `raw` in the place of one value, or without that value: None."""
    changed = json.loads(json.dumps(document))
    parent = changed
    for step in path[:-1]:
        parent = parent[step]
    if raw is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = "@here@"
    return json.dumps(changed).replace('"@here@"', raw or "")


CELLS = (("", "NULL", "NA", "nan"), ("True", "x", ";", "\xe9"), ("0", "-50"), ("1.5", "1e300", "inf", "9" * 400),
         ("\0", '"'), ("2026-11-01 00:00:00", "1970-01-01T00:00:00Z"), ("a" * 200_000,))
"""What of each kind may stand in the place of any cell of a table."""


def in_turn(kinds: Sequence[Sequence[str]], idx: int) -> list[str]:
    """A text of each kind for the idx-th place: every place meets every kind, and the texts of a kind take turns."""
    return [kind[idx % len(kind)] for kind in kinds]


def mutated_tables(header: str, *rows: str, separator: str = ",") -> Iterator[tuple[str, str]]:
    """What was done to a table, and the table: a cell of each kind in a whole column and in one row, each name of the
    header gone, twice or odd; a separator too many or too few in one row, in all rows or everywhere.
    """
    lines = [line.split(separator) for line in (header, *rows)]
    for column, name in enumerate(lines[0]):
        for cell in in_turn(CELLS, column):
            for where, changed in (("all rows", range(1, len(lines))), ("row 1", [1])):
                table = [list(line) for line in lines]
                for row in changed:
                    table[row][column] = cell
                yield f"{cell[:9]!r} as {name} of {where}", "\n".join(map(separator.join, table)) + "\n"
        for cell in ("", lines[0][column - 1], "\0", '"', "\xe9"):
            named = [cell if at == column else each for at, each in enumerate(lines[0])]
            yield f"{cell!r} for the name {name}", "\n".join(map(separator.join, [named, *lines[1:]])) + "\n"
    for where, changed in (("row 1", [1]), ("all rows", range(1, len(lines))), ("all lines", range(len(lines)))):
        for what in ("more", "fewer"):
            yield f"one separator {what} in {where}", "\n".join(
                separator.join([*line, ""] if what == "more" else line[:-1]) if row in changed else separator.join(line)
                for row, line in enumerate(lines)) + "\n"


TOML_VALUES = [
    "true", "-1", "0", "1.5", "nan", "-inf", "1e309", "1e300", "9" * 18, "9" * 400, "9" * 5_000, "0x" + "f" * 20_000,
    '"x"', '""', '"\\u0000"', '"a\\nb"', '"' + "a" * 20_000 + '"', "[]", '["a"]', "[[1]]", "[nan]", "{}",
    "{a={b=[1]}}", "2026-11-01T00:00:00Z", "[" * 5_000 + "]" * 5_000, "{a=" * 5_000, '"\\ud800"', "\0", "é",
    "a" + ".a" * 200,
]  # fmt: skip
"""What may stand for any value of a TOML file."""


def renewed(path: Path, content: bytes | str) -> None:
    """Write a new file in the place of an old one: a file that is cut and written again waits for the disk."""
    path.unlink(missing_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
