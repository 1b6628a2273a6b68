"""A scheduler that restarts: its predictor goes on from a snapshot, and what runs can still be asked and ended."""

import sys
import tempfile
from pathlib import Path

from sojourn.serving import Predictor, example_bundle

bundle = sys.argv[1] if sys.argv[1:] else example_bundle()
kept = Path(tempfile.mkdtemp()) / "history"
now_s = 1_706_486_400
predictor = Predictor.load(bundle, history=kept)  # the first start: no snapshot yet, so the bundle's history
pods = {}  # a scheduler keeps the id beside the pod: in an annotation, say
for number in range(3):
    request = {"cpu_cores": 2, "mem_gib": 8, "subscription": "s4", "zone": "z0"}
    vm = predictor.admit(request, now_s + number)
    pods[f"pod-{number}"] = vm.id
predictor.ended(pods.pop("pod-0"), now_s + 600)
predictor.snapshot(kept)  # every few minutes, and before a planned stop
before_s = predictor.handle(pods["pod-1"]).remaining(7_200)
asked_s = predictor.predict(request, now_s + 900).remaining(0)

predictor = Predictor.load(bundle, history=kept)  # the next start
assert predictor.info()["is_restored"]
assert predictor.handle(pods["pod-1"]).remaining(7_200) == before_s
assert predictor.predict(request, now_s + 900).remaining(0) == asked_s
print(f"{len(predictor.running())} pods run on, as before the restart; pod-1 is predicted to stay for "
      f"{before_s / 3_600:.1f} h more after 2 h")
predictor.ended(pods.pop("pod-1"), now_s + 7_200)
try:
    predictor.ended("00000000000000ff-1", now_s + 7_200)
except ValueError as error:
    print(error)
for path in kept.iterdir():
    path.unlink()
kept.rmdir()
kept.parent.rmdir()
