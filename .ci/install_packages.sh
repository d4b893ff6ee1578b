#!/usr/bin/env bash
# Installs those of the Debian or Ubuntu packages named that are missing. A compiler or a tool that is there
# from elsewhere is taken as it is. Usage: install_packages.sh PACKAGE...
set -euo pipefail

is_there() {
  case $1 in
    g++) command -v "${CXX:-g++}" ;;
    clang) command -v clang++ ;;
    cmake | make | gdb | gdbserver | lldb | python3 | clang-format) command -v "$1" ;;
    *) dpkg-query -W -f='${Status}' "$1" | grep -q '^install ok installed$' ;;
  esac &> /dev/null
}

say() { echo "$*" >&2; }

if ! command -v apt-get > /dev/null; then
  say "This is not Debian or Ubuntu: nothing is installed. Needed here, under their Debian names: $*"
  exit 0
fi
missing=()
for package in "$@"; do
  if ! is_there "$package"; then missing+=("$package"); fi
done
if ((${#missing[@]} == 0)); then
  say "All packages are there: $*"
  exit 0
fi

as_root=()
if [[ $(id -u) != 0 ]]; then
  if ! command -v sudo > /dev/null || { [[ ! -t 0 ]] && ! sudo -n true 2> /dev/null; }; then
    say "These packages are missing, and only root can install them:"
    say "  apt-get update && apt-get install -y ${missing[*]}"
    exit 1
  fi
  as_root=(sudo)
fi
say "Installing: ${missing[*]}"
if ! "${as_root[@]}" apt-get update -qq >&2 ||
  ! DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2; then
  say "apt-get could not install them (its reason is above): ${missing[*]}"
  exit 1
fi
