"""The simulation's loops, compiled by a process beside the training: the same loops, and no run fails by it."""

from __future__ import annotations

import subprocess
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sojourn.features.synthetic import synthesize
from sojourn.flows.retrain import judge
from sojourn.flows.retrain.features import Features
from sojourn.flows.retrain.judge import _REPLAYED, loops_ahead
from sojourn.flows.settings.retrain import PlacementSettings
from sojourn.simulator import KNOWN_POLICIES, Oracle, build_workload, simulate
from sojourn.simulator.engine import compilation, world

FEATURES = cast(Features, SimpleNamespace(trace=SimpleNamespace(resources=("cpu_cores", "mem_gib"))))


class Asked(Exception):
    """How a replay asks for its loop."""


def test_the_loops_are_those_that_the_replays_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(policy: Any, n_resources: int, **how: Any) -> Any:
        raise Asked(n_resources, how)

    monkeypatch.setattr(world, "compiled_loop", asked)
    workload = build_workload("trace", synthesize(1_000, seed=1), load=0.8, seed=0, is_fitted=True)
    for name in _REPLAYED:
        with pytest.raises(Asked) as found:
            simulate(workload, name, Oracle(workload))
        assert found.value.args == (2, compilation._plain(KNOWN_POLICIES[name]))


def test_only_what_is_not_kept_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def is_kept(module: str, name: str, key: str) -> bool:
        looked.append(key)
        return len(looked) % 2 == 0

    monkeypatch.setattr(compilation, "is_kept", is_kept)
    assert compilation.missing_ahead([KNOWN_POLICIES[name] for name in _REPLAYED], 2) == [*_REPLAYED[::2]]
    assert len({*looked}) == len(_REPLAYED)


@pytest.mark.parametrize(("settings", "names"), [
    (PlacementSettings(), ["no such policy"]),  # its process ends with an error, of which nobody hears
    (PlacementSettings(), []),
    (PlacementSettings(simulate=False), None),
    (PlacementSettings(n_threads=1), None),  # no second core is ours
])
def test_a_block_goes_on_whatever_becomes_of_the_loops(monkeypatch: pytest.MonkeyPatch, settings: PlacementSettings,
                                                       names: list[str] | None) -> None:
    begun: list[list[str]] = []
    popen = subprocess.Popen

    def counted(command: list[str], **given: Any) -> Any:
        begun.append(command)
        return popen(command, **given)

    def missing(asked: Any, n_resources: int) -> list[str]:
        assert names is not None, "nothing is to be asked"
        return names

    monkeypatch.setattr(judge, "missing_ahead", missing)
    monkeypatch.setattr(subprocess, "Popen", counted)
    with loops_ahead(settings, FEATURES):
        pass
    assert len(begun) == bool(names)


def test_a_run_that_fails_does_not_wait_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "missing_ahead", lambda asked, n_resources: ["x"])
    popen, begun = subprocess.Popen, []

    def sleeping(command: list[str], **given: Any) -> Any:
        begun.append(popen(["/bin/sleep", "600"], **given))
        return begun[0]

    monkeypatch.setattr(subprocess, "Popen", sleeping)
    started = time.monotonic()
    with pytest.raises(ValueError, match="refused"), loops_ahead(PlacementSettings(), FEATURES):
        raise ValueError("refused")
    assert begun[0].returncode is not None and time.monotonic() - started < 300.0
