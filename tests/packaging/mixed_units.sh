#!/usr/bin/env bash
# Builds the program of mixed_units/ from two units with different flags, in both link orders, and runs it: a
# baseline -O0 unit and a -O3 -march=native one, with the study build, and, with GLASSBOX_MIXED_COMPILERS=1, of
# two compilers where both are there. Usage: mixed_units.sh FOLDER (scratch).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
include=${GLASSBOX_INCLUDE:-$root/include}
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
first_compiler=${CXX:-g++}
common=(-std=c++20 -I "$include" -I "$root/tests" -I "$here" -isystem "${EIGEN_INCLUDE_DIR:-/usr/include/eigen3}")

flags_of() {
  case $1 in
    baseline) echo "-O0 -g" ;;
    native) echo "-O3 -march=native" ;;
    study) echo "-O3 -march=native -g -include glassbox/debugger/study_build.hpp" ;;
  esac
}

# compile UNIT KIND COMPILER -> $folder/UNIT.KIND.COMPILER.o, once
compile() {
  local object
  object=$folder/$1.$2.$(basename "$3").o
  read -ra flags <<< "$(flags_of "$2")"
  if [[ ! -e $object ]]; then "$3" "${common[@]}" "${flags[@]}" -c "$here/mixed_units/$1.cpp" -o "$object"; fi
  echo "$object"
}

# run_pair KIND COMPILER KIND COMPILER: the first one's main.cpp with the second one's other_unit.cpp
run_pair() {
  local main other order
  main=$(compile main "$1" "$2")
  other=$(compile other_unit "$3" "$4")
  for order in "$main $other" "$other $main"; do
    # shellcheck disable=SC2086
    "$2" -Wl,--fatal-warnings $order -o "$folder/program"
    if ! "$folder/program" > "$folder/output"; then
      cat "$folder/output"
      echo "mixed_units.sh: main.cpp ($1, $2) with other_unit.cpp ($3, $4), linked as $order: wrong" >&2
      exit 1
    fi
  done
  echo "main.cpp $1 ($2), other_unit.cpp $3 ($4): right in both link orders"
}

rm -f "$folder"/*.o
run_pair baseline "$first_compiler" native "$first_compiler"
run_pair native "$first_compiler" baseline "$first_compiler"
run_pair study "$first_compiler" native "$first_compiler"
run_pair native "$first_compiler" study "$first_compiler"
if [[ ${GLASSBOX_MIXED_COMPILERS:-} != 1 ]]; then exit 0; fi
for second_compiler in g++ clang++; do
  if [[ $second_compiler == "$first_compiler" ]] || ! command -v "$second_compiler" > /dev/null; then continue; fi
  run_pair baseline "$first_compiler" native "$second_compiler"
  run_pair native "$first_compiler" baseline "$second_compiler"
done
