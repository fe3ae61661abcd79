"""The script that a rented machine runs as root at its first start: POSIX sh, for busybox as well. Pure.

Called by `engines/ray/servers/rental_files`. A watchdog comes first, so that nothing later can prevent it.
Then the machine's sshd admits the key of the rental, and proves itself by a host key that the server made, so
that the server never trusts an unknown machine. Only `directory` and the config of sshd change; a second run
is harmless.
"""

import math

from tarmac.launch.quoting import quote

DIRECTORY = "/opt/tarmac"
"""On the root file system: the watchdog starts from there after a restart of the machine."""

SIGN = f"{DIRECTORY}/sign"
"""The server updates the time of this file while it needs the machine."""

USER = "root"
SILENCE_S = 3600
LOOK_EVERY_S = 60


def machine_script(
    *,
    admitted: str,
    machine_key: str,
    limit_s: float | None,
    directory: str = DIRECTORY,
    sshd_config: str = "/etc/ssh/sshd_config",
) -> str:
    """The script. `admitted` is a public key, `machine_key` a private one, both as OpenSSH writes them.

    The machine shuts down after `limit_s` of running (None: no limit), and SILENCE_S after the last change
    of the time of the file `sign` in the directory; both are checked every LOOK_EVERY_S.
    """
    return _SCRIPT.format(
        admitted=admitted.strip(),
        machine_key=machine_key.strip(),
        limit="" if limit_s is None else math.ceil(limit_s),
        silence=SILENCE_S,
        every=LOOK_EVERY_S,
        directory=quote(directory),
        config=quote(sshd_config),
        user=USER,
    )


_SCRIPT = """\
#!/bin/sh
# The first start of a machine that tarmac rents: a watchdog, then keys for the server alone.
umask 077
mkdir -p {directory} && cd {directory} || exit
[ -e sign ] || : > sign

cat > watchdog << 'END'
#!/bin/sh
# Shuts this machine down at its time limit, and when the server that rents it is silent.
# It counts its own steps: a clock that is set, forwards or backwards, ends nothing.
cd {directory} || exit
limit={limit} silence={silence} every={every}
silent=0 seen= used=$(cat used)
case $used in *[!0-9]* | '') used=0 ;; esac
while [ "$silent" -lt "$silence" ] && [ "$used" -lt "${{limit:-$((used + 1))}}" ]; do
  sleep "$every"
  silent=$((silent + every)) used=$((used + every))
  echo "$used" > used.new && mv used.new used
  sign=$(stat -c %Y sign)
  [ "$sign" = "$seen" ] || silent=0 seen=$sign
done
while :; do
  poweroff || shutdown -h now
  sleep "$every"
  poweroff -f
done
END
cat > tarmac-watchdog.service << 'END'
[Unit]
Description=Watchdog of tarmac
[Service]
ExecStart=/bin/sh {directory}/watchdog
Restart=always
RestartSec=5
[Install]
WantedBy=multi-user.target
END
if ! [ -d /run/systemd/system ] || ! systemctl enable --now {directory}/tarmac-watchdog.service; then
  nohup setsid sh {directory}/watchdog < /dev/null > /dev/null 2>&1 &
fi

cat > admitted-{user} << 'END'
{admitted}
END
cat > host_key << 'END'
{machine_key}
END
cat > first_lines << 'END'
# Of tarmac, before all others: the first value counts.
PermitRootLogin prohibit-password
PubkeyAuthentication yes
AuthorizedKeysFile .ssh/authorized_keys {directory}/admitted-%u
HostKey {directory}/host_key
END
config={config}
if ! grep -q '^# Of tarmac, before all others' "$config"; then
  cat first_lines "$config" > sshd_config && cat sshd_config > "$config"
fi
for name in ssh sshd; do
  systemctl restart "$name" || service "$name" restart || continue
  exit 0
done
kill -HUP "$(cat /run/sshd.pid)"
"""
