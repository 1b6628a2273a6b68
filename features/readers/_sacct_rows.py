"""Lines of a `sacct -P` export as blocks of cells under the names of its header; steps left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers._text_rows import N_PROBED, TextRows, line_blocks

COMMAND = ("sacct -a -X -D -P -S 2026-01-01 -o JobID,JobName,User,Account,Partition,QOS,Submit,Start,End,Elapsed,"
           "Suspended,State,ExitCode,Timelimit,ReqCPUS,AllocCPUS,ReqMem,NNodes,AllocTRES")
"""What to type for an export with all that is read."""
SEPARATORS = ("|", ";", "\t")
NAME_REPAIR = "separator in JobName: cells joined"
_TEXTS = frozenset(("comment", "admincomment", "systemcomment", "constraints", "extra", "reason", "submitline", "wckey",
                    "workdir"))
"""Fields in which separators may stand, besides JobName."""
_MAX_SURPLUS = 20


def sacct_rows(path: Path, ledger: ReadLedger, needed: Sequence[Sequence[str]]) -> Iterator[TextRows]:
    """Blocks of rows in file order, fields under their names in small letters.

    needed: the header must have one field at least of each. Lines of steps (`12.batch`) are counted as read and left
    out; the header for a second time, as of files put together, is no row. `sacct` does not quote: a row with too many
    cells has the separator in its job name, where no other field is free text.

    Raises OSError where the file cannot be opened and ValueError where it is no such export, with what to type.
    """
    header: list[str] = []
    names: list[str] = []
    separator = SEPARATORS[0]
    n_rows = n_good = n_steps = 0
    for first_line, lines in line_blocks(path):
        raw, cells, number = [], [], []
        wrong: list[tuple[int, str]] = []
        n_joined, n_steps_before = 0, n_steps
        for at, line in enumerate(lines, first_line):
            if not line or line.isspace():
                continue
            if not names:
                line = line.removeprefix("\ufeff")
                separator = max(SEPARATORS, key=line.count)
                header = line.split(separator)
                names = _checked_names(path, at, header, needed)
                id_at = names.index("jobid")
                name_at = names.index("jobname") if "jobname" in names and not _TEXTS & set(names) else -1
                continue
            fields = line.split(separator)
            surplus = len(fields) - len(names)
            if 0 < surplus <= _MAX_SURPLUS and name_at >= 0:
                end = name_at + surplus + 1
                fields[name_at:end] = [separator.join(fields[name_at:end])]
                n_joined += 1
                surplus = 0
            if surplus:
                wrong.append((at, line))
            elif "." in fields[id_at]:
                n_steps += 1
            elif fields != header:
                raw.append(line)
                cells.append(fields)
                number.append(at)
        n_rows += len(raw) + len(wrong)
        n_good += len(raw)
        if not n_good and not n_steps and n_rows >= N_PROBED:
            raise _no_row_fits(path, names, wrong[0][0], wrong[0][1])
        ledger.read(len(raw) + len(wrong) + n_steps - n_steps_before)
        ledger.repair(NAME_REPAIR, n_joined)
        ledger.refuse(f"not {len(names)} columns", path.name, np.array([at for at, _ in wrong], np.int64),
                      [line for _, line in wrong])
        if raw:
            yield TextRows(path.name, names, np.array(number, np.int64), raw, cells, ledger)
        elif wrong and not n_good and not n_steps:
            last = wrong[0]
    if not names:
        raise ValueError(f"{path}: line 1 must be a header of `sacct -P`, got an empty file; export it with: {COMMAND}")
    if n_steps:
        ledger.note(f"{n_steps:,} lines of steps left out (sacct -X lists none)")
    if not n_good and n_rows and not n_steps:
        raise _no_row_fits(path, names, last[0], last[1])
    if not n_good:
        raise ValueError(f"{path}: must hold at least one job below its header, got none; export it with: {COMMAND}")


def _checked_names(path: Path, line: int, header: list[str], needed: Sequence[Sequence[str]]) -> list[str]:
    names = [name.strip().casefold() for name in header]
    if "jobid" not in names and "jobidraw" in names:
        names[names.index("jobidraw")] = "jobid"
    missing = [" or ".join(any_of) for any_of in needed if not any(name.casefold() in names for name in any_of)]
    got = "|".join(header)[:160]
    if missing:
        hint = "" if len(names) > 1 else " (separated by |: with -P)"
        raise ValueError(f"{path}: line {line} must have the fields {', '.join(missing)}{hint}, got {got!r}; export it "
                         f"with: {COMMAND}")
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise ValueError(f"{path}: line {line} must have each field once, got {twice[0]!r} twice in {got!r}")
    return names


def _no_row_fits(path: Path, names: Sequence[str], line: int, raw: str) -> ValueError:
    return ValueError(f"{path}: line {line} must have {len(names)} columns as the header, got {raw[:80]!r}")
