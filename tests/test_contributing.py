"""What CONTRIBUTING.md says of adding a policy, and the page that it sends to, followed word by word."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import sojourn.simulator as sim
from sojourn.features.synthetic import synthesize

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("features", "flows", "models", "serving", "simulator")


def section(file: Path, heading: str) -> str:
    """What stands under a heading of the second level."""
    parts = re.split(r"^## (.+)\n", file.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[heading]


def blocks(language: str) -> list[str]:
    """The code of the section that CONTRIBUTING sends to: the first page with a quoted heading."""
    steps = section(ROOT / "CONTRIBUTING.md", "Add a policy")
    sent = re.search(r'(docs/\w+\.md), "([^"]+)"', steps)
    assert sent is not None, steps
    text = section(ROOT / sent[1], sent[2])
    return [textwrap.dedent(code) for code in re.findall(rf" *```{language}\n(.*?)```", text, re.DOTALL)]


@pytest.mark.slow
def test_a_policy_is_added_registered_and_compared(tmp_path: Path) -> None:
    source = tmp_path / "sojourn"
    source.mkdir()
    for file in (ROOT / "src/sojourn").glob("*.py"):
        shutil.copy(file, source)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    written, line, *_ = blocks("python")
    assert "._" not in written, "a policy needs no private import"
    policies = source / "simulator/policies"
    (policies / "least_requests.py").write_text(written)
    assert len(written.splitlines()) <= 40
    registry = (policies / "__init__.py").read_text()
    registry = registry.replace("from sojourn.simulator.policies.nilas import",
                                "from sojourn.simulator.policies.least_requests import LEAST_REQUESTS\n"
                                "from sojourn.simulator.policies.nilas import", 1)
    head = "POLICIES: Mapping[str, Policy] = MappingProxyType({\n"
    assert head in registry
    (policies / "__init__.py").write_text(registry.replace(head, f"{head}    {line.strip()}\n", 1))
    command = [sys.executable, "-c", "from sojourn.flows.cli import app; app()", "compare", "--policy",
               "least-requests", "--seeds", "2", "--n-requests", "2000", "--n-workers", "1", "--store",
               str(tmp_path / "store")]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
                          timeout=500)
    assert done.returncode == 0, done.stderr
    assert "least-requests" in done.stdout


@pytest.mark.parametrize("k", [pytest.param(2, marks=pytest.mark.slow), 3])  # compiled; in NumPy
def test_the_unregistered_policies_of_the_page_run(k: int) -> None:
    names: dict[str, object] = {}
    assert "._" not in blocks("python")[k]
    exec(blocks("python")[k], names)
    policy = names["mine"]
    assert isinstance(policy, sim.Policy)
    workload = sim.build_workload("synthetic", synthesize(1_000, seed=2))
    result = sim.simulate(workload, policy)
    assert (np.asarray(result.host) >= 0).all()
