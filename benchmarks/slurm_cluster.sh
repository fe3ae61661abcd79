#!/usr/bin/env bash
# A small Slurm of our own, in a private directory on the loopback, to measure beside. Called by peers/slurm.py.
#
#   slurm_cluster.sh install            Debian's packages, if this is root on Debian and they are missing
#   slurm_cluster.sh up DIR FLAVOUR     FLAVOUR: stock (as it comes) or tuned (schedules at once)
#   slurm_cluster.sh restart DIR        kill -9 the controller, and start it again
#   slurm_cluster.sh down DIR           end what `up` started, by its pid files
#
# SLURM_CLUSTER_PORT is the first of the ports that it listens on, one more than it has nodes (SLURM_CLUSTER_NODES),
# and two more with accounting.
# SLURM_CLUSTER_LINES are added to its configuration: partitions, limits, how it preempts.
# SLURM_CLUSTER_ACCOUNTING=1: slurmdbd with a MariaDB of its own keeps accounts, and their limits hold; the user
# is of the account `proj`. Else a job that has left the queue is forgotten.
# SLURM_CLUSTER_GPUS=a100:2,v100:1: so many GPUs of each type on every node, for which devices of terminals stand.
# SLURM_CLUSTER_CGROUPS=1: control groups hold jobs to their memory, 64 MiB for a processor (as root).
set -euo pipefail

NODES=${SLURM_CLUSTER_NODES:-2}
CPUS_PER_NODE=${SLURM_CLUSTER_CPUS:-32} # enough that no job waits for a slot: two nodes of 32 are 64
CONTROLLER_PORT=${SLURM_CLUSTER_PORT:-26817}
FIRST_NODE_PORT=$((CONTROLLER_PORT + 1))
ACCOUNTING_PORT=$((FIRST_NODE_PORT + NODES))
DATABASE_PORT=$((ACCOUNTING_PORT + 1))
FIRST_DEVICE=10 # /dev/tty10: Slurm wants character devices, and these are on every machine
PROGRAMS=(slurmctld slurmd munged sbatch slurmdbd mariadbd)
PACKAGES=(slurmctld slurmd munge slurm-client slurmdbd slurm-wlm-mysql-plugin mariadb-server-core mariadb-client-core)

main() {
    local command=$1
    shift
    "$command" "$@"
}

install() {
    hash "${PROGRAMS[@]}" 2>/dev/null && return
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 0
    # Runlevel 1 keeps the packages from starting services of their own.
    apt-get update -qq || true
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${PACKAGES[@]}" >/dev/null || echo "Slurm could not be installed; it will be absent"
}

up() {
    local dir=$1 flavour=$2
    mkdir -p "$dir"/{etc,log,state,spool,munge}
    chmod 755 "$dir" "$dir/munge"
    start_munge "$dir"
    write_configuration "$dir" "$flavour"
    export SLURM_CONF=$dir/etc/slurm.conf
    [ -z "${SLURM_CLUSTER_ACCOUNTING:-}" ] || start_accounting "$dir"
    slurmctld
    local number
    for number in $(seq $NODES); do
        mkdir -p "$dir/spool/n$number"
        slurmd -N "n$number"
    done
    wait_until "all nodes" nodes_are_idle
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
    for file in "$dir"/{slurmctld,slurmd-*,slurmdbd,mariadbd,munge/munged}.pid; do
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
    local dir=$1 flavour=$2 tuning= accounts=none tracking=linuxproc tasks=none counted=CR_CPU memory=${SLURM_CLUSTER_MEMORY:-1000}
    if [ "$flavour" = tuned ]; then
        tuning='SchedulerParameters=bf_interval=1,sched_min_interval=0,batch_sched_delay=0,default_queue_depth=10000,bf_max_job_test=10000,sched_max_job_start=0,max_rpc_cnt=0'
        tuning+=$'\nSlurmctldDebug=error\nSlurmdDebug=error'
    fi
    if [ -n "${SLURM_CLUSTER_ACCOUNTING:-}" ]; then
        accounts="slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$ACCOUNTING_PORT
AccountingStoragePass=$dir/munge/socket
AccountingStorageEnforce=associations,limits,qos"
    fi
    printf 'CgroupPlugin=cgroup/v1\n' >"$dir/etc/cgroup.conf"
    if [ -n "${SLURM_CLUSTER_CGROUPS:-}" ]; then
        tracking=cgroup tasks=cgroup counted=$'CR_CPU_Memory\nDefMemPerCPU=64' memory=$((64 * CPUS_PER_NODE))
        printf 'ConstrainRAMSpace=yes\n' >>"$dir/etc/cgroup.conf"
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
ProctrackType=proctrack/$tracking
TaskPlugin=task/$tasks
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/$accounts
SelectType=select/cons_tres
SelectTypeParameters=$counted
SchedulerType=sched/backfill
$tuning
SlurmdParameters=config_overrides
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ReturnToService=2
MaxJobCount=50000
MaxArraySize=20000
$(gpus "$dir/etc/gres.conf")
NodeName=n[1-$NODES] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[$FIRST_NODE_PORT-$((FIRST_NODE_PORT + NODES - 1))] CPUs=$CPUS_PER_NODE RealMemory=$memory State=UNKNOWN
PartitionName=batch Default=YES Nodes=ALL MaxTime=INFINITE State=UP
${SLURM_CLUSTER_LINES:-}
EOF
}

gpus() { # writes which devices they are, and prints what the nodes have
    local file=$1 each count device=$FIRST_DEVICE
    [ -n "${SLURM_CLUSTER_GPUS:-}" ] || return 0
    for each in ${SLURM_CLUSTER_GPUS//,/ }; do
        count=${each#*:}
        echo "NodeName=n[1-$NODES] Name=gpu Type=${each%:*} File=/dev/tty[$device-$((device + count - 1))]"
        device=$((device + count))
    done >"$file"
    printf 'GresTypes=gpu\nAccountingStorageTRES=gres/gpu\nNodeName=DEFAULT Gres=gpu:%s\n' "${SLURM_CLUSTER_GPUS//,/,gpu:}"
}

start_accounting() {
    local dir=$1 as_me=(--no-defaults --user="$(id -un)" --datadir="$1/database")
    local sql=(mariadb --no-defaults --socket="$dir/database/socket")
    mkdir -p "$dir/database"
    mariadb-install-db "${as_me[@]}" --skip-test-db --auth-root-authentication-method=normal >"$dir/log/database.log" 2>&1
    mariadbd "${as_me[@]}" --socket="$dir/database/socket" --bind-address=127.0.0.1 --port="$DATABASE_PORT" \
        --pid-file="$dir/mariadbd.pid" --skip-log-bin --innodb-buffer-pool-size=32M \
        --innodb-flush-log-at-trx-commit=0 >>"$dir/log/database.log" 2>&1 </dev/null &
    wait_until "the database" "${sql[@]}" --execute="SELECT 1"
    "${sql[@]}" --execute="CREATE USER slurm@localhost IDENTIFIED BY 'slurm'; GRANT ALL ON slurm.* TO slurm@localhost"
    cat >"$dir/etc/slurmdbd.conf" <<EOF
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$ACCOUNTING_PORT
SlurmUser=$(id -un)
LogFile=$dir/log/slurmdbd.log
PidFile=$dir/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$DATABASE_PORT
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
EOF
    chmod 600 "$dir/etc/slurmdbd.conf"
    slurmdbd
    wait_until "slurmdbd" sacctmgr --immediate add cluster bench
    sacctmgr --immediate --quiet add account proj cluster=bench
    sacctmgr --immediate --quiet add user "$(id -un)" account=proj
}

nodes_are_idle() {
    [ "$(sinfo -h -N -o %T | grep -c idle)" -ge "$NODES" ]
}

wait_until() { # NAME COMMAND...: what it is, and what succeeds once it is there
    local name=$1 left=600
    shift
    until "$@" >/dev/null 2>&1; do
        ((left--)) || { echo "$name did not come up" >&2; exit 1; }
        sleep 0.05
    done
}

main "$@"
