#!/usr/bin/env bash
# Makes a base image for deploy/docker/Dockerfile where no image registry can be reached: Debian
# from its package mirror, with the Node and npm of this machine. Needs root, Debian's debootstrap,
# and a Docker daemon.
#
#   test/docker/make-base-image.sh reachback-base
#   docker build -f deploy/docker/Dockerfile --build-arg BASE_IMAGE=reachback-base --target agent .
#
# Environment: SUITE (default: bookworm), MIRROR (default: http://deb.debian.org/debian).
set -euo pipefail

image=${1:?usage: make-base-image.sh IMAGE}
suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}

for program in debootstrap docker node npm; do
  command -v "$program" >/dev/null || {
    echo "make-base-image: $program is not installed" >&2
    exit 1
  }
done

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"
root=$work/root

debootstrap --variant=minbase --include=ca-certificates,libstdc++6 "$suite" "$root" "$mirror" >"$work/log" || {
  tail -n 20 "$work/log" >&2
  exit 1
}
# What a slim image leaves out.
rm -rf "$root"/var/{cache/apt,lib/apt/lists,log}/* "$root"/usr/share/{doc,info,locale,man}/*

npm_folder=$(dirname "$(dirname "$(realpath "$(command -v npm)")")")
install -D "$(node -p process.execPath)" "$root/usr/local/bin/node"
mkdir -p "$root/usr/local/lib/node_modules" "$root/usr/local/etc"
cp -RL "$npm_folder" "$root/usr/local/lib/node_modules/npm"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"

# A build gets packages from where this machine gets them, and behind an inspecting proxy must trust
# what this machine trusts; npm alone is told.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
cat >"$root/usr/local/etc/npmrc" <<END
cafile=/etc/ssl/certs/ca-certificates.crt
registry=$(npm config get registry 2>/dev/null)
END

version=$(chroot "$root" /usr/local/bin/node --version) || {
  echo "make-base-image: this machine's Node does not run on Debian $suite; set SUITE" >&2
  exit 1
}
tar -C "$root" --numeric-owner -c . |
  docker import --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'CMD ["node"]' - "$image" >/dev/null
echo "$image: Debian $suite, Node $version"
