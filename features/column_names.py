"""What a column's name says of it."""

from __future__ import annotations

import re

_AT_END = re.compile(
    r"(^|_)(end|ended|finish(ed)?|deleted|deletion|terminat(ed|ion)|stop(ped)?|complet(ed|ion)|departure|exit|exitcode|"
    r"return_?code|rc|signal|result|outcome|reason|status|state|phase|error|fail(ed|ure)?|used|usage|utilization|"
    r"utilisation|elapsed|duration|lifetime|runtime|run_time|walltime|cputime|cpu_time|user_?cpu|system_?cpu|total_?cpu|"
    r"max_?rss|ave_?rss|max_?vm_?size|ave_?cpu|max_cpu|mean_cpu|avg_cpu|p95\w*|energy|consumed\w*|disk_?read|"
    r"disk_?write|restarts?|preempted|evicted|cost)(_|$)")


def plain_name(column: str) -> str:
    """A column's name in small letters, words parted by underscores.

    >>> plain_name("VM Id"), plain_name("startTime"), plain_name("CPU-Request (m)"), plain_name("memMiB")
    ('vm_id', 'start_time', 'cpu_request_m', 'mem_mib')
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", re.sub("([KMGT])iB", r"_\1ib", column))
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


def is_end_name(column: str) -> bool:
    """Whether a column's name says that it is known only at a request's end.

    >>> is_end_name("exit_code"), is_end_name("MaxRSS"), is_end_name("zone"), is_end_name("used_cpu_s")
    (True, True, False, True)
    """
    return _AT_END.search(plain_name(column)) is not None
