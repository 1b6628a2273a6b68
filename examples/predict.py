"""How long will this VM stay? Asked once when it is placed, looked up ever after."""

import sys

from sojourn.serving import Predictor, example_bundle

bundle = sys.argv[1] if sys.argv[1:] else example_bundle()
predictor = Predictor.load(bundle)
request = {"cpu_cores": 2, "mem_gib": 8, "subscription": "s4", "zone": "z0", "vm_category": "delay-insensitive"}
vm = predictor.admit(request, now_s=1_706_486_400)
for hours in (0, 1, 24, 96):
    uptime_s = hours * 3_600
    print(f"after {hours:2d} h: {vm.remaining(uptime_s) / 3_600:5.1f} h left on average, "
          f"1 in 10 stays longer than {vm.quantile(0.9, uptime_s) / 3_600:5.1f} h, "
          f"class {vm.lifetime_class(uptime_s)}")  # fmt: skip
print(f"ask again at {vm.next_change(3_600) / 3_600:.1f} h; not given: {', '.join(vm.not_given)}")
predictor.ended(vm, now_s=1_706_572_800)
