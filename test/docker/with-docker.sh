#!/usr/bin/env bash
# Runs a command that needs Docker and Compose: test/docker/with-docker.sh npm run test:compose
#
# With the daemon that runs; where none does, root on Debian gets what is missing from its packages,
# and a daemon of its own, which ends with the command and takes all it had with it (Docker's firewall
# rules stay until the machine restarts). Elsewhere it says that it skipped, and is green.
#
# Environment: BASE_IMAGE, as in deploy/docker/Dockerfile (default: what the Dockerfile names if it
# can be pulled, otherwise one that make-base-image.sh makes).
set -euo pipefail
here=$(dirname "$(realpath "$0")")

skip() {
  printf '\n*** SKIPPED, %s: %s\n\n' "$1" "$command" >&2
  exit 0
}

has_daemon() { timeout 10 docker info >/dev/null 2>&1; }
has_compose() { docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null; }
may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
# A container without privileges may not run another.
may_run_daemon() { unshare --mount --net true 2>/dev/null; }

install_missing() {
  local packages=(debootstrap)
  has_compose || packages+=(docker-compose)
  command -v dockerd >/dev/null || packages+=(docker.io)
  # Debian 13 and newer have the client apart.
  command -v docker >/dev/null || ! apt-cache show docker-cli >/dev/null 2>&1 || packages+=(docker-cli)
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
}

start_daemon() {
  folder=$(mktemp -d /var/tmp/reachback-docker.XXXXXX)
  ip link show docker0 >/dev/null 2>&1 || made_bridge=yes
  export DOCKER_HOST=unix://$folder/docker.sock
  # A session of its own: an interrupted test still needs it to clean up.
  setsid dockerd --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$folder/pid" \
    -H "$DOCKER_HOST" >"$folder/log" 2>&1 &
  daemon=$!
  trap end_daemon EXIT
  for _ in $(seq 60); do
    ! has_daemon || return 0
    kill -0 "$daemon" 2>/dev/null || break
    sleep 0.5
  done
  echo "with-docker: dockerd has not started; the end of its log:" >&2
  tail -n 20 "$folder/log" >&2
  exit 1
}

end_daemon() {
  kill "$daemon" 2>/dev/null || true
  wait "$daemon" 2>/dev/null || true
  [ -z "${made_bridge:-}" ] || ip link delete docker0 2>/dev/null || true
  rm -rf --one-file-system "$folder"
}

[ $# -gt 0 ] || {
  echo "usage: with-docker.sh COMMAND..." >&2
  exit 1
}
command=$*

if ! has_daemon || ! has_compose; then
  may_install || skip "no Docker with Compose here, and only root on Debian can have them installed"
  has_daemon || may_run_daemon || skip "this container may not run containers"
  install_missing
  has_daemon || start_daemon
fi

if [ -z "${BASE_IMAGE:-}" ]; then
  default=$(sed -n 's/^ARG BASE_IMAGE=//p' "$here/../../deploy/docker/Dockerfile")
  if docker image inspect "$default" >/dev/null 2>&1 || timeout 120 docker pull -q "$default"; then
    BASE_IMAGE=$default
  else
    echo "with-docker: $default cannot be pulled; making a base image" >&2
    BASE_IMAGE=reachback-base
    "$here/make-base-image.sh" "$BASE_IMAGE"
  fi
  export BASE_IMAGE
fi

"$@"
