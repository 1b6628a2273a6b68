"""A busy stretch of a log on a real Slurm, time-scaled, and in the replay: the waits of both.

    python -m studies real-slurm plan LOG FOLDER [--stretch K] [--family NAME]
    python -m studies real-slurm run FOLDER [--arm NAME ...]      as root; Slurm's packages must be installed
    python -m studies real-slurm show FOLDER

plan: writes FOLDER/jobs.csv. All times are divided by SCALE; limits and predictions are whole minutes, as in Slurm.
Of the log's later half, a stretch of N_JOBS jobs by LEAST_OWNERS users or more that ends within LONGEST_S in its replay
by the users' limits. K = 0 is the stretch whose users wait longest in that replay (mean over users of their mean wait),
K = 1 the next that shares no job with it. A family is learnt on the earlier half. `median_min` is its median at the
job's submission, with the log's own history; `table_min` is what the table for `job_submit.lua` (`--consumer
slurm-limits`, level 0.5) has for the job, as of the stretch's begin.
run: a Slurm of its own for each arm, all at once, on one node that claims the machine's processors. Jobs sleep.
show: the waits of each arm beside those of the replay of the same numbers.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.flows.annotation.bounds import LimitTable, Replayed, _table
from sojourn.flows.placement.predictors import learnt_bundle, parse_predictor
from sojourn.serving import load_bundle
from sojourn.simulator import Curves, Held
from sojourn.simulator.queueing import QueueJobs, QueueRules, Schedule, replay_queue, requested
from studies.queues import halves

SCALE, N_JOBS, LEAST_OWNERS, LONGEST_S, STEP = 100, 250, 10, 1_200, 50
DEPTH = 500
"""Slurm's default of bf_max_job_test."""
SCRIPT = Path(__file__).parents[1] / "examples" / "slurm" / "job_submit.lua"
LEVEL = 0.5


@dataclass(frozen=True, slots=True)
class Arm:
    """planned: the column by which Slurm plans; other than the user's limit it becomes the job's soft limit.

    ordered: the column of which the least is served first (`--nice`), None = by submission.
    """

    planned: str = "limit_min"
    ordered: str | None = None

    @property
    def is_soft(self) -> bool:
        return self.planned != "limit_min"


ARMS = {"limits": Arm(), "table": Arm("table_min"), "median": Arm("median_min"),
        "limits, shortest first": Arm(ordered="limit_min"),
        "limits, shortest median first": Arm(ordered="median_min"),
        "median, shortest first": Arm("median_min", "median_min")}


def scaled(jobs: QueueJobs) -> QueueJobs:
    """The jobs in seconds of the experiment. A limit is at least a second above the run, in whole minutes."""
    run_s = np.maximum(np.rint(jobs.run_s / SCALE), 1).astype(np.int64)
    limit_min = np.floor(np.maximum(jobs.limit_s / SCALE, run_s) / 60).astype(np.int64) + 1
    submission_s = (jobs.submission_s - jobs.submission_s[0]) // SCALE
    return QueueJobs(submission_s, run_s, limit_min * 60, jobs.size, jobs.n_processors, jobs.owner,
                     request_ids=jobs.request_ids)


def stretches(jobs: QueueJobs) -> list[int]:
    """The first job of each stretch that may be taken, longest waits of users first; no two share a job."""
    found: list[tuple[float, int]] = []
    for first in range(0, len(jobs) - N_JOBS + 1, STEP):
        part = jobs.take(np.arange(first, first + N_JOBS))
        if len(np.unique(np.asarray(part.owner))) >= LEAST_OWNERS:
            schedule = replay_queue(scaled(part), RULES, requested(scaled(part)))
            if (schedule.start_s + schedule.jobs.run_s).max() <= LONGEST_S:
                of_user = pd.Series(schedule.wait_s).groupby(np.asarray(part.owner)).mean()
                found.append((float(of_user.mean()), first))
    chosen: list[int] = []
    for _, first in sorted(found, key=lambda each: (-each[0], each[1])):
        if all(abs(first - other) >= N_JOBS for other in chosen):
            chosen.append(first)
    return chosen


RULES = QueueRules("fcfs", "fcfs", f"depth:{DEPTH}")
"""Slurm's backfilling plans each waiting job in order of priority, anew at each pass."""


def minutes(real_s: np.ndarray, limit_s: np.ndarray) -> np.ndarray:
    """Predicted run times of the log in whole minutes of the experiment, at most the limit; NaN becomes the limit."""
    found = np.ceil(np.maximum(real_s, 1) / SCALE / 60)
    return np.fmin(found, limit_s / 60).astype(np.int64)


def plan(log: Path, folder: Path, stretch: int, family: str) -> None:
    """Writes jobs.csv."""
    known, _, later = halves(log)
    first = stretches(later)[stretch]
    part = later.take(np.arange(first, first + N_JOBS))
    jobs = scaled(part)
    with tempfile.TemporaryDirectory() as temporary:
        bundle = load_bundle(learnt_bundle(Path(temporary) / "bundle", parse_predictor(family), known, 2))
        to_s, begun_s = known.split.test_from_s, int(known.trace.requests["submit_s"].min())
        training = {"to_s": to_s, "history_to_s": to_s, "n_requests": len(known.split.train.idx_row),
                    "start_unix_s": begun_s}
        schema = replace(bundle.schema, document={**bundle.schema.document, "training": training})
        replayed = Replayed.of(replace(bundle, schema=schema), known.trace)
        requests = replayed.trace.requests
        place = pd.Index(requests["request_id"].iloc[replayed.rows.idx_request]).get_indexer(part.request_ids)
        median_s = replayed.table(place).quantile(LEVEL, np.zeros(len(place)))
        now_s = int(replayed.rows.decided_s[place].min())
        table = _table(replayed, now_s, LEVEL)
        table_s = table.of(requests.iloc[replayed.rows.idx_request[place]])
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"job": part.request_ids, "submission_s": jobs.submission_s, "run_s": jobs.run_s, "size": jobs.size,
                  "owner": np.asarray(jobs.owner), "limit_min": jobs.limit_s // 60,
                  "median_min": minutes(median_s, jobs.limit_s), "table_min": minutes(table_s, jobs.limit_s),
                  "n_processors": jobs.n_processors}).to_csv(folder / "jobs.csv", index=False)
    begin_day = (int(part.submission_s[0]) - begun_s) / 86_400
    print(f"jobs {first:,} to {first + N_JOBS:,} of the later half's {len(later):,}, day {begin_day:.0f} of the log; "
          f"{len(np.unique(np.asarray(part.owner)))} users; the table by {', '.join(table.columns)} has a limit for "
          f"{100 * (~np.isnan(table_s)).mean():.0f} %")


def planned(folder: Path) -> tuple[pd.DataFrame, QueueJobs]:
    """The table of `plan`, and the same as jobs of the replay, in seconds of the experiment."""
    table = pd.read_csv(folder / "jobs.csv")
    return table, QueueJobs(table["submission_s"].to_numpy(), table["run_s"].to_numpy(),
                            60 * table["limit_min"].to_numpy(), table["size"].to_numpy(),
                            int(table["n_processors"].iloc[0]))


def extended(predicted_s: np.ndarray, limit_s: np.ndarray) -> Curves:
    """A prediction that is outlived rises by itself, up to the limit, as Slurm's with OverTimeLimit=UNLIMITED does.

    >>> extended(np.array([60]), np.array([150])).total_s.tolist()
    [60, 120, 150]
    """
    offsets, uptime, total = [0], [], []
    for own_s, most_s in zip(predicted_s.tolist(), limit_s.tolist(), strict=True):
        totals = [min(end_s, most_s) for end_s in range(own_s, most_s + own_s, own_s)]
        uptime += [0, *totals[:-1]]
        total += totals
        offsets.append(len(total))
    return Curves(np.array(offsets), np.array(uptime), np.array(total))


def replayed_arm(arm: Arm, table: pd.DataFrame, jobs: QueueJobs) -> Schedule | None:
    """What the replay says of an arm; None if it plans by another column than it orders by, which is no rule of it."""
    if arm.ordered not in (None, arm.planned):
        return None
    predicted_s = np.minimum(60 * table[arm.planned].to_numpy(), jobs.limit_s)
    order = "fcfs" if arm.ordered is None else "sjf"
    return replay_queue(jobs, QueueRules(order, order, RULES.backfilling),
                        Held(jobs.request_ids, extended(predicted_s, jobs.limit_s)))


CONF = """ClusterName=toy
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort={port}
SlurmdPort={node_port}
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool
SlurmctldLogFile={at}/slurmctld.log
SlurmdLogFile={at}/slurmd.log
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PriorityType=priority/basic
SchedulerParameters=bf_interval=1,bf_resolution=1,bf_max_job_test={depth},sched_interval=5,default_queue_depth=1000
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={at}/ended.txt
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
{soft}
NodeName={host} NodeAddr=127.0.0.1 CPUs={n_processors} RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP
"""
"""Without munge: for a machine that may be thrown away."""
SOFT = "OverTimeLimit=UNLIMITED\nJobSubmitPlugins=lua"


class Cluster:
    """A Slurm of one node in a folder of its own, for one arm."""

    def __init__(self, at: Path, arm: Arm, table: pd.DataFrame, port: int) -> None:
        shutil.rmtree(at, ignore_errors=True)
        for name in ("state", "spool"):
            (at / name).mkdir(parents=True)
        self.at, self.arm = at.resolve(), arm
        (at / "slurm.conf").write_text(CONF.format(
            host=socket.gethostname().split(".")[0], port=port, node_port=port + 1, at=self.at, depth=DEPTH,
            soft=SOFT if arm.is_soft else "", n_processors=int(table["n_processors"].iloc[0])))
        self.environment = os.environ | {"SLURM_CONF": str(self.at / "slurm.conf"),
                                         "SOJOURN_LIMITS": str(self.at / "limits.tsv")}
        if arm.is_soft:  # one group a job: its name is its number in the log
            limits = LimitTable(("job_name",), dict(zip(table["job"].astype(str), table[arm.planned], strict=True)),
                                LEVEL)
            (at / "limits.tsv").write_text("\n".join([*limits.lines(int(time.time())), ""]))
            (at / "job_submit.lua").write_text(SCRIPT.read_text().replace("local SOFT = false", "local SOFT = true"))
        for daemon in ("slurmctld", "slurmd"):
            self.run(daemon)
            time.sleep(3)

    def run(self, *command: str) -> str:
        """A command of Slurm; CalledProcessError if it fails."""
        return subprocess.run(command, env=self.environment, check=True, capture_output=True, text=True).stdout

    def submit(self, job: object, size: int, limit_min: int, run_s: int, nice: int) -> None:
        self.run("sbatch", "-n", str(size), "-t", str(limit_min), "-J", str(job), f"--nice={nice}", "-D", str(self.at),
                 "-o", "/dev/null", "--wrap", f"exec sleep {run_s}")

    def n_left(self) -> int:
        return len(self.run("squeue", "-h").splitlines())

    def stop(self) -> None:
        for daemon in ("slurmd", "slurmctld"):
            os.kill(int((self.at / f"{daemon}.pid").read_text()), 15)


def run(folder: Path, names: Sequence[str]) -> None:
    """Submits the jobs to each arm's Slurm at their times, waits for all, writes FOLDER/ARM.csv."""
    table, _ = planned(folder)
    clusters = {name: Cluster(folder / name.replace(", ", "-").replace(" ", "-"), ARMS[name], table, 26_817 + 10 * k)
                for k, name in enumerate(names)}
    try:
        begun = float(int(time.time()) + 3)
        for row in table.to_dict("records"):
            time.sleep(max(0.0, begun + row["submission_s"] - time.time()))
            for cluster in clusters.values():
                nice = 0 if cluster.arm.ordered is None else 1_000 * row[cluster.arm.ordered]
                cluster.submit(row["job"], row["size"], row["limit_min"], row["run_s"], nice)
        while any(cluster.n_left() for cluster in clusters.values()):
            time.sleep(2)
    finally:
        for cluster in clusters.values():
            cluster.stop()
    for name, cluster in clusters.items():
        ended(cluster.at / "ended.txt", begun).to_csv(folder / f"{name}.csv", index=False)


def ended(file: Path, begun: float) -> pd.DataFrame:
    """What Slurm's jobcomp/filetxt wrote: job, state, last limit, and times in seconds after the begin."""
    rows = []
    for line in file.read_text().splitlines():
        found = dict(re.findall(r"(\w+)=(\S*)", line))
        times = {name: time.mktime(time.strptime(found[f"{key}Time"], "%Y-%m-%dT%H:%M:%S")) - begun
                 for name, key in (("submission_s", "Submit"), ("start_s", "Start"), ("end_s", "End"))}
        rows.append({"job": int(found["Name"]), "state": found["JobState"], "limit_min": found["TimeLimit"], **times})
    return pd.DataFrame(rows)


def slowdown(wait_s: np.ndarray, run_s: np.ndarray) -> float:
    """Mean of (wait + run) / run; runs are 1 s or more."""
    return float(((wait_s + run_s) / run_s).mean())


def show(folder: Path) -> None:
    """Prints a row an arm: what Slurm did, and what the replay says."""
    table, jobs = planned(folder)
    print("| arm | killed | mean wait, s: Slurm / replay | slowdown: Slurm / replay | longest wait, s | "
          "difference of a job's wait, s: median, 90 % | correlation of waits |\n" + "|---" * 7 + "|")
    for name, arm in ARMS.items():
        if (folder / f"{name}.csv").exists():
            own = pd.read_csv(folder / f"{name}.csv").set_index("job").loc[table["job"]]
            wait_s, replayed = (own["start_s"] - own["submission_s"]).to_numpy(), replayed_arm(arm, table, jobs)
            said = np.full(len(wait_s), np.nan) if replayed is None else replayed.wait_s
            apart_s, n_killed = np.abs(wait_s - said), int((own["state"] != "COMPLETED").sum())
            print(f"| {name} | {n_killed} | {wait_s.mean():.1f} / {said.mean():.1f} | "
                  f"{slowdown(wait_s, jobs.run_s):.1f} / {slowdown(said, jobs.run_s):.1f} | {wait_s.max():.0f} / "
                  f"{said.max():.0f} | {np.median(apart_s):.0f}, {np.quantile(apart_s, 0.9):.0f} | "
                  f"{np.corrcoef(wait_s, said)[0, 1]:.3f} |")
            late_s = own["submission_s"].to_numpy() - jobs.submission_s
            over_s = (own["end_s"] - own["start_s"]).to_numpy() - jobs.run_s
            print(f"<!-- {name}: submitted late by {late_s.mean():.1f} s, ran longer by {over_s.mean():.1f} s -->")


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    own = parts.add_parser("plan")
    own.add_argument("log", type=Path)
    own.add_argument("folder", type=Path)
    own.add_argument("--stretch", type=int, default=0)
    own.add_argument("--family", default="hazard")
    own = parts.add_parser("run")
    own.add_argument("folder", type=Path)
    own.add_argument("--arm", action="append", choices=ARMS)
    parts.add_parser("show").add_argument("folder", type=Path)
    asked = parser.parse_args()
    if asked.part == "plan":
        plan(asked.log, asked.folder, asked.stretch, asked.family)
    elif asked.part == "run":
        run(asked.folder, asked.arm or list(ARMS))
    else:
        show(asked.folder)


if __name__ == "__main__":
    main()
