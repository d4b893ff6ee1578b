#!/usr/bin/env bash
# Builds the program of somebody who uses glassbox, in one of the ways the README names, and checks what it
# prints. Usage: consumers.sh WAY [FOLDER]; the compiler is $CXX (default g++), FOLDER a scratch folder that is
# removed and made anew (default: a temporary one).
#
#   plain              compiler -I include
#   find_package       installed, the installation moved to another folder
#   components         likewise, with COMPONENTS sentencepiece io
#   unknown_component  COMPONENTS nonsense: refused, with the reason
#   no_dependencies    libsentencepiece and JSON absent: the rest works, what is lost is said
#   missing_component  COMPONENTS sentencepiece from an installation without it: refused, with the reason
#   add_subdirectory   the source folder inside the project: glassbox adds no tests, examples or install rules
#   fetch_content      FetchContent
#
# Faults that must turn them red: no INTERFACE include directory, Eigen not looked for by the config file, an
# absolute path exported, a component that is silently ignored, an option that is on in a subproject.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
way=${1:-}
folder=${2:-$(mktemp -d)}
export CXX=${CXX:-g++}
rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
trap 'rm -rf "$folder"' EXIT

fail() { echo "consumers.sh $way ($CXX): $*" >&2; exit 1; }

# quietly COMMAND...: its output is shown only if it fails.
quietly() {
  if ! "$@" > "$folder/log" 2>&1; then cat "$folder/log" >&2; fail "this failed: $*"; fi
}

# Installs glassbox into $folder/moved by way of another folder; more arguments are given to cmake.
install_and_move() {
  quietly cmake -S "$root" -B "$folder/glassbox" -DGLASSBOX_BUILD_TESTS=OFF -DGLASSBOX_BUILD_EXAMPLES=OFF "$@"
  cp "$folder/log" "$folder/configure_log"
  quietly cmake --install "$folder/glassbox" --prefix "$folder/first"
  mv "$folder/first" "$folder/moved"
  rm -rf "$folder/glassbox"
  if grep -rlE "$folder|$root" "$folder/moved/share"; then fail "the package names a folder of this machine"; fi
}

build_consumer() {
  local source=$1
  shift
  quietly cmake -S "$here/$source" -B "$folder/consumer" "-DCMAKE_PREFIX_PATH=$folder/moved" "$@"
  quietly cmake --build "$folder/consumer"
}

must_print() {
  local output
  output=$("$1") || fail "the program failed"
  [[ $output == "$2" ]] || fail "expected \"$2\", the program printed \"$output\""
}

# must_be_refused REASON cmake arguments...: configuring fails and says why.
must_be_refused() {
  local reason=$1
  shift
  if cmake -S "$here/consumer_components" -B "$folder/consumer" "-DCMAKE_PREFIX_PATH=$folder/moved" "$@" \
    > "$folder/log" 2>&1; then fail "was not refused"; fi
  tr -s ' \n' ' ' < "$folder/log" | grep -qF "$reason" || { cat "$folder/log" >&2; fail "did not say: $reason"; }
}

# Where find_path and find_library look on this machine; with these ignored only Eigen's package is found.
absent="-DCMAKE_IGNORE_PATH=/usr/include;/usr/local/include;/usr/lib;/usr/local/lib;/usr/lib/$(uname -m)-linux-gnu"
normalised="[batch=1, seq=1, hidden=2] 0.8485 1.1314"

case $way in
  plain)
    eigen=${EIGEN_INCLUDE_DIR:-/usr/include/eigen3}
    quietly "$CXX" -std=c++20 -I "$root/include" -I "$eigen" "$here/consumer_main.cpp" -o "$folder/consumer"
    must_print "$folder/consumer" "$normalised"
    ;;
  find_package)
    install_and_move
    build_consumer consumer_find_package
    must_print "$folder/consumer/consumer" "$normalised"
    ;;
  components)
    install_and_move
    build_consumer consumer_components "-DCOMPONENTS=sentencepiece;io"
    must_print "$folder/consumer/consumer" $'hidden_size 64\nabsent/tokenizer.model does not exist'
    ;;
  unknown_component)
    install_and_move
    must_be_refused "component nonsense: there is no component of this name; the components are: sentencepiece io" \
      -DCOMPONENTS=nonsense
    ;;
  no_dependencies)
    install_and_move "$absent"
    for lost in "component sentencepiece" "apt install libsentencepiece-dev" "component io" "nlohmann-json3-dev"; do
      grep -qF "$lost" "$folder/configure_log" || { cat "$folder/configure_log"; fail "does not say: $lost"; }
    done
    [[ ! -e $folder/moved/include/glassbox/io ]] || fail "installs headers that cannot be compiled"
    build_consumer consumer_find_package "$absent"
    must_print "$folder/consumer/consumer" "$normalised"
    # Every component test of the book is still there, none of those that need what is absent.
    quietly cmake -S "$root" -B "$folder/glassbox" -DGLASSBOX_BUILD_EXAMPLES=OFF "$absent"
    (cd "$folder/glassbox" && ctest -N) > "$folder/tests"
    grep -qE ': rms_norm$' "$folder/tests" || fail "the test of rms_norm needs a dependency it does not use"
    if grep -E ': (text/sentencepiece|io/)' "$folder/tests"; then fail "these tests cannot be built"; fi
    ;;
  missing_component)
    install_and_move "$absent"
    must_be_refused "component sentencepiece: glassbox was installed without it" "-DCOMPONENTS=sentencepiece"
    rm -rf "$folder/consumer"
    must_be_refused "apt install libsentencepiece-dev" "-DCOMPONENTS=sentencepiece" "$absent"
    ;;
  add_subdirectory)
    build_consumer consumer_subdirectory "-DGLASSBOX=$root"
    must_print "$folder/consumer/consumer" "$normalised"
    (cd "$folder/consumer" && ctest -N) | grep -q 'Total Tests: 0' || fail "adds tests to the project"
    [[ ! -e $folder/consumer/glassbox/examples ]] || fail "builds its examples in the project"
    quietly cmake --install "$folder/consumer" --prefix "$folder/installed"
    [[ ! -e $folder/installed/include ]] || fail "installs itself with the project"
    ;;
  fetch_content)
    build_consumer consumer_fetch_content "-DFETCHCONTENT_SOURCE_DIR_GLASSBOX=$root"
    must_print "$folder/consumer/consumer" "$normalised"
    ;;
  *)
    sed -n '2,/^#$/p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
echo "consumers.sh $way ($CXX): right"
