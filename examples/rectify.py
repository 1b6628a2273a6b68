"""Today's list for an operator: which requests to migrate, which host each frees, when, and with what probability.

`sojourn lab rectify examples/pool --bundle BUNDLE --budget 5` prints the same, with what it does not know of
the requests.
"""

import sys
from pathlib import Path

from sojourn.flows.placement.snapshot import read_snapshot
from sojourn.flows.reports.section import migrations_table
from sojourn.serving import Predictor, example_bundle
from sojourn.simulator import Rectify
from sojourn.simulator.rectification import RECTIFIERS

bundle = sys.argv[1] if sys.argv[1:] else example_bundle()
asked = Rectify("value", budget=5)
pool = read_snapshot(Path(__file__).with_name("pool"), Predictor.load(bundle), now_s=1_706_486_400)
table = migrations_table(pool, RECTIFIERS[asked.planner](pool.view, asked.budget, asked.long_s))
for row in table.to_dict("records"):
    together = "" if row["n_together"] == 1 else f" with {row['n_together'] - 1} more"
    print(f"{row['request_id']} from {row['from_host']} to {row['to_host']}{together}: it stays for "
          f"{row['predicted_remaining_h']:.0f} h more; {row['frees_host']} is likely empty after "
          f"{row['likely_after_h']:.1f} h, and in 24 h with {row['chance_pct']:.0f} % (else "
          f"{row['chance_without_pct']:.0f} %); {row['gain_h']:.0f} host-hours are expected")
