"""Tells OpenPBS how long jobs like a submitted one run: a hook of the event `queuejob` that sets `soft_walltime`.

The scheduler plans with it, and kills no job at it. `walltime` stays as it is, and no job is rejected. A job passes
unchanged if it has no walltime, asks for min_walltime or has a soft_walltime, if nothing is predicted of it or what is
predicted is not below its walltime, and if the table is missing, old or damaged, or this hook fails.

Install: qmgr -c "create hook sojourn event=queuejob"; qmgr -c "import hook sojourn application/x-python default FILE"
"""

import re
import time
from pathlib import Path

import pbs

TABLE = "/etc/sojourn_limits.tsv"  # written by `sojourn serve annotate ... --consumer slurm-limits --quantile 0.5`
MAX_AGE_S = 7 * 86400  # an older table is not used


def encoded(name):
    """A name as the table has it: what is no plain character is %XX."""
    return "".join(chr(byte) if re.match(rb"[A-Za-z0-9_.@+-]", bytes([byte])) else f"%{byte:02X}"
                   for byte in str(name).encode("utf-8", "surrogateescape"))


def read_table():
    """The table's columns, and minutes by key; ([], {}) if it is old or damaged. It is data: users choose job names."""
    with Path(TABLE).open(encoding="ascii", errors="replace") as file:
        pairs = dict(line.rstrip("\n").split("\t") for line in file if line.count("\t") == 1)
    made, columns = pairs.pop("made", ""), re.findall("[^,]+", pairs.pop("columns", ""))
    if not columns or not re.fullmatch("[0-9]{1,12}", made) or time.time() - int(made) > MAX_AGE_S:
        return [], {}
    return columns, {key: int(value) for key, value in pairs.items() if re.fullmatch("[0-9]{1,7}", value)}


def predicted_minutes(names):
    """By all columns, else without the job's name, else without the queue, too; None if there is no entry."""
    columns, minutes = read_table()
    for left_out in ((), ("job_name",), ("job_name", "partition")):
        key = "|".join("*" if column in left_out else encoded(names.get(column) or "") for column in columns)
        if columns and minutes.get(key):
            return minutes[key]
    return None


def advise(event):
    job, asked = event.job, event.job.Resource_List
    walltime = asked["walltime"]
    if walltime is None or asked["soft_walltime"] is not None or asked["min_walltime"] is not None:
        return
    minutes = predicted_minutes({"account": job.Account_Name or job.project, "user": event.requestor,
                                 "job_name": job.Job_Name, "partition": getattr(job.queue, "name", job.queue)})
    if minutes and 60 * minutes < int(walltime):
        asked["soft_walltime"] = pbs.duration(60 * minutes)


try:
    advise(pbs.event())
except Exception as problem:
    pbs.logmsg(pbs.LOG_WARNING, f"sojourn: no advice: {problem!r}")
pbs.event().accept()
