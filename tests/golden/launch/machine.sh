#!/bin/sh
# The first start of a machine that tarmac rents: a watchdog, then keys for the server alone.
umask 077
mkdir -p /opt/tarmac && cd /opt/tarmac || exit
[ -e sign ] || : > sign

cat > watchdog << 'END'
#!/bin/sh
# Shuts this machine down at its time limit, and when the server that rents it is silent.
# It counts its own steps: a clock that is set, forwards or backwards, ends nothing.
cd /opt/tarmac || exit
limit=86400 silence=3600 every=60
silent=0 seen= used=$(cat used)
case $used in *[!0-9]* | '') used=0 ;; esac
while [ "$silent" -lt "$silence" ] && [ "$used" -lt "${limit:-$((used + 1))}" ]; do
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
ExecStart=/bin/sh /opt/tarmac/watchdog
Restart=always
RestartSec=5
[Install]
WantedBy=multi-user.target
END
if ! [ -d /run/systemd/system ] || ! systemctl enable --now /opt/tarmac/tarmac-watchdog.service; then
  nohup setsid sh /opt/tarmac/watchdog < /dev/null > /dev/null 2>&1 &
fi

cat > admitted-root << 'END'
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAdmitted tarmac
END
cat > host_key << 'END'
-----BEGIN A KEY-----
b3BlbnNzaC1rZXktdjE=
-----END A KEY-----
END
cat > first_lines << 'END'
# Of tarmac, before all others: the first value counts.
PermitRootLogin prohibit-password
PubkeyAuthentication yes
AuthorizedKeysFile .ssh/authorized_keys /opt/tarmac/admitted-%u
HostKey /opt/tarmac/host_key
END
config=/etc/ssh/sshd_config
if ! grep -q '^# Of tarmac, before all others' "$config"; then
  cat first_lines "$config" > sshd_config && cat sshd_config > "$config"
fi
for name in ssh sshd; do
  systemctl restart "$name" || service "$name" restart || continue
  exit 0
done
kill -HUP "$(cat /run/sshd.pid)"
