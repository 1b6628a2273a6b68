"""Fetches public traces from their publishers: with resume and checks, and never half-written under
their final name."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pooch

from sojourn.publishing import whole_file

Progress = Callable[[int, int], None]
"""Called with (bytes so far, total bytes; 0 = unknown)."""
_BLOCK = 1 << 16
_WORTH_ANOTHER_TRY = (408, 416, 425, 429)
"""HTTP statuses below 500 that may be temporary; 416 means that the part on disk is not of this file."""
_CC_BY = "CC BY 4.0"
_AZURE = "https://github.com/Azure/AzurePublicDataset/releases/download"
_ALIBABA = "https://raw.githubusercontent.com/alibaba/clusterdata/master"
_ARCHIVE = "https://www.cs.huji.ac.il/labs/parallel/workload"
_ARCHIVE_TERMS = "free for research; name the Parallel Workloads Archive and who gave the log (see its header)"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a publisher. name: on disk, for its reader; sha256: hexadecimal, None = not published."""

    name: str
    url: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class PublicTrace:
    """The files of one trace, their reader, the publisher's terms, and notes for users."""

    files: tuple[RemoteFile, ...]
    reader: str
    licence: str
    note: str = ""


def _log(folder: str, name: str) -> PublicTrace:
    return PublicTrace((RemoteFile(f"{name}.swf.gz", f"{_ARCHIVE}/{folder}/{name}.swf.gz"),), "swf", _ARCHIVE_TERMS)


TRACES: Mapping[str, PublicTrace] = MappingProxyType({
    "azure-packing-2020": PublicTrace(
        (RemoteFile("AzurePackingTraceV1.zip",
                    f"{_AZURE}/dataset-packing-2020/azurevmallocation_dataset2020_AzurePackingTraceV1.zip"),),
        "azure-packing", f"{_CC_BY} (cite Hadary et al., OSDI'20)", "unpack it: the reader takes the SQLite file"),
    "azure-vm-2017": PublicTrace(
        (RemoteFile("vmtable.csv.gz", f"{_AZURE}/dataset-v1/trace_data_vmtable_vmtable.csv.gz"),),
        "azure-vm", f"{_CC_BY} (cite Cortez et al., SOSP'17)"),
    "azure-vm-2019": PublicTrace(
        (RemoteFile("vmtable.csv.gz", f"{_AZURE}/dataset-v2/trace_data_vmtable_vmtable.csv.gz"),),
        "azure-vm", f"{_CC_BY} (cite Cortez et al., SOSP'17)"),
    "cea-curie": _log("l_cea_curie", "CEA-Curie-2011-2.1-cln"),
    "dlrm": PublicTrace(
        (RemoteFile("disaggregated_DLRM_trace.csv",
                    f"{_ALIBABA}/cluster-trace-gpu-v2025/disaggregated_DLRM_trace.csv"),),
        "dlrm", "none stated"),
    "google-2011": PublicTrace(
        (RemoteFile("task_events_part-00000-of-00500.csv.gz",
                    "https://storage.googleapis.com/clusterdata-2011-2/task_events/part-00000-of-00500.csv.gz",
                    "eae977d521bc6ed5d8deef56f1e06009d41844d4eb9a7e308e610d68e1b10f18"),),
        "google-2011", _CC_BY, "the first of 500 parts, about 1.4 hours"),
    "hpc2n": _log("l_hpc2n", "HPC2N-2002-2.2-cln"),
    "llnl-thunder": _log("l_llnl_thunder", "LLNL-Thunder-2007-1.1-cln"),
    "nasa-ipsc": _log("l_nasa_ipsc", "NASA-iPSC-1993-3.1-cln"),
    "openb": PublicTrace(
        (RemoteFile("openb_pod_list_default.csv", f"{_ALIBABA}/cluster-trace-gpu-v2023/csv/openb_pod_list_default.csv",
                    "1ee7ed79c27a3b0861cda8ddba86a004c6aba904caafa329a76ae93ca63834a8"),
         RemoteFile("openb_node_list_all_node.csv",
                    f"{_ALIBABA}/cluster-trace-gpu-v2023/csv/openb_node_list_all_node.csv")),
        "openb", "none stated"),
    "ricc": _log("l_ricc", "RICC-2010-2"),
    "sdsc-blue": _log("l_sdsc_blue", "SDSC-BLUE-2000-4.2-cln"),
})
"""Name -> the publisher's files; only addresses from the publisher or users of the data."""


def fetch(name: str, folder: str | Path = "traces", *, progress: Progress | None = None, n_tries: int = 5,
          timeout_s: float = 30.0, wait_s: float = 1.0) -> Path:
    """The path for the trace's reader, in `folder`/`name`: the file, or the folder if there are several.

    Whole files on disk are not fetched again. See `fetch_file` for the rest.

    >>> fetch("borg")
    Traceback (most recent call last):
    ValueError: trace must be one of azure-packing-2020, azure-vm-2017, azure-vm-2019, cea-curie, dlrm, google-2011,
    hpc2n, llnl-thunder, nasa-ipsc, openb, ricc, sdsc-blue; got 'borg'
    """
    if name not in TRACES:
        raise ValueError(f"trace must be one of {', '.join(sorted(TRACES))}; got {name!r}")
    target = Path(folder) / name
    paths = [fetch_file(file, target, progress=progress, n_tries=n_tries, timeout_s=timeout_s, wait_s=wait_s)
             for file in TRACES[name].files]
    return paths[0] if len(paths) == 1 else target


def fetch_file(file: RemoteFile, folder: str | Path, *, progress: Progress | None = None, n_tries: int = 5,
               timeout_s: float = 30.0, wait_s: float = 1.0) -> Path:
    """The path of the whole, checked file; a part of it from before (`.part`) is continued.

    If the publisher gives no hash, that of the first fetch is written to `.sha256` beside the file
    and checked later. A file on disk that does not match is fetched anew.

    n_tries: number of tries, 1, 2, 4, .. x wait_s seconds apart. timeout_s: the longest silence of
    the server. Raises OSError if the server does not give the whole file (the part stays for the
    next call), and ValueError if its hash differs.
    """
    for name, value, least in (("n_tries", n_tries, 1), ("timeout_s", timeout_s, 1e-3), ("wait_s", wait_s, 0)):
        if not value >= least:
            raise ValueError(f"{name} must be at least {least}, got {value!r}")
    path = Path(folder) / file.name
    expected = file.sha256 or _read_hash(path)

    def download(url: str, target: str, _: object) -> None:
        _download(url, path, Path(target), progress, n_tries, timeout_s, wait_s)

    downloader: Any = download  # pooch's type requires more than pooch does
    pooch.get_logger().setLevel("ERROR")  # else it prints hints for programmers
    # pooch compares the hash and moves the file to its name. It would delete an unfinished file, so
    # the downloader keeps its own part and gives pooch only a whole file.
    try:
        pooch.retrieve(file.url, expected and f"sha256:{expected}", file.name, Path(folder), downloader=downloader)
    except ValueError as error:
        origin = "published" if file.sha256 else f"that of the first fetch, in {path.name}.sha256"
        raise ValueError(f"{path}: {file.url} must have the SHA-256 {expected} ({origin}), got {error}") from error
    if expected is None:
        _write_hash(path, pooch.file_hash(str(path), alg="sha256"))
    return path


def _download(url: str, path: Path, target: Path, progress: Progress | None, n_tries: int, timeout_s: float,
              wait_s: float) -> None:
    """Download `url` to `target` through `path`.part, which stays after a failure."""
    part, tag = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.tag")
    with part.open("ab") as sink:
        _lock(sink, part)
        problem = ""
        for attempt in range(n_tries):
            time.sleep(wait_s * 2 ** (attempt - 1) if attempt else 0)
            problem = _try(url, sink, tag, progress, timeout_s)
            if not problem:
                os.fsync(sink.fileno())
                tag.unlink(missing_ok=True)
                part.replace(target)
                return
    raise OSError(f"{path}: {url} must give the whole file within {n_tries} tries, got {problem}; "
                  f"{part.stat().st_size} bytes are kept in {part.name} for the next time")


def _try(url: str, sink: BinaryIO, tag: Path, progress: Progress | None, timeout_s: float) -> str:
    """Continue the file once; the error, or "" if it is whole."""
    n_bytes = sink.seek(0, os.SEEK_END)
    headers = {"Accept-Encoding": "identity", "User-Agent": "sojourn"}
    if n_bytes and tag.is_file():  # If-Range: a part of an older version is not continued with the new one
        headers |= {"Range": f"bytes={n_bytes}-", "If-Range": tag.read_text().strip()}
    try:
        response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=timeout_s)
    except HTTPError as error:
        extent = error.headers.get("Content-Range", "")
        error.close()
        problem = f"HTTP {error.code} {error.reason}"
        if error.code < 500 and error.code not in _WORTH_ANOTHER_TRY:
            raise OSError(f"{tag.name.removesuffix('.part.tag')}: {url} must answer with the file, "
                          f"got {problem}") from error
        if error.code == 416:
            if n_bytes and extent == f"bytes */{n_bytes}":  # nothing remains: the part is the whole file
                return ""
            sink.truncate(0)
        return problem
    except (OSError, HTTPException) as error:
        return _text(error)
    with response:
        n_before, n_total = _extent(response, n_bytes)
        if n_before != n_bytes or n_before == 0:
            sink.truncate(0)
            n_bytes = 0
            _remember(response, tag)
            if n_before:
                return f"a part from byte {n_before}, which was not asked for"
        while True:
            try:
                block = response.read1(_BLOCK)  # not read(), which loses its buffer after a timeout
            except (OSError, HTTPException) as error:
                sink.flush()
                return _text(error)
            if not block:
                break
            sink.write(block)
            n_bytes += len(block)
            if progress is not None:
                progress(n_bytes, n_total)
    sink.flush()
    if n_bytes == 0 or (n_total and n_bytes != n_total):
        return f"{n_bytes} of {n_total or 'an unknown number of'} bytes"
    return ""


def _extent(response: HTTPResponse, n_asked: int) -> tuple[int, int]:
    """First byte of the answer, and the size of the whole file (0 = unknown)."""
    if response.status == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if match is None:
            return n_asked + 1, 0
        return int(match[1]), 0 if match[2] == "*" else int(match[2])
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdigit() else 0


def _remember(response: HTTPResponse, tag: Path) -> None:
    """Store the server's version mark (ETag); without one a part is not continued."""
    etag = response.headers.get("ETag", "")
    mark = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified", "")
    if mark:
        tag.write_text(mark + "\n")
    else:
        tag.unlink(missing_ok=True)


def _lock(sink: BinaryIO, part: Path) -> None:
    """Only one process writes a part; fail if another process has just finished it."""
    try:
        fcntl.flock(sink, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = os.fstat(sink.fileno()).st_ino == part.stat().st_ino
    except (BlockingIOError, FileNotFoundError):
        is_ours = False
    if not is_ours:
        raise OSError(f"{part} must be written by one process at a time, got another one at work")


def _read_hash(path: Path) -> str | None:
    note = path.with_name(f"{path.name}.sha256")
    if not note.is_file():
        return None
    words = note.read_bytes().decode("ascii", "replace").split()
    if not words or not re.fullmatch("[0-9a-f]{64}", words[0]):
        raise ValueError(f"{note} must begin with 64 hexadecimal digits, got {' '.join(words)[:80]!r}")
    return words[0]


def _write_hash(path: Path, sha256: str) -> None:
    note = path.with_name(f"{path.name}.sha256")
    with whole_file(note) as fresh:
        fresh.write_text(f"{sha256}  {path.name}\n")


def _text(error: Exception) -> str:
    reason: Any = getattr(error, "reason", error)
    return f"{type(error).__name__}: {reason}"
