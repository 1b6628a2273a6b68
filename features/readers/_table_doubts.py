"""What of a table was read in one way and may be meant in another, a line each, for a person to look at."""

from __future__ import annotations

from sojourn.features.readers._column_map import duration_named
from sojourn.features.readers._mapped_table import MappedTable


def doubts(table: MappedTable, n_requests: int) -> list[str]:
    """Lines about a table that was read, of whose rows `n_requests` were kept.

    >>> from pathlib import Path
    >>> from sojourn.features.readers._column_map import column_map
    >>> names = ["id", "start", "vcpus", "mem"]
    >>> doubts(MappedTable(Path("vms.csv"), column_map(names), names), 3)
    ['no column is departure or duration: all requests count as still running']
    """
    of = table.map.columns
    fields = {name.casefold() for name in table.names}
    lines = [f"no column is {name}: {words} taken for each request" for name, words in (
        ("cpu_cores", "1 core"), ("mem_gib", "0 GiB")) if name not in of]
    if fields & {"jobid", "jobidraw"} and fields & {"elapsed", "reqcpus", "alloccpus", "ncpus", "timelimit"}:
        lines.insert(0, "this looks like an export of Slurm's sacct: --reader slurm knows its steps, requeues and "
                        "limits")
    if "request_id" not in of:
        lines.append(f"no column is request_id: {n_requests:,} requests are named by their line, and duplicates are "
                     "not found")
    if not {"departure", "duration"} & {*of}:
        lines.append("no column is departure or duration: all requests count as still running")
    lines += [f"{name!r} stands {table.names.count(name)} times in the table: not read"
              for name in dict.fromkeys(table.names) if name and table.names.count(name) > 1]
    lines += [f"{count:,} row{' is' if count == 1 else 's are'} {word!r} without an end: "
              f"{'it counts' if count == 1 else 'they count'} as still running" for word, count in
              table.ended.most_common(5)]
    if table.n_with_duration:
        column = duration_named(table.names)
        ends = f" --map departure={of['departure']}" if "departure" in of else ""
        lines.append(f"{table.n_with_duration:,} requests without an end have a value in {column!r}:{ends} --map "
                     f"duration={column} takes it for them, unless it is the time so far")
    return [*lines, *table.doubts, *_zone_doubts(table)]


def _zone_doubts(table: MappedTable) -> list[str]:
    lines = []
    of = table.map.columns
    for column, times in table.local.items():
        if times.n_local and table.map.timezone is None:
            lines.append(f"{column}: {times.n_local:,} times without a zone taken as UTC (--timezone says which)")
        if times.n_repeated:
            lines.append(f"{column}: {times.n_repeated:,} times in an hour that {table.map.timezone} repeats, when "
                         "clocks go back, are taken the first time: lifetimes may be an hour off")
        if times.n_left_out:
            lines.append(f"{column}: {times.n_left_out:,} times in an hour that {table.map.timezone} leaves out are "
                         "moved on to its end: is the zone right?")
    shares = [(column, table.local[column]) for column in dict.fromkeys(
        of[name] for name in ("arrival", "departure", "submit") if name in of) if column in table.local]
    kinds = {"none" if not times.n_local else "all" if times.n_local == times.n else "some" for _, times in shares
             if times.n}
    if len(kinds) > 1 or "some" in kinds:
        words = ", ".join(f"{times.n - times.n_local:,} of {times.n:,} in {column}" for column, times in shares)
        lines.append(f"only some times have a zone ({words}): lifetimes are wrong where the others are not "
                     f"{table.map.timezone or 'UTC'}")
    return lines
