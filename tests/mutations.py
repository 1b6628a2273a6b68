"""Byte-level damage of small files, for the fuzzing of readers."""

from hypothesis import strategies as st

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
