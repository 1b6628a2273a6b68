"""Weighs made hosts with the weigher in an environment with the real nova, and prints the weights as JSON.

Arguments: two bundle folders, the second to be published later. tests/examples/test_sojourn_weigher.py runs it.
"""

import datetime
import json
import os
import shutil
import sys
import time
from pathlib import Path

bundle, other = sys.argv[1:]

import nova.conf  # noqa: E402
from nova import context, objects  # noqa: E402
from nova.scheduler import host_manager, weights  # noqa: E402
from nova.scheduler.weights import ram  # noqa: E402

objects.register_all()
from sojourn_weigher import SojournWeigher  # noqa: E402

CONF = nova.conf.CONF
CONF([], project="nova", default_config_files=[])
served = f"{bundle}-served"
shutil.copytree(bundle, served)
CONF.set_override("bundle", served, group="sojourn")
UUIDS = iter(f"{number:08x}-0000-4000-8000-000000000000" for number in range(1, 99))


def vm(project, hours):
    """A VM that was launched so many hours ago."""
    launched = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=hours)
    return objects.Instance(context.get_admin_context(), uuid=next(UUIDS), project_id=project, user_id=f"{project}-1",
                            availability_zone="az1", vcpus=2, memory_mb=4096, root_gb=20, launched_at=launched,
                            created_at=launched)


def host(name, *vms):
    state = host_manager.HostState(name, name, "cell")
    state.instances = {each.uuid: each for each in vms}
    state.free_ram_mb = 1000 * (1 + len(vms))
    return state


def weighed(project, hosts, weighers=None):
    """Hosts, the best first, with their weights, as nova-scheduler has them."""
    flavor = objects.Flavor(vcpus=2, memory_mb=4096, root_gb=20, name="m1")
    spec = objects.RequestSpec(project_id=project, user_id=f"{project}-1", availability_zone="az1", flavor=flavor)
    found = weights.HostWeightHandler().get_weighed_objects(weighers or [SojournWeigher()], hosts, spec)
    return [[each.obj.host, each.weight] for each in found]


hosts = [host("empty"), host("short", vm("batch", 0.1)), host("long", vm("batch", 0.1), vm("web", 0.1))]
weigher = SojournWeigher()
handler = weights.HostWeightHandler()
classes = handler.get_matching_classes(["sojourn_weigher.SojournWeigher", "nova.scheduler.weights.ram.RAMWeigher"])
started = time.perf_counter()
many = [host(f"h{number}", *[vm("web", number)]) for number in range(40)]
first = weighed("web", many, [weigher])
first_s, started = time.perf_counter() - started, time.perf_counter()
weighed("web", many, [weigher])
result = {
    "classes": sorted(each.__name__ for each in classes),
    "batch": weighed("batch", hosts), "web": weighed("web", hosts), "stranger": weighed("nobody", hosts),
    "with_ram": weighed("web", hosts, [SojournWeigher(), ram.RAMWeigher()]),
    "half_known": weighed("web", [*hosts, host("broken", objects.Instance(uuid=next(UUIDS)))]),
    "first_s": first_s, "second_s": time.perf_counter() - started, "version": [weigher.predictor.version],
}
shutil.rmtree(served)
shutil.copytree(other, served)
os.utime(Path(served) / "MANIFEST.json", (1, 1))
weighed("web", hosts, [weigher])
result["version"].append(weigher.predictor.version)
(Path(served) / "model.onnx").unlink()
result["damaged"] = weighed("web", hosts)
CONF.set_override("bundle", None, group="sojourn")
result["none"] = weighed("web", hosts)
print(json.dumps(result))
