#!/bin/bash
#SBATCH --job-name=tarmac-run1.1
#SBATCH --comment=run1.1
#SBATCH --partition=batch
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --no-requeue
#SBATCH --open-mode=append
#SBATCH --output=/shared/tarmac/runs/run1/attempts/1/slurm.log
set -u
cd /
attempt=/shared/tarmac/runs/run1/attempts/1
# One job runs the attempt: where the answer of sbatch was lost there may be a second, and it leaves here.
job=${tarmac_job:-$SLURM_JOB_ID}
if ! (set -o noclobber; echo "$job" > "$attempt/slurm-begun") 2> /dev/null; then
    echo "job $SLURM_JOB_ID leaves: the attempt has begun elsewhere, or was taken back"
    exit 0
fi
# When the job ends: the runners ask their workers to leave before. Slurm 22.05 has to be asked.
ends_at=${SLURM_JOB_END_TIME:-}
if ! [[ $ends_at =~ ^[0-9]{10,12}$ ]]; then
    ends_at=
    exec {asked}< <(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%L 2> /dev/null)
fi
# The nodes by rank, each with its address where its name is none.
names="$SLURM_JOB_NODELIST" nodes=
[[ $names == *[[,]* ]] && names=$(scontrol show hostnames "$names")
for name in $names; do
    address=
    if ! getent hosts "$name" > /dev/null; then
        address=$(scontrol show node -o "$name" | sed -n 's/.* NodeAddr=\([^ ]*\) .*/=\1/p')
    fi
    nodes="${nodes:+$nodes,}$name$address"
done
if [ -z "$ends_at" ]; then
    seconds= left=
    while read -r line || [ -n "$line" ]; do left=$line; done <&"$asked"
    if [[ $left =~ ^(([0-9]+)-)?(([0-9]+):)?([0-9]+):([0-9]+)$ ]]; then
        hours=$((10#${BASH_REMATCH[2]:-0} * 24 + 10#${BASH_REMATCH[4]:-0}))
        seconds=$(((hours * 60 + 10#${BASH_REMATCH[5]}) * 60 + 10#${BASH_REMATCH[6]}))
    fi
    printf -v now '%(%s)T' -1
    ends_at=${seconds:+$((now + seconds))}
    exec {asked}<&-
fi
# Where there is no limit Slurm says that now, and a year from now a moment later: that is no end.
printf -v year '%(%s)T' -1
((year += 360 * 86400))
((${ends_at:-0} < year)) || ends_at=
export attempt nodes ends_at
# A cycle run: between two turns the job keeps its nodes, until the server names the next attempt.
turns=3
trap 'turns=0; kill -TERM "$step" 2> /dev/null' TERM
while true; do
    srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 \
    --export=ALL --cpu-bind=none --kill-on-bad-exit=1 --wait=0 --input=none \
    bash -c 'devices=${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}
exec python3.9 -I -S /shared/tarmac/node/0123/tarmac/node join "$attempt" "$SLURM_PROCID" "$nodes" "$ends_at" ${devices:+"$devices"}' &
    step=$!
    wait "$step" || wait "$step"
    code=$?
    left=60 asked='"preempt"' over='"preempted"'
    other=$(grep -h '"ended"' "$attempt"/nodes/*/events.jsonl | grep -v "$over")
    grep -qs "$asked" "$attempt/ask" && [ -z "$other" ] && ((--turns > 0)) || turns=0
    until [ -s "$attempt/slurm-next" ] || ((turns <= 0 || left-- <= 0)); do sleep 1; done
    (set -o noclobber; echo none > "$attempt/slurm-next") 2> /dev/null
    read -r attempt < "$attempt/slurm-next"
    [ "$attempt" != none ] || exit "$code"
    (set -o noclobber; echo "$job" > "$attempt/slurm-begun") 2> /dev/null || exit 0
done
