"""A weigher for Nova's scheduler: a VM goes to the host whose predicted exit it extends least (NILAS).

nova.conf, with this file and `sojourn` where nova-scheduler imports from:
  [filter_scheduler]  weight_classes = nova.scheduler.weights.all_weighers,sojourn_weigher.SojournWeigher
  [sojourn]           bundle = /var/lib/sojourn/bundle   (of `--reader openstack`; `sojourn model pull` renews it)
It never fails a placement: where a host, a VM or the bundle cannot be read, all hosts weigh the same.
"""

import bisect
import time
from pathlib import Path

import nova.conf
from nova.scheduler import weights
from oslo_config import cfg
from oslo_log import log

from sojourn.serving import Predictor

CONF, LOG = nova.conf.CONF, log.getLogger(__name__)
CONF.register_opts([cfg.StrOpt("bundle"), cfg.FloatOpt("weight_multiplier", default=10.0)], group="sojourn")
BUCKET_S = (1800, 3600, 5400, 7200, 10800, 14400, 21600, 43200, 86400, 604800)
"""Extensions of a host's exit within one bucket weigh the same (LAVA, section 4.2)."""


class SojournWeigher(weights.BaseHostWeigher):
    """Weight 0 for a host that is not extended by half an hour, -10 for one extended by a week: higher wins."""

    minval, maxval = -float(len(BUCKET_S)), 0.0

    def __init__(self):
        self.predictor, self._seen, self._lives = None, None, {}

    def weight_multiplier(self, host_state):
        return CONF.sojourn.weight_multiplier

    def _weigh_object(self, host_state, spec):
        raise NotImplementedError("hosts are weighed together")

    def weigh_objects(self, weighed_obj_list, spec):
        try:
            self._load()
            now_s = int(time.time())
            flavor = spec.flavor
            vm = self._predict(spec.project_id, spec.user_id, spec.availability_zone, flavor.vcpus, flavor.memory_mb,
                               flavor.root_gb, now_s)
            exit_s = now_s + vm.remaining(0.0)
            exits_s = [self._exit_s(each.obj.instances, now_s) for each in weighed_obj_list]
            return [-float(bisect.bisect_right(BUCKET_S, exit_s - host_s)) for host_s in exits_s]
        except Exception:
            LOG.exception("sojourn: no prediction, all hosts weigh the same")
            return [0.0] * len(weighed_obj_list)

    def _load(self):
        """The bundle, again where another one was published; its owner history is as of its own making."""
        seen = (Path(CONF.sojourn.bundle) / "MANIFEST.json").stat().st_mtime_ns
        if seen != self._seen:
            self.predictor, self._lives, self._seen = Predictor.load(CONF.sojourn.bundle), {}, seen

    def _exit_s(self, instances, now_s):
        """When the last of a host's VMs is predicted to leave; an empty host's exit is now."""
        for uuid, one in instances.items():
            if uuid not in self._lives:
                start_s = min(int(one.created_at.timestamp()), now_s)
                self._lives[uuid] = self._predict(one.project_id, one.user_id, one.availability_zone, one.vcpus,
                                                  one.memory_mb, one.root_gb, start_s)
        lives = (self._lives[uuid] for uuid in instances)
        return max((now_s + vm.remaining(float(now_s - vm.arrival_s)) for vm in lives), default=now_s)

    def _predict(self, project, user, zone, vcpus, memory_mb, root_gb, start_s):
        known = {"project_id": project, "user_id": user, "availability_zone": zone, "cpu_cores": vcpus,
                 "mem_gib": memory_mb / 1024.0, "disk_gib": root_gb}
        return self.predictor.predict({name: known.get(name) for name in self.predictor.encoder.columns()}, start_s)
