#!/usr/bin/env bash
# What the study build costs: prints the tables of docs/study_build.md, measured on this machine. Usage: study_figures.sh [FOLDER]
# (scratch). Takes some minutes; nothing else should run. Needs g++ and clang++ (one of them will do), Eigen, gdb.
#
# Three builds of one program: study (as the preset debug), plain (-O0 -g), release (-O3 -march=native). Times of a prefill of 32
# tokens and of a decode step, the least of several; the factor is to the release build of the same compiler. Then how long gdb takes
# from its start to the first attention scores, and to the first line of an empty program.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
common=(-std=c++20 -I "$root/include" -I "$root/tests" -isystem "${EIGEN_INCLUDE_DIR:-/usr/include/eigen3}")
study=(-g -O3 -march=native -include glassbox/debugger/study_build.hpp)
sizes=("4 128 4 2 344 1000" "6 288 6 6 768 32000" "8 512 8 8 1376 32000")
names=("embedded model (4 layers x 128, 1 M)" "6 layers x 288, 15 M" "8 layers x 512, 42 M")

compile() { # COMPILER BUILD
  local flags=()
  case $2 in
    study)
      flags=("${study[@]}" -fno-omit-frame-pointer)
      if [[ $1 == g++ ]]; then
        flags+=(-fno-var-tracking -fno-shrink-wrap -fno-ipa-sra)
        if [[ $(uname -m) == x86_64 ]]; then flags+=(-fcf-protection=branch); fi
      else
        flags+=(-fstandalone-debug)
      fi
      ;;
    plain) flags=(-g -O0) ;;
    release) flags=(-O3 -march=native) ;;
  esac
  "$1" "${common[@]}" "${flags[@]}" "$here/study_speed.cpp" -o "$folder/$1-$2"
}

factor() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", a / b }'; }

compilers=()
for compiler in g++ clang++; do
  if command -v "$compiler" > /dev/null; then compilers+=("$compiler"); fi
done
echo "| model | compiler | build | prefill ms | x release | decode step ms | x release |"
echo "|---|---|---|---|---|---|---|"
for compiler in "${compilers[@]}"; do
  for build in release study plain; do compile "$compiler" "$build"; done
  for i in "${!sizes[@]}"; do
    read -ra size <<< "${sizes[i]}"
    for build in release study plain; do
      read -r prefill decode <<< "$("$folder/$compiler-$build" "${size[@]}")"
      if [[ $build == release ]]; then release_prefill=$prefill release_decode=$decode; fi
      echo "| ${names[i]} | $compiler | $build | $prefill | $(factor "$prefill" "$release_prefill") |" \
        "$decode | $(factor "$decode" "$release_decode") |"
    done
  done
done

echo
echo "| compiler | program | seconds from gdb's start to the stop |"
echo "|---|---|---|"
seconds_to() { # PROGRAM COMMAND...
  local program=$1 best=999 begin end
  shift
  for _ in 1 2 3; do
    begin=$(date +%s.%N)
    gdb -nx -batch -iex 'set debuginfod enabled off' -ex 'set disable-randomization off' -ex 'set startup-with-shell off' "$@" \
      -ex kill --args "$program" 4 128 4 2 344 1000 > "$folder/gdb.log" 2>&1
    end=$(date +%s.%N)
    best=$(awk -v a="$begin" -v b="$end" -v best="$best" 'BEGIN { t = b - a; printf "%.2f", t < best ? t : best }')
  done
  echo "$best"
}
echo 'int main() { return 0; }' > "$folder/empty.cpp"
for compiler in "${compilers[@]}"; do
  "$compiler" -g -O0 "$folder/empty.cpp" -o "$folder/$compiler-empty"
  echo "| $compiler | empty, at main | $(seconds_to "$folder/$compiler-empty" -ex 'break main' -ex run) |"
  echo "| $compiler | study, at the first scores, printed | $(seconds_to "$folder/$compiler-study" \
    -ex "source $root/include/glassbox/debugger/glassbox_gdb.py" -ex 'glass next scores' -ex 'p scores') |"
done
