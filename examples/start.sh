#!/usr/bin/env bash
# From nothing to a prompt that goes through a model, stage by stage:
#
#   examples/start.sh                          walk through the embedded model
#   examples/start.sh --prompt "Once upon"     any arguments are walk's (examples/start.sh --help lists them)
#   examples/start.sh gdb                      walk in gdb, at the first attention scores, glassbox's commands loaded
#   examples/start.sh lldb --stage context --layer 2 --prompt "Once upon"
#                                              in lldb, at another stage and layer; the rest are walk's arguments
#
# It installs what is missing (Debian and Ubuntu packages), builds the program `walk` in build/debug (preset
# debug: every line can be stepped, every local read) and runs it, alone or in a debugger. Run again, it only does what is left to do.
# Works from any folder. What it does is said on standard error; standard output is walk's.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/debug
log=$build/start.log

debugger= stage=scores layer=
if [[ ${1:-} == gdb || ${1:-} == lldb ]]; then
  debugger=$1
  shift
  while [[ ${1:-} == --stage || ${1:-} == --layer ]]; do
    if [[ ! ${2:-} =~ ^[A-Za-z0-9_]+$ ]]; then
      echo "start.sh: $1 needs a value: --stage scores, --layer 0" >&2
      exit 2
    fi
    if [[ $1 == --stage ]]; then stage=$2; else layer=$2; fi
    shift 2
  done
fi

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  if [[ ! -x $build/examples/walk ]]; then
    echo "walk is not built yet; afterwards its options follow here."
    exit 0
  fi
fi

say() { echo "start.sh: $*" >&2; }

if [[ -n $debugger ]] && ! grep -qF ".name = \"$stage\"," "$root/include/glassbox/stage_table.hpp"; then
  say "no stage is called $stage; docs/shapes.md has them all"
  exit 2
fi
if [[ -n $layer && ! $layer =~ ^[0-9]+$ ]]; then
  say "--layer $layer: expected a number, 0 is the first layer"
  exit 2
fi

# logged WHAT COMMAND...: the output goes to the log and is shown only if the command fails.
logged() {
  local what=$1
  shift
  if "$@" >> "$log" 2>&1; then return; fi
  grep -E -m 5 -A 6 'error|Error|ERROR' "$log" >&2 || tail -n 20 "$log" >&2
  say "$what failed; the whole output is in $log"
  exit 1
}

"$root/.ci/install_packages.sh" g++ make cmake libeigen3-dev libsentencepiece-dev nlohmann-json3-dev libcli11-dev \
  gdb $([[ $debugger != lldb ]] || echo lldb)
version=$(cmake --version | sed -n '1s/.* //p')
if [[ $(printf '%s\n' 3.25 "$version" | sort -V | head -1) != 3.25 ]]; then
  say "CMake 3.25 or newer is needed, this is $version (pip install cmake brings a newer one)"
  exit 1
fi

mkdir -p "$build"
: > "$log"
cd "$root"
if [[ ! -e $build/CMakeCache.txt || ! -e $build/Makefile && ! -e $build/build.ninja ]]; then
  say "configuring $build (cmake --preset debug)"
  logged "configuring" cmake --preset debug -DGLASSBOX_BUILD_TESTS=OFF
fi
if [[ -x $build/examples/walk ]]; then
  say "building walk where it is not up to date (cmake --build --preset debug --target walk)"
else
  say "building walk (cmake --build --preset debug --target walk; about a minute)"
fi
CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)} logged "building" \
  cmake --build --preset debug --target walk
cd "$OLDPWD"

scripts=$root/include/glassbox/debugger
# walk explains every stage it passes; before the stop that would be pages.
if [[ -n $debugger && $# -eq 0 ]]; then set -- --stage "$stage"; fi
to_stage="glass next $stage${layer:+ --layer $layer}"
case $debugger in
  gdb)
    say "running walk in gdb up to the stage $stage; there: help glass, step, quit"
    exec gdb -q -iex "set debuginfod enabled off" -ex "set confirm off" -ex "set pagination off" \
      -ex "source $scripts/glassbox_gdb.py" \
      -ex "$to_stage" -ex "glass show" --args "$build/examples/walk" "$@"
    ;;
  lldb)
    say "running walk in lldb up to the stage $stage; there: glass help, step, quit"
    # Debian 12's lldb does not look where its Python module lies.
    folder=$(ls -d /usr/lib/llvm-14/lib/python3.11/dist-packages 2> /dev/null || true)
    if [[ -n $folder ]]; then export PYTHONPATH=$folder PATH=/usr/bin:$PATH; fi
    # Commands from a pipe: as a file of commands each waits for the one before it, and none becomes walk's input.
    piped=()
    if [[ ! -t 0 ]]; then piped=(-b -s /dev/stdin); fi
    exec lldb -o "command script import '$scripts/glassbox_lldb.py'" -o "$to_stage" -o "glass show" \
      ${piped[@]+"${piped[@]}"} -- "$build/examples/walk" "$@"
    ;;
esac
say "running $build/examples/walk $*"
exec "$build/examples/walk" "$@"
