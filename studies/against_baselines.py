"""The chosen family against every baseline that a study trained, a row a trace and measure, from logged studies.

    sojourn lab evaluate FILE --reader READER --store STORE   (for each trace)
    python -m studies against-baselines STORE [--json FILE]

Difference: chosen minus baseline on the same test requests, with the paired 95 % interval over drawn owners. Shown is
the best baseline by the measure; worse than: all those where the interval excludes 0 the wrong way.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sojourn.flows.settings.retrain import load_config
from sojourn.flows.tracking.tracker import Tracker

MEASURES = {"Brier ages": ("ages.ibs", 1.0), "MAE at 10m": ("age_10m.mae_log10_remaining", 1.0),
            "MAE at 1h": ("age_1h.mae_log10_remaining", 1.0), "MAE at 6h": ("age_6h.mae_log10_remaining", 1.0),
            "MAE IPCW at 10m": ("age_10m.mae_log10_remaining_ipcw", 1.0),
            "MAE IPCW at 1h": ("age_1h.mae_log10_remaining_ipcw", 1.0),
            "MAE IPCW at 6h": ("age_6h.mae_log10_remaining_ipcw", 1.0),
            "MAE restricted at 10m": ("age_10m.mae_log10_remaining_restricted", 1.0),
            "MAE restricted at 1h": ("age_1h.mae_log10_remaining_restricted", 1.0),
            "MAE restricted at 6h": ("age_6h.mae_log10_remaining_restricted", 1.0),
            "AP > T at 6h": ("age_6h.ap_long", -1.0)}
"""Title, name in a study, and 1 where lower is better, -1 where higher is."""


def compared(study: dict[str, Any]) -> list[dict[str, Any]]:
    """A row a measure that the chosen family and a baseline have."""
    chosen, rows = study["chosen"], []
    own = study["scores"][chosen]
    for title, (name, sign) in MEASURES.items():
        known = {family: each[name] for family, each in study["differences"].items() if name in each}
        if name not in own or not known:
            continue
        best = min(known, key=lambda family: sign * study["scores"][family][name])
        worse = [family for family, (_, low, high) in known.items()
                 if low is not None and high is not None and min(sign * low, sign * high) > 0.0]
        difference, low, high = known[best]
        rows.append({"trace": study["trace"], "chosen": chosen, "measure": title, "value": own[name], "best": best,
                     "of_best": study["scores"][best][name], "difference": difference, "low": low, "high": high,
                     "worse_than": worse, "n_baselines": len(known)})
    return rows


def main() -> None:
    """Print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/studies/against_baselines.json"))
    asked = parser.parse_args()
    studies = Tracker(load_config(store=asked.store).mlflow_uri, asked.store / "artifacts").studies()
    rows = [row for study in sorted(studies, key=lambda each: str(each["trace"])) for row in compared(study)]
    print("| trace | chosen | measure | value | best baseline | difference [95 %] | worse than |")
    print("|---|---|---|---:|---|---|---|")
    for row in rows:
        interval = "-" if row["low"] is None else f"{row['low']:+.4f} to {row['high']:+.4f}"
        print(f"| {row['trace']} | {row['chosen']} | {row['measure']} | {row['value']:.4f} | {row['best']} "
              f"{row['of_best']:.4f} | {row['difference']:+.4f} [{interval}] | {', '.join(row['worse_than']) or '-'} |")
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
