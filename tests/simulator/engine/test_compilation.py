"""The compiled loop's cache: told apart by policy, kept between processes, never in the way."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target

import sojourn.simulator as sim
from sojourn.simulator import POLICIES
from sojourn.simulator.engine import compilation
from sojourn.simulator.engine.compilation import callees_linked_only, policy_sources
from sojourn.simulator.engine.composition import plain_function
from sojourn.simulator.jit import inner, kernel
from sojourn.source_closure import installed
from studies.policies import STUDY_POLICIES

TARGET: Any = cpu_target

CODE = """
import sys
import numpy as np, pandas as pd, sojourn.simulator as sim
table = pd.DataFrame({"request_id": [0, 1], "arrival_s": [0, 7200], "departure_s": [40_000, 40_000],
                      "cpu_cores": [2.0, 2.0], "mem_gib": [1.0, 1.0]})
hosts = pd.DataFrame({"host_id": [0, 1], "cpu_cores": [4.0, 4.0], "mem_gib": [4.0, 4.0]})
workload = sim.Workload("test", sim.Trace(table, 50_000), hosts, np.array([40_000, 32_800]))
source = sim.Held([0, 1], sim.one_step(np.array([60, 40_000])))
for policy in sys.argv[1:]:
    result = sim.simulate(workload, policy, source, is_ranked=False)
    print(result.host.tolist(), result.compile_s)
"""


def run(folder: Path, *policies: str) -> list[str]:
    done = subprocess.run([sys.executable, "-W", "error", "-c", CODE, *policies], capture_output=True, text=True,
                          env=os.environ | {"NUMBA_CACHE_DIR": str(folder)})
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


@pytest.mark.slow
def test_a_second_process_finds_what_the_first_compiled(tmp_path: Path) -> None:
    first, second = (run(tmp_path, "nilas", "la-binary") for _ in range(2))
    assert [line.split("]")[0] for line in first] == [line.split("]")[0] for line in second]
    kept = list((tmp_path / "sojourn").glob("replay_*.nbi"))
    assert len(kept) == 2, "each policy has files of its own"
    # loading takes well under a second where compiling takes several
    assert float(second[1].split("]")[1]) < float(first[1].split("]")[1]) / 2


def test_a_callee_has_no_machine_code_of_its_own_and_serves_every_caller() -> None:
    @inner
    def more(x: int) -> int:
        return x + 1

    @kernel
    def twice_more(x: int) -> int:
        return more(more(x))

    @kernel
    def less_than_more(x: int) -> int:
        return more(x) - 2

    with callees_linked_only():
        assert twice_more(3) == 5
    assert less_than_more(3) == 2
    codegen = TARGET.target_context.codegen()
    form = next(iter(more.overloads.values()))  # type: ignore[attr-defined]
    assert not codegen._engine.is_symbol_defined(form.fndesc.mangled_name)
    assert codegen._library_class is JITCodeLibrary


def test_a_release_of_numba_that_was_not_tried_compiles_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    @inner
    def more(x: int) -> int:
        return x + 1

    @kernel
    def once_more(x: int) -> int:
        return more(x) + 1

    monkeypatch.setattr(compilation, "TRIED_NUMBA", (0, 61))
    codegen = TARGET.target_context.codegen()
    with callees_linked_only():
        assert codegen._library_class is JITCodeLibrary
        assert once_more(3) == 5
    form = next(iter(more.overloads.values()))  # type: ignore[attr-defined]
    assert codegen._engine.is_symbol_defined(form.fndesc.mangled_name)


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert run(blocked, "la-binary")[0].startswith("[0, ")


MINE = """
import numpy as np
from my_helper import HALVES, WEIGHT, weighed
from sojourn.simulator import kernel

@kernel
def mine(cluster, host, request, now):
    return weighed(host) + np.sum(HALVES)
"""
HELPER = """
import numpy as np
from sojourn.simulator import kernel

WEIGHT, FACTOR, HALVES = 1, (2, 3.0), np.array([0.5])

@kernel
def weighed(host):
    return host * WEIGHT * FACTOR[0]
"""


def test_the_key_sees_what_a_scorer_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_policy.py").write_text(MINE)
    (tmp_path / "my_helper.py").write_text(HELPER)
    monkeypatch.syspath_prepend(tmp_path)
    module, helper = importlib.import_module("my_policy"), importlib.import_module("my_helper")
    policy = sim.Policy("mine", (module.mine,))
    before = policy_sources(policy)
    assert HELPER in before
    assert "my_helper.WEIGHT = 1" in before
    assert "my_helper.FACTOR = (2, 3.0)" in before
    for name, value in (("WEIGHT", 2), ("FACTOR", (2, 4.0)), ("weighed", plain_function(POLICIES["nilas"].scorers[0]))):
        with monkeypatch.context() as patched:
            patched.setattr(helper if name != "weighed" else module, name, value)
            assert policy_sources(policy) != before, name
    monkeypatch.setattr(module, "HALVES", np.array([0.25]))
    assert policy_sources(policy) != before
    monkeypatch.setattr(module, "HALVES", {"a": 1})
    with pytest.raises(TypeError, match="HALVES can't be keyed by its value, a dict"):
        policy_sources(policy)


@pytest.mark.parametrize("policy", [*sim.POLICIES.values(), *STUDY_POLICIES.values()], ids=lambda policy: policy.name)
def test_every_policy_of_ours_is_kept(policy: sim.Policy) -> None:
    assert len(policy_sources(policy)) > 15


def test_the_key_holds_all_that_the_loop_imports_wherever_it_stands() -> None:
    text = "\n".join(policy_sources(POLICIES["lava"]))
    needed = installed().closure("sojourn.simulator.loop.replay", "sojourn.simulator.engine.composition",
                                 "sojourn.simulator.loop.migration_order", "sojourn.simulator.policies.lava")
    assert {"sojourn.simulator.policies.nilas", "sojourn.simulator.loop.exits"} <= needed.keys()
    assert not [name for name, source in needed.items() if source.decode() not in text]
    for name in ("page.page", "page.comparison_data", "policies.dapp", "workloads.recipes"):
        assert installed().closure(f"sojourn.simulator.{name}")[f"sojourn.simulator.{name}"].decode() not in text, name
