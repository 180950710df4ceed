#!/usr/bin/env bash
# Runs a command that needs Docker and Compose: test/docker/with-docker.sh npm run test:compose
#
# With the daemon that runs; where none does, root on Debian gets what is missing from its packages,
# and a daemon of its own, which ends with the command and takes all it had with it (Docker's firewall
# rules stay until the machine restarts). Where containers cannot run it says that it skipped, and
# why, and is green; whatever else goes wrong is a failure.
#
# Environment: BASE_IMAGE, as in deploy/docker/Dockerfile (default: what the Dockerfile names if it
# can be pulled, otherwise one that make-base-image.sh makes).
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
here=$(dirname "$(realpath "$0")")

skip() {
  printf '\n*** SKIPPED, %s: %s\n\n' "$1" "$command" >&2
  exit 0
}

fail() {
  echo "with-docker: $1" >&2
  exit 1
}

has_daemon() { timeout 10 docker info >/dev/null 2>&1; }
has_compose() { docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null; }
may_install() { [ "$(id -u)" = 0 ] && grep -qx ID=debian /etc/os-release; }
# A container without privileges may not run another.
may_run_daemon() { unshare --mount --net true 2>/dev/null; }

apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" \
    >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    return 1
  }
}

install_missing() {
  local log packages=() policy=/usr/sbin/policy-rc.d
  need() { command -v "$1" >/dev/null || packages+=("$2"); }
  need debootstrap debootstrap
  need dockerd docker.io
  need iptables iptables
  need ip iproute2
  has_compose || packages+=(docker-compose)
  [ -e /etc/ssl/certs/ca-certificates.crt ] || packages+=(ca-certificates)
  # Where the kernel has AppArmor, Docker starts no container without its tools.
  [ "$(cat /sys/module/apparmor/parameters/enabled 2>/dev/null)" != Y ] || need apparmor_parser apparmor
  if [ ${#packages[@]} = 0 ] && command -v docker >/dev/null; then return; fi

  log=$(mktemp)
  # One source that is broken need not be the one that is asked.
  apt update || echo "with-docker: apt-get update failed; trying with the lists that are there" >&2
  # Debian 13 and newer have the client apart.
  ! apt-cache show docker-cli >/dev/null 2>&1 || need docker docker-cli
  echo "with-docker: installing ${packages[*]}" >&2
  # Or the packages would start a daemon that stays.
  if [ ! -e "$policy" ]; then
    trap 'rm -f '"$policy" EXIT
    install -m 0755 /dev/stdin "$policy" <<<$'#!/bin/sh\nexit 101'
  fi
  apt install -y --no-install-recommends "${packages[@]}" || fail "apt-get cannot install them"
  [ -z "$(trap -p EXIT)" ] || rm -f "$policy"
  trap - EXIT
  rm -f "$log"
}

# Some kernels know only the older of Debian's two iptables.
prefer_working_iptables() {
  ! iptables -t nat -S >/dev/null 2>&1 && iptables-legacy -t nat -S >/dev/null 2>&1 || return 0
  mkdir "$folder/bin"
  ln -s "$(command -v iptables-legacy)" "$folder/bin/iptables"
  ln -s "$(command -v ip6tables-legacy)" "$folder/bin/ip6tables"
  PATH=$folder/bin:$PATH
}

start_daemon() {
  folder=$(mktemp -d /var/tmp/reachback-docker.XXXXXX)
  trap end_daemon EXIT
  ip link show docker0 >/dev/null 2>&1 || made_bridge=yes
  prefer_working_iptables
  export DOCKER_HOST=unix://$folder/docker.sock
  # A session of its own: an interrupted test still needs it to clean up. It ends with this script
  # even if that is killed, and its mounts end with it.
  setsid setpriv --pdeathsig TERM unshare --mount bash -c '
    mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
    exec dockerd --data-root "$0/data" --exec-root "$0/exec" --pidfile "$0/pid" -H "$DOCKER_HOST"' \
    "$folder" >"$folder/log" 2>&1 &
  daemon=$!
  for _ in $(seq 120); do
    ! has_daemon || return 0
    kill -0 "$daemon" 2>/dev/null || break
    sleep 0.5
  done
  tail -n 20 "$folder/log" >&2
  skip "dockerd does not start: $(sed -n 's/^failed to start daemon: //p' "$folder/log" | head -n 1)"
}

end_daemon() {
  if [ -n "${daemon:-}" ]; then
    # What a test that was killed has left.
    timeout 60 docker ps --all --quiet 2>/dev/null | timeout 60 xargs -r docker rm --force >/dev/null 2>&1 || true
    timeout 60 docker network prune --force >/dev/null 2>&1 || true
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
    [ -z "${made_bridge:-}" ] || ip link delete docker0 2>/dev/null || true
  fi
  rm -rf --one-file-system "$folder"
}

has_image() { docker image inspect "$1" >/dev/null 2>&1 || timeout 120 docker pull -q "$1"; }

choose_base_image() {
  if [ -n "${BASE_IMAGE:-}" ]; then
    has_image "$BASE_IMAGE" || fail "BASE_IMAGE=$BASE_IMAGE is not here and cannot be pulled"
    return
  fi
  BASE_IMAGE=$(sed -n 's/^ARG BASE_IMAGE=//p' "$here/../../deploy/docker/Dockerfile")
  if ! has_image "$BASE_IMAGE"; then
    echo "with-docker: $BASE_IMAGE cannot be pulled; making a base image" >&2
    BASE_IMAGE=reachback-base
    "$here/make-base-image.sh" "$BASE_IMAGE"
  fi
  export BASE_IMAGE
}

# 125 is the daemon's word; anything else comes of the image, and the build will say it.
check_containers_run() {
  local said code=0
  said=$(docker run --rm --memory=64m --pids-limit=32 --cpus=1 "$BASE_IMAGE" node --version 2>&1) || code=$?
  [ "$code" != 125 ] || skip "containers do not start: $(grep -m 1 '^docker: ' <<<"$said")"
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
choose_base_image
check_containers_run
"$@"
