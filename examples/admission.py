"""A gateway that takes jobs with deadlines: run times from a served model, counter-offers, a restart."""

import sys
import tempfile
from pathlib import Path

from sojourn.serving import Predictor, example_bundle
from sojourn.simulator.admission import Admission, OfferedJob

bundle = sys.argv[1] if sys.argv[1:] else example_bundle()
predictor, kept = Predictor.load(bundle), Path(tempfile.mkdtemp()) / "admission"
machine = Admission(8, "best-fit", is_backfilling=True)
request, now_s = {"cpu_cores": 4, "mem_gib": 16, "subscription": "s4", "zone": "z0"}, 1_706_486_400
planned_s = int(predictor.predict(request, now_s).quantile(0.9, 0))  # longer in one of ten cases
for number in range(3):
    job = OfferedJob(now_s, planned_s, 4, now_s + planned_s, f"job-{number}")
    answer = machine.offer(job)
    where = f"on cores {answer.cores}" if answer.is_accepted else (
        f"{answer.reason}; possible {answer.counter_offer_s - job.deadline_s} s later")
    print(f"{job.name}, planned for {planned_s} s: {where}")
machine.save(kept)  # with `Admission.open` each answer is kept before it is given

machine = Admission.load(kept)  # the next start
answer = machine.offer(OfferedJob(now_s + 60, planned_s, 4, now_s + 2 * planned_s, "job-2"))
assert answer.is_accepted
assert answer.start_s == now_s + planned_s
print(f"job-2 again, with the deadline that was offered: on cores {answer.cores}, {planned_s} s after the first two")
