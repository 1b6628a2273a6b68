"""Rows of hostile or foreign input, and of what a run leaves behind: each by the public faces alone."""

from __future__ import annotations

import os
import pickle  # noqa: TID251  (as a foreign handle arrives)
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from benchmarks.faults.tries import KILLED, Bench, Try, timed

BOMB_BYTES = 800_000_000
PEAK_BYTES_MAX = 300_000_000


def killed_server(bench: Bench) -> Iterator[Try]:
    """kill -9 of a run that brought its own Prefect server: the server ends too"""
    def problems() -> list[str]:
        bench.promoted()
        environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
        environment |= {"FAULTS_BENCH": str(bench.folder), "PREFECT_HOME": str(bench.folder / "own")}
        printed = bench.folder / "own.txt"  # no pipe: a server that outlives its run would hold it open
        with printed.open("w") as output:
            run = subprocess.Popen([sys.executable, "-u", "-c", "from sojourn.flows.cli import app; app()",
                                    *bench.retrain(KILLED)], env=environment, stdout=output, stderr=output)
        while "train" not in printed.read_text() and run.poll() is None:
            time.sleep(0.1)
        run.kill()
        run.wait()
        deadline = time.monotonic() + 30.0
        while (left := _marked(str(bench.folder))) and time.monotonic() < deadline:
            time.sleep(0.2)
        for process in left:
            process.kill()
        pickles = [path for path in (bench.folder / "own").rglob("*") if path.is_file()
                   and path.read_bytes()[:2] in (b"\x80\x04", b"\x80\x05")]
        return ([f"a process is left: {' '.join(process.cmdline())[:100]}" for process in left]
                + [f"a pickle is written: {path.name}" for path in pickles])

    yield timed("killed in training", problems)


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("FAULTS_BENCH") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


_BOMB = """
import io, json, resource, struct, sys, zipfile
from hashlib import sha256
from pathlib import Path
import numpy as np
from sojourn.serving import BundleError, Predictor
folder = Path(sys.argv[1])
buffer = io.BytesIO()
with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (8,)})
    with archive.open("sums.npy", "w", force_zip64=True) as entry:
        entry.write(header.getvalue())
        for _ in range(int(sys.argv[2]) // (1 << 20)):
            entry.write(bytes(1 << 20))
data = bytearray(buffer.getvalue())
for signature, at in ((b"PK\\x03\\x04", 22), (b"PK\\x01\\x02", 24)):  # the sizes that the archive states
    place = data.find(signature)
    data[place + at:place + at + 4] = struct.pack("<I", 192)
(folder / "history.npz").write_bytes(data)
manifest = json.loads((folder / "MANIFEST.json").read_text())
text = json.dumps(manifest)
for name, digest in ((name, value) for part in (manifest, *(v for v in manifest.values() if isinstance(v, dict)))
                     for name, value in part.items() if name == "history.npz"):
    text = text.replace(digest, sha256(data).hexdigest())
(folder / "MANIFEST.json").write_text(text)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    Predictor.load(folder)
    print("accepted")
except BundleError as error:
    print("refused", error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def bomb(bench: Bench) -> Iterator[Try]:
    """A history.npz that states small sizes and inflates to 0.8 GB"""
    def problems() -> list[str]:
        bench.promoted()
        folder = next((bench.store / "bundles").iterdir())
        done = subprocess.run([sys.executable, "-c", _BOMB, str(folder), str(BOMB_BYTES)], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            return [f"the try fails: {done.stderr.strip().splitlines()[-1]}"]
        *answer, grown = done.stdout.strip().splitlines()
        found = [] if answer[0].startswith("refused") else ["it is accepted"]
        return found + ([f"memory grows by {int(grown) / 1e6:.0f} MB"] if int(grown) > PEAK_BYTES_MAX else [])

    yield timed(f"{BOMB_BYTES / 1e9:.1f} GB", problems)


def handles(bench: Bench) -> Iterator[Try]:
    """Handles of another process, and copies of ones that were used, given to ended()"""
    def problems() -> list[str]:
        bench.promoted()
        folder = next((bench.store / "bundles").iterdir())
        foreign = bench.folder / "handle"
        ended = bench.launcher.call(lambda: foreign.write_bytes(pickle.dumps(_admitted(folder)[1]))).wait()
        if ended.code != 0:
            return [] if "pickle" in ended.last_line else [f"the try fails: {ended.last_line}"]

        def asked() -> list[str]:
            predictor, own = _admitted(folder)
            other = pickle.loads(foreign.read_bytes())  # noqa: S301
            copied = pickle.loads(pickle.dumps(own))  # noqa: S301
            found = ["a handle of another process is accepted"] if _is_accepted(predictor, other) else []
            if not _is_accepted(predictor, own):
                found.append("its own handle is refused")
            return found + (["a copy is accepted after its handle"] if _is_accepted(predictor, copied) else [])

        return bench.asked(asked)

    yield timed("given to ended()", problems)


def _admitted(folder: Path) -> tuple[Any, Any]:
    """A predictor and a request that it has admitted."""
    from sojourn.serving import Predictor

    predictor = Predictor.load(folder)
    return predictor, predictor.admit({}, 1_712_707_200)


def _is_accepted(predictor: Any, handle: Any) -> bool:
    try:
        predictor.ended(handle, 1_712_710_800)
    except ValueError:
        return False
    return True
