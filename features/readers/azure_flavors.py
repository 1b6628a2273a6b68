"""Reads the discretised Azure 2017 arrivals ("flavors"): 5-minute bins and interval-censored lifetimes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import LatestTimes, all_requests, horizon_of, trace_of
from sojourn.features.readers._rows import BLOCK_LINES, MAX_TIME_S, TextRows, text_rows, value_rows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

BIN_S = 300
"""Arrivals and ends are on a 5-minute grid, so a lifetime d means [d, d + 300)."""
_COLUMNS = ("arrival_s", "batch", "flavor", "censored", "dur_bin")
_FLAVOR_COLUMNS = ("flavor", "vcpu", "memory_gb")
_BIN_COLUMNS = ("bin", "dur_lo_s", "dur_hi_s")


def read_azure_flavors(path: str | Path, *, part: str = "dev", end_s: int | None = None, horizon_s: int | None = None,
                       seed: int = 0) -> tuple[Trace, ReadReport]:
    """The trace of `<part>.parquet`, with `flavors.csv` and `duration_bins.csv` beside it.

    path: the folder, or the Parquet file itself (then `part` is not used). end_s: end of
    observation on the file's clock; by default 300 s after the last arrival (2,100,000 for `dev`).
    Time 0 is the first arrival. horizon_s: the same on the trace's clock; give one of the two.

    Lifetimes are bins. A lifetime is drawn uniformly within its bin, up to the horizon: the draw is
    a hash of `seed`, the batch and the position in it, so it does not depend on other rows. The
    bin's edges are `lifetime_lo_s` and `lifetime_hi_s` (lo <= lifetime < hi), without a role. A
    censored row's bin is the observed time; its departure is missing.

    A batch is a run of VMs that one tenant requested in one bin; numbers restart in each file. It is declared as the
    owner, so that history counts its ended and running siblings; there are no tenants over batches. `batch_position` (0
    = first) is the number of earlier siblings. The size of a batch is known only after the bin.

    Raises FileNotFoundError if a file is missing, ValueError if one has another format; a part
    without lifetimes (`train`) is not read.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "flavors.csv").write_text("flavor,vcpu,memory_gb" + chr(10) + "a,2,3.5")
    >>> bins = "bin,dur_lo_s,dur_hi_s" + chr(10) + "0,0,0" + chr(10) + "1,300,600"
    >>> _ = (folder / "duration_bins.csv").write_text(bins)
    >>> pd.DataFrame({"arrival_s": [900, 900, 1200], "batch": [0, 0, 1], "flavor": ["a", "a", "a"],
    ...               "censored": [False, True, False], "dur_bin": [1, 1, 0]}).to_parquet(folder / "dev.parquet")
    >>> trace, report = read_azure_flavors(folder)
    >>> trace.requests[["arrival_s", "lifetime_lo_s", "lifetime_hi_s", "batch_position"]].values.tolist()
    [[0, 300, 900, 0.0], [0, 300, 900, 1.0], [300, 0, 300, 0.0]]
    >>> trace.horizon_s, trace.is_event().tolist()
    (600, [True, False, True])
    """
    source = Path(path)
    table = source / f"{part}.parquet" if source.is_dir() else source
    if end_s is not None and horizon_s is not None:
        raise ValueError(f"horizon_s must be given without end_s, got {horizon_s!r} and {end_s!r}")
    start_s, latest = _first_and_latest(table)
    declared_s = int(end_s) - start_s if end_s is not None else horizon_s
    if end_s is not None and int(end_s) <= start_s:
        raise ValueError(f"end_s must be above the first arrival {start_s}, got {end_s!r}")
    horizon = horizon_of(latest.kept - start_s + BIN_S, declared_s, n_rows=latest.n)
    sizes, edges = _flavors(table.parent / "flavors.csv"), _bins(table.parent / "duration_bins.csv")
    ledger = ReadLedger()
    for line in horizon.lines():
        ledger.note(line)
    batches: dict[int, tuple[int, int]] = {}
    chunks = []
    for rows in _blocks(table, ledger):
        chunks.append(_vms(rows, start_s, horizon.time_s, batches, edges, sizes, seed))
    requests = all_requests(chunks, table, "VM", ledger)
    n_backwards = int((np.diff(requests["arrival_s"].to_numpy(np.int64)) < 0).sum())
    ledger.repair("arrival before the row above: sorted", n_backwards)
    batch = requests["batch"].astype("category")
    requests["batch"] = batch.cat.rename_categories([str(number) for number in batch.cat.categories])
    meta = {"source": f"Azure Public Dataset V1, discretised (huaweicloud/trace_generation_rnn), {table.name}",
            "licence": "CC BY 4.0 (cite Cortez et al., SOSP'17)", "origin_s": start_s, "seed": seed,
            "lifetimes": "drawn uniformly within their bins",
            "known_at_end": ["lifetime_lo_s", "lifetime_hi_s"]}
    roles = Roles(owners=("batch",), categories=("flavor",), numbers=("batch_position",))
    return trace_of(requests, horizon.time_s, roles, ledger, meta)


AZURE_FLAVORS = Reader(
    read_azure_flavors,
    path="folder or Parquet file of the discretised Azure 2017 arrivals",
    arrival="start of its 5-minute bin",
    departure="drawn within the lifetime's bin; none where censored",
    owners="`batch`",
    categories="`flavor`",
    numbers="`batch_position`",
    no_role="`lifetime_lo_s`, `lifetime_hi_s`",
    recipe="azure-flavors",
    file_ids=("batch", "request_id"),
)


def _vms(rows: TextRows, start_s: int, horizon_s: int, batches: dict[int, tuple[int, int]],
         edges: tuple[dict[float, int], dict[float, int]], sizes: tuple[dict[str, float], dict[str, float]],
         seed: int) -> pd.DataFrame:
    """The kept VMs of one block, times from the trace's start; adds number -> (arrival, VMs so far) to `batches`."""
    arrival, batch, bins = (rows.number(name) for name in ("arrival_s", "batch", "dur_bin"))
    flavor, censored = rows.text("flavor"), rows.text("censored")
    rows.refuse("time outside 0 .. 100 years", (arrival < 0) | (arrival > MAX_TIME_S))
    rows.refuse("arrival at or after the end", arrival >= start_s + horizon_s)
    rows.refuse("batch not a whole number >= 0", (batch < 0) | (batch % 1 != 0))
    position = _positions(rows, arrival, batch, batches)
    rows.refuse("flavor not in flavors.csv", ~np.isin(flavor, list(sizes[0])))
    rows.refuse("censored neither True nor False", (censored != "True") & (censored != "False"))
    rows.refuse("dur_bin not in duration_bins.csv", ~np.isin(bins, list(edges[0])))
    is_censored = censored == "True"
    rest_s = horizon_s - (arrival - start_s)
    lo = np.array([edges[0].get(code, 0) for code in bins.tolist()], np.int64)
    hi = np.array([edges[1].get(code, 0) for code in bins.tolist()], np.int64) + BIN_S
    rows.refuse("departure after the end", ~is_censored & (lo >= rest_s))
    rows.refuse("censored before or after the end", is_censored & ((rest_s < lo) | (rest_s >= hi)))
    is_kept = rows.is_kept
    lo, hi, batch, position = lo[is_kept], hi[is_kept], batch[is_kept].astype(np.int64), position[is_kept]
    most_s = np.minimum(hi, rest_s[is_kept])
    lifetime_s = lo + np.floor(_uniform(seed, batch, position) * (most_s - lo)).astype(np.int64)
    start = arrival[is_kept].astype(np.int64) - start_s
    departure = pd.Series(start + lifetime_s, dtype="Int64")
    departure[np.flatnonzero(is_censored[is_kept])] = pd.NA
    return pd.DataFrame({
        "request_id": rows.line[is_kept] - 1,
        "arrival_s": pd.Series(start, dtype="Int64"),
        "departure_s": departure,
        "cpu_cores": [sizes[0][name] for name in flavor[is_kept]],
        "mem_gib": [sizes[1][name] for name in flavor[is_kept]],
        "batch": batch,
        "flavor": pd.Series(flavor[is_kept], dtype="str"),
        "batch_position": position.astype(np.float64),
        "lifetime_lo_s": lo,
        "lifetime_hi_s": hi,
    })


def _positions(rows: TextRows, arrival: np.ndarray, batch: np.ndarray,
               batches: dict[int, tuple[int, int]]) -> np.ndarray:
    """How many VMs of the same batch are before each row, int64 (n,); 0 for rows already refused."""
    position = np.zeros(len(batch), np.int64)
    is_split = np.zeros(len(batch), bool)
    for i in np.flatnonzero(rows.is_kept):
        first, n_before = batches.get(int(batch[i]), (int(arrival[i]), 0))
        is_split[i] = first != arrival[i]
        if not is_split[i]:
            position[i] = n_before
            batches[int(batch[i])] = first, n_before + 1
    rows.refuse("batch of another arrival", is_split)
    return position


def _uniform(seed: int, batch: np.ndarray, position: np.ndarray) -> np.ndarray:
    """One number in [0, 1) per row, float64 (n,), a hash of the three (SplitMix64, Steele et al. 2014).

    With a generator's stream, a missing row would change all later ones.
    """
    state = np.full(len(batch), seed % 2**64, np.uint64)
    for word in (batch, position):
        state = state + np.uint64(0x9E3779B97F4A7C15) + word.astype(np.uint64)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _blocks(path: Path, ledger: ReadLedger) -> Iterator[TextRows]:
    n_rows = 0
    for batch in _batches(path, _COLUMNS):
        values = zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True)
        yield value_rows(path.name, _COLUMNS, n_rows + 1, values, ledger)
        n_rows += batch.num_rows


def _first_and_latest(path: Path) -> tuple[int, LatestTimes]:
    """The first and the latest plausible arrivals in the file, from one pass."""
    first, latest = MAX_TIME_S + 1, LatestTimes()
    for batch in _batches(path, ("arrival_s",)):
        column = batch.column("arrival_s")
        if not pa.types.is_integer(column.type):
            raise ValueError(f"{path}: arrival_s must be whole numbers, got {column.type}")
        values = column.drop_null().to_numpy(zero_copy_only=False)
        values = values[(values >= 0) & (values <= MAX_TIME_S)]
        if len(values):
            first = min(first, int(values.min()))
            latest.add(values)
    if not latest.n:
        raise ValueError(f"{path}: must hold at least one VM with an arrival_s of 0 .. 100 years, got none")
    return first, latest


def _batches(path: Path, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    with path.open("rb") as handle:
        try:
            table = pq.ParquetFile(handle)
            missing = [name for name in _COLUMNS if name not in table.schema_arrow.names]
            if missing:
                raise pa.ArrowInvalid(f"no {', '.join(missing)}: without lifetimes it is no trace of requests")
            for batch in table.iter_batches(batch_size=BLOCK_LINES, columns=list(columns)):
                batch.validate(full=True)
                yield batch
        except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            expected = ", ".join(_COLUMNS)
            raise ValueError(f"{path} must be a Parquet file with the columns {expected}; got {error}") from error


def _flavors(path: Path) -> tuple[dict[str, float], dict[str, float]]:
    cores: dict[str, float] = {}
    memory: dict[str, float] = {}
    for rows in _whole(path, _FLAVOR_COLUMNS):
        cpu, mem = rows.number("vcpu"), rows.number("memory_gb")
        rows.refuse("negative size", (cpu < 0) | (mem < 0))
        rows.refuse_duplicates("duplicate flavor", rows.text("flavor"), set(cores))
        for i in np.flatnonzero(rows.is_kept):
            name = str(rows.text("flavor")[i])
            cores[name], memory[name] = float(cpu[i]), float(mem[i])
    return cores, memory


def _bins(path: Path) -> tuple[dict[float, int], dict[float, int]]:
    """First and last lifetime of each bin, whole seconds on the 5-minute grid."""
    lo_of: dict[float, int] = {}
    hi_of: dict[float, int] = {}
    for rows in _whole(path, _BIN_COLUMNS):
        code, lo, hi = (rows.number(name) for name in _BIN_COLUMNS)
        rows.refuse("edges not 0 <= lo <= hi <= 100 years", (lo < 0) | (hi < lo) | (hi > MAX_TIME_S))
        rows.refuse_duplicates("duplicate bin", code, set(lo_of))
        for i in np.flatnonzero(rows.is_kept):
            lo_of[float(code[i])], hi_of[float(code[i])] = int(lo[i]), int(hi[i])
    return lo_of, hi_of


def _whole(path: Path, names: tuple[str, ...]) -> Iterator[TextRows]:
    """Blocks of a small side table; all rows must be valid, since a missing one would refuse VMs wrongly."""
    ledger = ReadLedger()
    yield from text_rows(path, ledger, separator=",", names=names, has_header=True)
    rejected = ledger.report(0).rejected
    if len(rejected):
        line, rule, raw = rejected[["line", "rule", "raw"]].values.tolist()[0]
        raise ValueError(f"{path}: line {line} must be a good row, got {rule}: {raw[:80]!r}")
