#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What of contrib/ can be checked without containers and without systemd running: the image has the
# libraries that the program needs, the files that it copies exist, the unit is valid and closed.
# Usage: contrib.sh CLOVER SOURCE_DIR
set -euo pipefail
clover=$(realpath "$1")
cd "$2"
failed=0
bad() {
  echo "contrib.sh: $*" >&2
  failed=1
}

# The package of a library; its path is in /lib or /usr/lib, which are the same.
package_of() {
  local path
  path=$(realpath "$1")
  { dpkg -S "$path" || dpkg -S "${path#/usr}"; } 2>/dev/null | head -n 1 | cut -d: -f1
}

# Every shared library that the program names comes from a package that the image installs, or that Debian always has.
image=$(sed -n '/^FROM.*slim/,$p' contrib/Containerfile)
needed=()
for name in $(readelf -d "$clover" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
  library=$(ldd "$clover" | awk -v name="$name" '$1 == name && $2 == "=>" { print $3 }')
  [ -n "$library" ] || continue  # the loader itself
  package=$(package_of "$library")
  needed+=("$package")
  case $package in libc6 | libgcc-s1) continue ;; esac
  grep -qw -- "$package" <<<"$image" || bad "the image lacks $package ($(basename "$library"))"
done
for package in $(grep -oE '\b(lib|zlib)[a-z0-9.+-]+' <<<"$image" | grep -vx library); do
  printf '%s\n' "${needed[@]}" | grep -qxF -- "$package" ||
    bad "the image installs $package, which nothing needs"
done
grep -q 'setup.sh build model' contrib/Containerfile || bad "the image is not built by setup.sh"

if command -v systemd-analyze >/dev/null; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  # The installed paths do not exist here.
  sed "s|/usr/local/bin/clover|$clover|" contrib/clover.service >"$folder/clover.service"
  said=$(systemd-analyze verify --man=no "$folder/clover.service" 2>&1) || true
  said=$(grep -F clover.service <<<"$said" || true)
  [ -z "$said" ] || bad "$said"
  # 0 is closed, 10 is open.
  systemd-analyze security --no-pager --offline=true --threshold=20 "$folder/clover.service" \
    >"$folder/security" || bad "the unit is too open: $(tail -n 1 "$folder/security")"
  # Its options are the program's.
  arguments=$(sed -n 's/^ExecStart=[^ ]* //p' contrib/clover.service)
  for option in $(grep -oE -- '--[a-z-]+' <<<"$arguments"); do
    "$clover" serve -h | grep -q -- "$option" || bad "serve has no option $option"
  done
else
  echo "contrib.sh: no systemd-analyze here: the unit is not checked"
fi
exit $failed
