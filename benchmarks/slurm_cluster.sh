#!/usr/bin/env bash
# A small Slurm of our own, in a private directory on the loopback, to measure beside. Called by peers/slurm.py.
#
#   slurm_cluster.sh install            Debian's packages, if this is root on Debian and they are missing
#   slurm_cluster.sh up DIR FLAVOUR     FLAVOUR: stock (as it comes) or tuned (schedules at once)
#   slurm_cluster.sh restart DIR        kill -9 the controller, and start it again
#   slurm_cluster.sh down DIR           end what `up` started, by its pid files
#
# SLURM_CLUSTER_PORT is the first of the ports that it listens on, one more than it has nodes (SLURM_CLUSTER_NODES).
# SLURM_CLUSTER_LINES are added to its configuration: partitions, limits, how it preempts.
set -euo pipefail

NODES=${SLURM_CLUSTER_NODES:-2}
CPUS_PER_NODE=${SLURM_CLUSTER_CPUS:-32} # enough that no job waits for a slot: two nodes of 32 are 64
CONTROLLER_PORT=${SLURM_CLUSTER_PORT:-26817}
FIRST_NODE_PORT=$((CONTROLLER_PORT + 1))

main() {
    local command=$1
    shift
    "$command" "$@"
}

install() {
    command -v slurmctld >/dev/null && return
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 0
    # Runlevel 1 keeps the packages from starting services of their own.
    apt-get update -qq || true
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        slurmctld slurmd slurm-client munge >/dev/null || echo "Slurm could not be installed; it will be absent"
}

up() {
    local dir=$1 flavour=$2
    mkdir -p "$dir"/{etc,log,state,spool,munge}
    chmod 755 "$dir" "$dir/munge"
    start_munge "$dir"
    write_configuration "$dir" "$flavour"
    export SLURM_CONF=$dir/etc/slurm.conf
    slurmctld
    local number
    for number in $(seq $NODES); do
        mkdir -p "$dir/spool/n$number"
        slurmd -N "n$number"
    done
    wait_for_idle_nodes
}

restart() {
    local dir=$1 pid
    export SLURM_CONF=$dir/etc/slurm.conf
    pid=$(<"$dir/slurmctld.pid")
    kill -9 "$pid"
    while kill -0 "$pid" 2>/dev/null && ! grep -qs '^State:.Z' "/proc/$pid/status"; do sleep 0.01; done
    slurmctld
}

down() {
    local dir=$1 file
    for file in "$dir"/slurmctld.pid "$dir"/slurmd-*.pid "$dir"/munge/munged.pid; do
        [ -e "$file" ] && kill "$(<"$file")" 2>/dev/null || true
    done
}

start_munge() {
    local dir=$1
    head -c 1024 /dev/urandom >"$dir/etc/munge.key"
    chmod 400 "$dir/etc/munge.key"
    munged --force --key-file="$dir/etc/munge.key" --socket="$dir/munge/socket" --num-threads=4 \
        --pid-file="$dir/munge/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/munge/seed"
}

write_configuration() {
    local dir=$1 flavour=$2 tuning=
    if [ "$flavour" = tuned ]; then
        tuning='SchedulerParameters=bf_interval=1,sched_min_interval=0,batch_sched_delay=0,default_queue_depth=10000,bf_max_job_test=10000,sched_max_job_start=0,max_rpc_cnt=0'
        tuning+=$'\nSlurmctldDebug=error\nSlurmdDebug=error'
    fi
    cat >"$dir/etc/slurm.conf" <<EOF
ClusterName=bench
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
SlurmctldPort=$CONTROLLER_PORT
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
$tuning
SlurmdParameters=config_overrides
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ReturnToService=2
MaxJobCount=50000
MaxArraySize=20000
NodeName=n[1-$NODES] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[$FIRST_NODE_PORT-$((FIRST_NODE_PORT + NODES - 1))] CPUs=$CPUS_PER_NODE RealMemory=1000 State=UNKNOWN
PartitionName=batch Default=YES Nodes=ALL MaxTime=INFINITE State=UP
${SLURM_CLUSTER_LINES:-}
EOF
    printf 'CgroupPlugin=cgroup/v1\n' >"$dir/etc/cgroup.conf"
}

wait_for_idle_nodes() {
    local left=600
    until [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c idle)" -ge $NODES ]; do
        ((left--)) || { echo "the nodes did not come up" >&2; exit 1; }
        sleep 0.05
    done
}

main "$@"
