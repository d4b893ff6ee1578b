#!/usr/bin/env bash
# Builds and runs the tests.
#
#   tests/run.sh                      every test (preset debug, in build/debug)
#   tests/run.sh rms_norm             the tests of one header: builds only these
#   tests/run.sh io/npy attention     of several
#   tests/run.sh --together           every test, those of several headers in one program: built sooner, for a
#                                     machine that only wants to know whether all is right
#   tests/run.sh --list               the names
#   tests/run.sh --regenerate         writes anew every expected text that depends on the embedded model
#   tests/run.sh --full               every compiler and configuration, 2,000 mutations of each file format,
#                                     each header alone in both standards, what the headers cost to compile, and
#                                     a fault in each line that matters, which a test must see (tests/mutants.sh)
#
# It installs what is missing (Debian and Ubuntu packages) and builds what has changed. To check a component
# you are working on: edit include/glassbox/rms_norm.hpp, run tests/run.sh rms_norm. The fault list in the head
# of each test file says what the test notices; plant one of these faults and see. The compiler is $CXX at the
# first run (remove build/debug to change it).
#
# Exit codes: 0 all right, 1 something failed, 2 wrong use.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
cd "$root"

say() { echo "run.sh: $*" >&2; }

# Whatever code cmake and ctest give for a failure, here it is 1.
or_fail() { "$@" || exit 1; }

packages=(g++ make cmake libeigen3-dev libsentencepiece-dev nlohmann-json3-dev libcli11-dev libgtest-dev
  python3 gdb)

configure_debug() {
  .ci/install_packages.sh "${packages[@]}"
  say "configuring build/debug (cmake --preset debug)"
  mkdir -p build
  if ! cmake --preset debug -DGLASSBOX_BUILD_TESTS=ON "-DGLASSBOX_TESTS_TOGETHER=${1:-OFF}" > build/configure.log 2>&1; then
    cat build/configure.log >&2
    say "configuring failed, for the reason above"
    exit 1
  fi
  grep -E '^-- (glassbox without|test .* left out)' build/configure.log >&2 || true
}

all_names() { (cd build/debug && ctest -N) | sed -n 's/^ *Test *#[0-9]*: //p'; }

run_all() {
  configure_debug "${1:-OFF}"
  say "building (cmake --build --preset debug)"
  or_fail cmake --build --preset debug -- --no-print-directory
  or_fail ctest --preset debug
}

run_named() {
  local name names known target similar targets=() everything="" pattern=""
  configure_debug
  names=$(all_names)
  known=$(cmake --build build/debug --target help)
  for name in "$@"; do
    if ! grep -qxF "$name" <<< "$names"; then
      similar=$(grep -F -- "$(basename -- "$name" .hpp | sed 's/^test_//')" <<< "$names" || true)
      say "there is no test $name; tests/run.sh --list names them all.${similar:+ With a similar name:}"
      if [[ -n $similar ]]; then echo "$similar" >&2; fi
      exit 2
    fi
    pattern+="${pattern:+|}$name"
    target=test_${name//\//_}
    case $name in
      sources/*) continue ;;
      packaging/no_eigen_heap) target=test_no_eigen_heap ;;
      packaging/*) continue ;;
    esac
    if grep -qwF "$target" <<< "$known"; then targets+=(--target "$target"); else everything=yes; fi
  done
  if [[ -n $everything ]]; then
    or_fail cmake --build --preset debug -- --no-print-directory
  elif ((${#targets[@]} > 0)); then
    or_fail cmake --build --preset debug "${targets[@]}" -- --no-print-directory
  fi
  cd build/debug
  or_fail ctest --verbose -R "^($pattern)\$"
}

regenerate() {
  configure_debug
  or_fail cmake --build --preset debug -- --no-print-directory
  or_fail tests/regenerate.sh build/debug/examples
}

run_full() {
  .ci/install_packages.sh "${packages[@]}" clang clang-format gdb gdbserver lldb python3
  GLASSBOX_MIXED_COMPILERS=1 .ci/parts.sh build/full 2000 \
    g++:debug clang++:debug g++:release:together clang++:release:together g++:sanitize:together \
    clang++:sanitize:together \
    headers:g++:c++20 headers:g++:c++23 headers:clang++:c++20 headers:clang++:c++2b cost:g++ mutants format
}

case ${1:-} in
  "") run_all ;;
  --help | -h) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" ;;
  --together) run_all ON ;;
  --list) configure_debug && all_names ;;
  --regenerate) regenerate ;;
  --full) run_full ;;
  -*)
    say "unknown option $1; tests/run.sh --help"
    exit 2
    ;;
  *) run_named "$@" ;;
esac
