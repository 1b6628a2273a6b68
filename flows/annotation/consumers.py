"""What other programs read of a predicted lifetime: one line a running request, in each program's own form.

Each line is text for a file; nothing here runs a program. Sources, and what has no reader yet: docs/annotations.md.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from sojourn.flows.annotation.bounds import Bound

LIMITS = "slurm-limits"
"""The consumer that reads a table of coming jobs instead of lines of running ones: `limit_table`."""
KARPENTER = "karpenter.sh/do-not-disrupt"
CHRONOS = "scheduling.workload.io/expected-duration-seconds"
JOB_KINDS = frozenset({"CronJob", "Job"})
"""Controllers whose pods end by themselves."""
KAI = "kai.scheduler/expected-runtime"
_NAME = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_POD = re.compile(rf"({_NAME})/({_NAME})")
_JOB = re.compile(r"([1-9][0-9]{0,17}(?:_[0-9]{1,9})?)(?:/[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Consumer:
    """A program that reads bounds. line: of one bound; None where its name is not of what the program knows.

    text: what it does with them, for help and docs. names: what names must be. head: the file's first line.
    is_protecting: it keeps a node as it is until the bound: pods of jobs alone, and no longer than the trace shows.
    """

    line: Callable[[Bound], str | None]
    text: str
    names: str
    head: str = "#!/bin/sh"
    is_protecting: bool = False


def go_duration(seconds: int) -> str:
    """Seconds as Go's time.ParseDuration takes them.

    >>> go_duration(5_430), go_duration(59), go_duration(86_400)
    ('1h30m30s', '59s', '24h')
    """
    hours, rest = divmod(seconds, 3_600)
    parts = ((hours, "h"), (rest // 60, "m"), (rest % 60, "s"))
    return "".join(f"{value}{unit}" for value, unit in parts if value) or "0s"


def _karpenter(bound: Bound) -> str | None:
    return _of_pod(bound, f"{KARPENTER}={go_duration(bound.total_s)}")


def _chronos(bound: Bound) -> str | None:
    return _of_pod(bound, f"{CHRONOS}={bound.total_s}")


def _kai(bound: Bound) -> str | None:
    pod = _POD.fullmatch(bound.name)
    if pod is None:
        return None
    get = f"kubectl get pod {pod[2]} -n {pod[1]} -o jsonpath='{{.metadata.annotations.pod-group-name}}'"
    return f'kubectl annotate podgroup "$({get})" -n {pod[1]} {KAI}={go_duration(bound.total_s)}'


def _of_pod(bound: Bound, annotation: str) -> str | None:
    pod = _POD.fullmatch(bound.name)
    return None if pod is None else f"kubectl annotate pod {pod[2]} -n {pod[1]} {annotation}"


def _slurm(bound: Bound) -> str | None:
    job = _JOB.fullmatch(bound.name)
    if job is None:
        return None
    when = "" if bound.end_unix_s is None else f" by {datetime.fromtimestamp(bound.end_unix_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
    said = f"sojourn: {100 * bound.level:g} % of such jobs end{when} ({go_duration(bound.total_s)} from their start)"
    return f"scontrol update JobId={job[1]} AdminComment={shlex.quote(said)}"


def _json(bound: Bound) -> str | None:
    return json.dumps(asdict(bound) | {"remaining_s": bound.remaining_s}, sort_keys=True)


_PODS = "NAMESPACE/POD"
CONSUMERS: Mapping[str, Consumer] = MappingProxyType({
    "chronos": Consumer(_chronos, "the pod's expected seconds from its start, for the chronos scheduler", _PODS),
    "json": Consumer(_json, "one JSON object a line, for anything else", "any", ""),
    "kai": Consumer(_kai, "the pod group's expected runtime, for a plugin of KAI that is not released", _PODS),
    "karpenter": Consumer(_karpenter, "how long from its start the node of a Job's pod is not disrupted", _PODS,
                          is_protecting=True),
    "slurm": Consumer(_slurm, "a comment on a running job, for its administrator; limits stay", "Slurm's job ids"),
    LIMITS: Consumer(lambda bound: None, "a table for examples/slurm/job_submit.lua: advice at submission", "", ""),
})
"""Name in commands -> consumer."""
