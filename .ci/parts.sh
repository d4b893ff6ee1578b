#!/usr/bin/env bash
# Runs parts of the checks one after the other, says how long each took, and ends with a summary line.
# Usage: parts.sh FOLDER MUTATIONS PART...
#
#   debug                    tests/run.sh --together, in build/debug
#   COMPILER:PRESET          everything built with this compiler and preset, and all its tests
#   COMPILER:PRESET:together likewise with the tests of several headers in one program, which is built much sooner,
#                            and without what concerns sources and packaging, which debug checks
#   COMPILER:PRESET:headers  likewise with the tests of headers only, without the example programs
#   headers:COMPILER:STD     each header alone, and all in two units
#   cost:COMPILER            what the headers cost to compile; only right on a machine that does nothing else
#   mutants                  tests/mutants.sh
#   format                   clang-format
#
# Each build is in its own folder below FOLDER. MUTATIONS: how often each fuzz test damages each file format. A
# part that fails does not keep the others from running; the exit code is 1 then.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
folder=$1
export GLASSBOX_MUTATIONS=$2
shift 2
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
export JOBS=${JOBS:-$(nproc)}
mkdir -p "$folder"

build_and_test() {
  local compiler=$1 preset=$2 how=$3 build=$folder/$1-$2
  local chosen=() options=()
  # What concerns only the sources and the packaging does not change with the sanitizers.
  if [[ $preset == sanitize || -n $how ]]; then chosen=(-LE packaging); fi
  if [[ -n $how ]]; then options+=(-DGLASSBOX_TESTS_TOGETHER=ON); fi
  if [[ $how == headers ]]; then options+=(-DGLASSBOX_BUILD_EXAMPLES=OFF); fi
  CXX=$compiler cmake --preset "$preset" -B "$build" "${options[@]}" > "$build.configure.log" 2>&1 || {
    cat "$build.configure.log"
    return 1
  }
  cmake --build "$build" -- --no-print-directory > "$build.build.log" 2>&1 || {
    grep -E -A 8 'error|Error' "$build.build.log" | head -60
    return 1
  }
  (cd "$build" && ctest --output-on-failure "${chosen[@]}")
}

check_format() {
  local format
  format=$(command -v clang-format-14 || command -v clang-format) || { echo "clang-format is not there"; return 1; }
  "$format" --version
  find include examples tests \( -name '*.hpp' -o -name '*.cpp' \) -print0 | xargs -0 "$format" --dry-run -Werror
}

run_part() {
  local kind compiler argument
  IFS=: read -r kind compiler argument <<< "$1"
  case $kind in
    debug) tests/run.sh --together ;;
    g++ | clang++) build_and_test "$kind" "$compiler" "$argument" ;;
    headers)
      CXX=$compiler STANDARD=$argument tests/packaging/compile_checks.sh headers_alone "$folder/headers" &&
        CXX=$compiler STANDARD=$argument tests/packaging/compile_checks.sh two_units "$folder/headers"
      ;;
    cost) CXX=$compiler tests/packaging/compile_checks.sh cost "$folder/headers" ;;
    mutants) tests/mutants.sh ;;
    format) check_format ;;
    *) echo "there is no part $1" && return 1 ;;
  esac
}

failed=()
times=""
for part in "$@"; do
  echo "==== $part"
  began=$SECONDS
  if run_part "$part"; then verdict=passed; else verdict=FAILED && failed+=("$part"); fi
  echo "==== $part: $verdict after $((SECONDS - began)) s"
  times+="$part $((SECONDS - began)) s, "
done
echo "times: ${times%, }; together $SECONDS s"
if ((${#failed[@]} > 0)); then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
echo "all $# parts passed"
