#!/usr/bin/env bash
# A real Slurm on one machine, to record what `sacct` prints. Run it as root, on a machine that may be thrown away: it
# writes to /etc/slurm. Debian: apt-get install slurmctld slurmd slurmdbd slurm-client mariadb-server munge
# Usage: slurm.sh start FOLDER | slurm.sh record FOLDER | slurm.sh advise FOLDER | slurm.sh overdue FOLDER |
# slurm.sh stop FOLDER
# `start` takes 20 s. `record` submits jobs of every kind, waits for 4 minutes, and writes FOLDER/sacct.txt (-X),
# FOLDER/sacct_runs.txt (-X -D: each run of a requeued job) and FOLDER/sacct_steps.txt (with steps).
# `advise` takes half a minute: it installs job_submit.lua with a small table, submits jobs with and without limits, then
# with a missing and a damaged table, and writes FOLDER/advice.txt: what the user was told, and the limit that each kept.
# `overdue` prints the running jobs that are past their user's limit, if SOFT is on in job_submit.lua, for `scancel`.
# The node claims 8 CPUs, 32 GB and 2 GPUs, whatever the machine has.
set -euo pipefail
act=$1 at=$(realpath -m "$2") host=$(hostname -s)

start() {
    mkdir -p "$at"/{db,state,spool} /run/munge /run/mysqld /etc/slurm
    [ -f /etc/munge/munge.key ] || mungekey --create
    chown munge: /run/munge /etc/munge/munge.key
    setpriv --reuid munge --regid munge --clear-groups munged --force --foreground >"$at/munged.log" 2>&1 &
    echo $! >"$at/munged.pid"
    chown mysql: "$at/db" /run/mysqld
    mariadb-install-db --user=mysql --datadir="$at/db" >"$at/db-init.log" 2>&1
    mariadbd --user=mysql --datadir="$at/db" --socket="$at/db/s.sock" --bind-address=127.0.0.1 --port=33306 \
        >"$at/db.log" 2>&1 &
    for _ in $(seq 60); do mariadb-admin --socket="$at/db/s.sock" ping >/dev/null 2>&1 && break; sleep 1; done
    mariadb --socket="$at/db/s.sock" -e "create database slurm_acct_db;
        create user 'slurm'@'127.0.0.1' identified by 'local'; create user 'slurm'@'localhost' identified by 'local';
        grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1'; grant all on slurm_acct_db.* to 'slurm'@'localhost';"
    cat >/etc/slurm/slurmdbd.conf <<X
AuthType=auth/munge
DbdHost=localhost
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=33306
StorageUser=slurm
StoragePass=local
StorageLoc=slurm_acct_db
LogFile=$at/dbd.log
PidFile=$at/dbd.pid
X
    chmod 600 /etc/slurm/slurmdbd.conf
    cat >/etc/slurm/slurm.conf <<X
ClusterName=toy
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/spool
SlurmctldLogFile=$at/ctld.log
SlurmdLogFile=$at/slurmd.log
SlurmctldPidFile=$at/ctld.pid
SlurmdPidFile=$at/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=1024
GresTypes=gpu
SchedulerParameters=bf_interval=1,sched_interval=5,default_queue_depth=1000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=0
MpiDefault=none
MinJobAge=3600
OverTimeLimit=0
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 RealMemory=32768 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=60 PriorityTier=1 State=UP
PartitionName=long Nodes=ALL MaxTime=UNLIMITED PriorityTier=1 State=UP
PartitionName=urgent Nodes=ALL MaxTime=60 PriorityTier=9 PreemptMode=OFF State=UP
X
    echo "NodeName=$host Name=gpu File=/dev/null,/dev/zero" >/etc/slurm/gres.conf
    slurmdbd; sleep 4
    sacctmgr -i add cluster toy || true
    sacctmgr -i add account physics Description=physics Organization=toy
    sacctmgr -i add account biology Description=biology Organization=toy
    sacctmgr -i add user root Account=physics
    sacctmgr -i add user root Account=biology
    slurmctld; sleep 4
    slurmd; sleep 4
    sinfo
}

record() {
    cd "$at"
    local fields=JobID,JobName,User,Account,Partition,QOS,Submit,Start,End,Elapsed,Suspended,State,ExitCode,Timelimit
    fields+=,ReqCPUS,AllocCPUS,ReqMem,NNodes,AllocTRES
    local q=(sbatch --parsable -o /dev/null) other=(--uid=daemon)
    "${q[@]}" -J done -A physics -n 2 -t 5 --wrap 'srun sleep 3'
    "${q[@]}" -J fails -A physics -t 5 --wrap 'exit 3'
    "${q[@]}" -J array -A biology -a 1-3 -t 0:30 "${other[@]}" --wrap 'sleep 2'
    "${q[@]}" -J gpu -A biology --gres=gpu:2 --mem=4G -t 1-02:03:04 -p long --wrap 'sleep 3'
    "${q[@]}" -J nolimit -A physics -p long --mem-per-cpu=512M -c 2 "${other[@]}" --wrap 'sleep 4'
    sleep 15
    local gone again paused never
    gone=$("${q[@]}" -J gone -A physics -t 30 -p long --wrap 'sleep 500')
    again=$("${q[@]}" -J again -A biology -t 5 --requeue --wrap 'sleep 12')
    paused=$("${q[@]}" -J 'with | bar' -A biology -t 5 --wrap 'sleep 20')
    "${q[@]}" -J late -A physics -t 1 "${other[@]}" --wrap 'sleep 500'
    "${q[@]}" -J waits -A physics --begin=now+2hours --wrap true
    until [ "$(squeue -h -t RUNNING -j "$gone,$again,$paused" | wc -l)" = 3 ]; do sleep 1; done
    sleep 5
    scancel "$gone"
    scontrol requeue "$again"
    scontrol suspend "$paused"; sleep 6; scontrol resume "$paused"
    sleep 130  # a requeued job starts again after two minutes; the limit of `late` is one, checked twice a minute
    "${q[@]}" -J below -A biology -n 8 -t 20 --requeue --wrap 'sleep 40'
    sleep 12
    "${q[@]}" -J above -A physics -n 8 -t 5 -p urgent --wrap 'sleep 5'
    sleep 15
    # the parts of a heterogeneous job need a node each: it waits
    "${q[@]}" -J het -A physics --begin=now+1hour -n 1 -t 5 : -n 2 --wrap 'sleep 3'
    "${q[@]}" -J runs -A physics -n 2 -p urgent "${other[@]}" --wrap 'sleep 3000'
    sleep 6
    "${q[@]}" -J full -A physics -n 8 -t 5 --wrap true
    never=$("${q[@]}" -J never -A physics -n 8 -t 5 --wrap true)
    sleep 6
    scancel "$never"
    sleep 6
    sacct -a -X -P -S now-1hour -E now+1day -o "$fields" >"$at/sacct.txt"
    sacct -a -X -D -P -S now-1hour -E now+1day -o "$fields" >"$at/sacct_runs.txt"
    sacct -a -P -S now-1hour -E now+1day -o "$fields" >"$at/sacct_steps.txt"
    wc -l "$at"/sacct*.txt
}

ask() {  # what a user types, what is said, and what the job then has
    local number
    echo "\$ sbatch $*" | sed 's/ -o .*//'
    number=$(sbatch --parsable -o /dev/null --wrap 'sleep 1' "$@" 2>>"$at/said" | cut -d';' -f1)
    [ -f "$at/said" ] && sed 's/^sbatch: /  told: /' "$at/said" && rm "$at/said"
    scontrol show job "$number" | sed -nE 's/.*(TimeLimit=[^ ]*).*/  \1/p; s/^ *(AdminComment=.*)/  \1/p'
}

restarted() {  # the controller, with a line of the script changed
    sed "$1" "$(dirname "$(realpath "$0")")/job_submit.lua" >/etc/slurm/job_submit.lua
    kill "$(cat "$at/ctld.pid")"; sleep 3; slurmctld; sleep 4
}

advise() {
    local table=/etc/slurm/sojourn_limits.tsv
    export -n SOJOURN_LIMITS
    grep -q JobSubmitPlugins /etc/slurm/slurm.conf || echo JobSubmitPlugins=lua >>/etc/slurm/slurm.conf
    grep -q 'PartitionName=short' /etc/slurm/slurm.conf || echo \
        'PartitionName=short Nodes=ALL DefaultTime=5 MaxTime=60 State=UP' >>/etc/slurm/slurm.conf
    printf 'made\t%s\nlevel\t0.9\ncolumns\taccount,user,job_name,partition\n' "$(date +%s)" >"$table"
    printf '%s\t%s\n' 'physics|root|wrap|main' 30 'physics|root|*|main' 15 'physics|root|*|*' 45 \
        'physics|root|a%20%7C%20b|main' 7 >>"$table"
    {
        restarted ''
        echo '# the script as it is'
        ask -A physics -t 10
        ask -A physics -t 40
        ask -A physics -t 60
        ask -A physics
        ask -A physics -p short
        ask -A physics -J 'a | b' -t 20
        ask -A physics -J other -p long -t UNLIMITED
        ask -A biology -t 10
        echo '# FILL = true'
        restarted 's/^local FILL = false/local FILL = true/'
        ask -A physics -p short
        ask -A physics -p short -t 3
        ask -A physics
        ask -A physics -p long
        echo '# no table'
        mv "$table" "$at/kept.tsv"; restarted ''
        ask -A physics -t 10
        echo '# a damaged table'
        head -c 3000 /dev/urandom >"$table"; restarted ''
        ask -A physics -t 10
        echo '# a table of last year'
        sed 's/^made.*/made\t1000000000/' "$at/kept.tsv" >"$table"; restarted ''
        ask -A physics -t 10
        echo '# a fault within the script'
        cp "$at/kept.tsv" "$table"; restarted 's/^local function said(minutes)/&\n    error("broken")/'
        ask -A physics -t 10
    } >"$at/advice.txt"
    restarted ''
    cat "$at/advice.txt"
    grep -h 'sojourn: no advice' "$at/ctld.log" | sed 's/^[^ ]* //' | tail -1
}

overdue() {  # running jobs that have outlived the limit that a user gave, if job_submit.lua planned with a shorter one
    squeue -h -t RUNNING -O JobID:.20,TimeUsed:.20,admin_comment:200 | sed -nE \
        's/^ *([0-9]+) +([0-9:-]+)sojourn: limit ([0-9]+) min;.*/\1 \3 \2/p' | while read -r job limit used; do
        local parts days=0
        case $used in *-*) days=${used%%-*} used=${used#*-} ;; esac
        IFS=: read -ra parts <<<"$used"
        [ ${#parts[@]} = 3 ] || parts=(0 "${parts[@]}")
        [ $((1440 * days + 60 * 10#${parts[0]} + 10#${parts[1]})) -lt "$limit" ] || echo "$job"
    done
}

stop() {
    scancel --state=PENDING; scancel --state=RUNNING; sleep 3
    for pid in slurmd ctld dbd munged; do [ -f "$at/$pid.pid" ] && kill "$(cat "$at/$pid.pid")" 2>/dev/null || true; done
    mariadb-admin --socket="$at/db/s.sock" shutdown
}

case $act in
    start | record | advise | overdue | stop) $act ;;
    *) echo "act must be start, record, advise, overdue or stop, got $act" >&2; exit 2 ;;
esac
