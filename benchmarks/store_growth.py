"""How a store grows with retrains, and what a cleaning leaves: bytes by part, against one run with its bundle.

`python benchmarks/store_growth.py` retrains so many times on other data each time, every fifth time with simulation,
all gates passed; then it cleans. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.faults.launcher import launcher

PARTS = {"artifacts": ("artifacts",), "features, traces and curves": ("features", "traces", "curves"),
         "mlflow.db": ("mlflow.db",), "bundles, candidates, picture": ("bundles", "candidates", "overview.png")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--retrains", type=int, default=20)
    parser.add_argument("--n-requests", type=int, default=5_000)
    parser.add_argument("--json", type=Path, default=Path("store_growth.json"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="growth-") as folder, launcher(Path(folder)) as started:
        store = Path(folder) / "store"
        command = ["train", "--store", str(store), "--n-requests", str(asked.n_requests), "--n-threads", "1"]
        sizes = []
        for seed in range(asked.retrains):
            simulate = "--simulate" if seed % 5 == 4 else "--no-simulate"
            ended = started.run([*command, "--seed", str(seed), simulate], store)
            if ended.code != 0:
                raise RuntimeError(f"a retrain must end with exit code 0, got {ended.code}: {ended.printed[-1_000:]}")
            sizes.append(_sizes(store))
            print(f"{seed + 1:>3} retrains: {sum(sizes[-1].values()) / 1e6:.1f} MB", flush=True)
        after = {}
        for n_caches in (1, 2):
            words = ["store", "clean", "--store", str(store), "--keep-caches", str(3 - n_caches), "--yes"]
            ended = started.run(words, store)
            if ended.code != 0:
                raise RuntimeError(f"a cleaning must end with exit code 0, got {ended.code}: {ended.printed[-1_000:]}")
            after[f"--keep-caches {3 - n_caches}"] = _sizes(store)
    first, last = sizes[0], sizes[-1]
    grown = [(last[part] - first[part]) / max(asked.retrains - 1, 1) for part in ("artifacts", "mlflow.db")]
    unit = sum(grown)
    print(f"one run with its bundle: {grown[0] / 1e6:.2f} MB of artifacts, {grown[1] / 1e6:.2f} MB of mlflow.db")
    for part in PARTS:
        print(f"{part:<30}{last[part] / 1e6:>8.1f} MB" + "".join(f"{of[part] / 1e6:>8.1f} MB" for of in after.values()))
    for name, of in (("before", last), *after.items()):
        n_bytes = sum(of.values())
        print(f"{name:<20}{n_bytes / 1e6:>8.1f} MB, {n_bytes / unit:>6.1f} times one run with its bundle")
    asked.json.write_text(json.dumps({"retrains": asked.retrains, "unit_bytes": unit, "each": sizes, "after": after},
                                     indent=1) + "\n")


def _sizes(store: Path) -> dict[str, int]:
    """Bytes of each part of the store; Prefect's files lie elsewhere here."""
    return {part: sum(path.stat().st_size for name in names for path in (store / name, *(store / name).rglob("*"))
                      if path.is_file()) for part, names in PARTS.items()}


if __name__ == "__main__":
    main()
