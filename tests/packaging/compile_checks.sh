#!/usr/bin/env bash
# Compiles the headers in ways that a build of the tests does not. Usage: compile_checks.sh CHECK [FOLDER];
# compiler $CXX (default g++), standard $STANDARD (default c++20), FOLDER scratch.
#
#   headers_alone    each header as the only include of a unit, and included twice
#   two_units        all headers in two units of one program, linked with --fatal-warnings
#   single_include   the book as one file (amalgamate.cmake), in two units
#   book_alone       the book after every sub-folder but kernels/ is deleted
#   needs_cxx20      with -std=c++17 the first error says what to do
#   cost             user time to compile each header, as a multiple of <Eigen/Core>: at most 1.3, the umbrella 2
#
# Faults that must turn them red: an #include taken out of a header; `inline` taken off a function (two_units,
# single_include); an include of io/ in the book (book_alone).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
include=${GLASSBOX_INCLUDE:-$root/include}
check=${1:-}
folder=${2:-$(mktemp -d)}
mkdir -p "$folder"
compiler=${CXX:-g++}
standard=${STANDARD:-c++20}
eigen=${EIGEN_INCLUDE_DIR:-/usr/include/eigen3}
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror)
flags=(-std="$standard" "${warnings[@]}" -I "$include" -isystem "$eigen")

is_there() { printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | "$compiler" -E -x c++ - &> /dev/null; }

# The headers whose dependencies are there; what is left out is said.
public_headers() {
  local header lacking="none"
  is_there nlohmann/json.hpp || lacking+="|glassbox/io/.*"
  is_there sentencepiece_processor.h || lacking+="|glassbox/text/sentencepiece.*"
  (cd "$include" && find glassbox -name '*.hpp' | LC_ALL=C sort) | while read -r header; do
    if grep -qxE "$lacking" <<< "$header"; then
      echo "left out, since what it needs is not there: $header" >&2
    else
      echo "$header"
    fi
  done
}

# two_unit_program FOLDER INCLUDES: a tensor goes from one unit to the other; both have all the includes. The
# study build's pragma belongs to one unit's own code, so that header comes last.
two_unit_program() {
  {
    echo "$2"
    echo 'glassbox::Tensor<double> twice(const glassbox::Tensor<double>& input);'
    echo 'glassbox::Tensor<double> twice(const glassbox::Tensor<double>& input) { return glassbox::add(input, input); }'
  } > "$1/twice.cpp"
  {
    echo "$2"
    echo 'glassbox::Tensor<double> twice(const glassbox::Tensor<double>& input);'
    echo 'int main() {'
    echo '  glassbox::Tensor<double> three({{"row", 1}, {"col", 1}});'
    echo '  three(0, 0) = 3;'
    echo '  return twice(three)(0, 0) == 6 ? 0 : 1;'
    echo '}'
  } > "$1/main.cpp"
}

case $check in
  headers_alone)
    public_headers > "$folder/headers"
    # Two at a time: a compiler each for the two processors that CI has.
    export compiler folder
    printf '%s\n' "${flags[@]}" > "$folder/flags"
    check_header() {
      mapfile -t own_flags < "$folder/flags"
      printf '#include "%s"\n#include "%s"\n' "$1" "$1" |
        "$compiler" "${own_flags[@]}" -fsyntax-only -x c++ - || { echo "$1 does not compile alone" >&2; return 1; }
    }
    export -f check_header
    xargs -P "${JOBS:-2}" -I HEADER bash -c 'check_header HEADER' < "$folder/headers"
    echo "$(wc -l < "$folder/headers") headers compile alone and twice ($compiler, $standard)"
    ;;
  two_units)
    # In two processes, for the two processors that CI has.
    includes=$(public_headers | grep -v study_build | sed 's/.*/#include "&"/')
    two_unit_program "$folder" "$includes"
    libraries=()
    if grep -q sentencepiece "$folder/main.cpp"; then libraries=(-lsentencepiece); fi
    "$compiler" "${flags[@]}" -O0 -c "$folder/twice.cpp" -o "$folder/twice.o" &
    "$compiler" "${flags[@]}" -O0 -c "$folder/main.cpp" -o "$folder/main.o"
    wait $!
    "$compiler" -Wl,--fatal-warnings "$folder/twice.o" "$folder/main.o" "${libraries[@]}" -o "$folder/program"
    "$folder/program"
    echo "two units with all headers link and run ($compiler, $standard)"
    ;;
  single_include)
    rm -rf "$folder/single"
    cmake "-DINCLUDE=$include" "-DOUTPUT=$folder/single/glassbox.hpp" -P "$here/amalgamate.cmake"
    two_unit_program "$folder" '#include "glassbox.hpp"'
    flags=(-std="$standard" "${warnings[@]}" -I "$folder/single" -isystem "$eigen")
    "$compiler" "${flags[@]}" -O0 -Wl,--fatal-warnings "$folder/twice.cpp" "$folder/main.cpp" -o "$folder/program"
    "$folder/program"
    echo "the single include compiles in two units ($compiler, $standard)"
    ;;
  book_alone)
    rm -rf "$folder/include"
    cp -r "$include" "$folder/include"
    find "$folder/include/glassbox" -mindepth 1 -maxdepth 1 -type d ! -name kernels -exec rm -r {} +
    echo '#include "glassbox/glassbox.hpp"' |
      "$compiler" -std="$standard" "${warnings[@]}" -I "$folder/include" -isystem "$eigen" -fsyntax-only -x c++ -
    echo "the book compiles without its appendices ($compiler, $standard)"
    ;;
  needs_cxx20)
    if echo '#include "glassbox/glassbox.hpp"' |
      "$compiler" -std=c++17 -I "$include" -isystem "$eigen" -fsyntax-only -x c++ - 2> "$folder/errors"; then
      echo "compiles as C++17, which was never tested" >&2
      exit 1
    fi
    grep -m 1 'error' "$folder/errors" | grep -F 'glassbox needs C++20: add -std=c++20 or /std:c++20'
    ;;
  cost)
    # User time of the compiler alone: the least of three, of ten if that is too much; each one beside one of
    # <Eigen/Core>, so that what slows the machine slows both.
    seconds_of() {
      echo "#include $1" > "$folder/cost.cpp"
      TIMEFORMAT=%U
      { time "$compiler" "${flags[@]}" -fsyntax-only "$folder/cost.cpp"; } 2>&1
    }
    least() { printf '%s\n' "$@" | sort -n | head -1; }
    ratio() { awk -v a="$1" -v b="$2" 'BEGIN { print a / b }'; }
    within() { awk -v cost="$1" -v limit="$2" -v core="$3" 'BEGIN { exit !(cost <= limit * core) }'; }
    echo "least user seconds to compile ($compiler), as a multiple of <Eigen/Core>"
    (cd "$include" && ls glassbox/*.hpp) | while read -r header; do
      limit=1.3
      if [[ $header == glassbox/glassbox.hpp ]]; then limit=2; fi
      core=999
      cost=999
      for try in 1 2 3 4 5 6 7 8 9 10; do
        core=$(least "$core" "$(seconds_of '<Eigen/Core>')")
        cost=$(least "$cost" "$(seconds_of "\"$header\"")")
        if ((try >= 3)) && within "$cost" "$limit" "$core"; then break; fi
      done
      verdict=""
      within "$cost" "$limit" "$core" || verdict="   over $limit x"
      printf '%-36s %.2f s  %.2f x%s\n' "$header" "$cost" "$(ratio "$cost" "$core")" "$verdict"
    done | tee "$folder/cost.txt"
    if grep -q ' over ' "$folder/cost.txt"; then exit 1; fi
    ;;
  *)
    sed -n '2,/^#$/p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
