"""Seconds and peak memory to read 100,000 pods through the reader `kubernetes`, beside Python's own `json.load`.

    python -m benchmarks.pod_lists [--n-rows 100000] [--json FILE]     # as a list that kubectl writes
    python -m benchmarks.pod_lists --watch [--n-rows 600000]           # as events of a watch
"""

from __future__ import annotations

import importlib.util
import json
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

from benchmarks.reader_cost import Baseline, run

_N_FILLED = 12
"""Variables and volumes that each pod gets besides, so that it is as long as pods of real clusters are, or longer."""
WHOLE = Baseline("json.load", "import json; n = len(json.load(open(sys.argv[1]))['items'])")
LINES = Baseline("json.loads", "import json; n = sum(len(json.loads(line)) > 0 for line in open(sys.argv[1]))")


def write_list(path: Path, n_rows: int) -> None:
    """One list of so many pods, of which 3 in 4 have ended."""
    made = _maker()
    pods = made.cluster(n_rows / 2_000, 100, 0)[:n_rows]
    when_s = pods[len(pods) * 3 // 4].ended_s
    with path.open("w") as stream:
        stream.write(made.list_text([])[:-len('],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": '
                                             '""\n    }\n}\n')])
        for idx, pod in enumerate(pods):
            text = json.dumps(_filled(made.seen_at(pod, max(when_s, pod.started_s + 2))), indent=4)
            stream.write(",\n" * (idx > 0) + "\n".join("        " + line for line in text.splitlines()))
        stream.write('\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n')


def write_watch(path: Path, n_rows: int) -> None:
    """So many events."""
    made = _maker()
    days = n_rows / 14_000
    events = made.watch(made.cluster(days, 100, 0), made.START_S + int(days * made.DAY_S))
    with path.open("w") as stream:
        for kind, seen in islice(events, n_rows):
            stream.write(made.event_line(kind, _filled(seen)))


def _filled(pod: dict) -> dict:  # type: ignore[type-arg]
    main = pod["spec"]["containers"][0]
    main["env"] = [{"name": f"VARIABLE_{idx}", "value": f"a value of {pod['metadata']['name']}"}
                   for idx in range(_N_FILLED)]
    pod["spec"]["volumes"] = [{"name": f"volume-{idx}", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]}} for idx in range(_N_FILLED)]
    return pod


def _maker() -> ModuleType:
    name = "made_recording"
    path = Path(__file__).parents[1] / "examples" / "kubernetes" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} must be a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    if "--watch" in sys.argv:
        sys.argv.remove("--watch")
        run(__doc__, "kubernetes", "watch.json", LINES, write_watch, 600_000)
    else:
        run(__doc__, "kubernetes", "pods.json", WHOLE, write_list, 100_000)
