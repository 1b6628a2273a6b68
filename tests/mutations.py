"""Byte-level damage of small files, for the fuzzing of readers."""

from pathlib import Path

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
