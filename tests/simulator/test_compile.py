"""The compiled loop's cache: told apart by policy, kept between processes, never in the way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import numpy as np, pandas as pd, sojourn.simulator as sim
table = pd.DataFrame({"request_id": [0, 1], "arrival_s": [0, 7200], "departure_s": [40_000, 40_000],
                      "cpu_cores": [2.0, 2.0], "mem_gib": [1.0, 1.0]})
hosts = pd.DataFrame({"host_id": [0, 1], "cpu_cores": [4.0, 4.0], "mem_gib": [4.0, 4.0]})
workload = sim.Workload("test", sim.Trace(table, 50_000), hosts, np.array([40_000, 32_800]))
source = sim.Held([0, 1], sim.one_step(np.array([60, 40_000])))
for policy in ("nilas", "la-binary"):
    result = sim.simulate(workload, policy, source, is_ranked=False)
    print(result.host.tolist(), result.compile_s)
"""


def run(folder: Path) -> list[str]:
    done = subprocess.run([sys.executable, "-W", "error", "-c", CODE], capture_output=True, text=True,
                          env=os.environ | {"NUMBA_CACHE_DIR": str(folder)})
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


@pytest.mark.slow
def test_a_second_process_finds_what_the_first_compiled(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert [line.split("]")[0] for line in first] == [line.split("]")[0] for line in second]
    kept = list((tmp_path / "sojourn").glob("replay_*.py"))
    assert len(kept) == 2, "each policy has a file of its own"
    # loading takes well under a second where compiling takes several
    assert float(second[1].split("]")[1]) < float(first[1].split("]")[1]) / 2


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert run(blocked)[0].startswith("[0, ")
