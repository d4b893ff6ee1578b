#!/usr/bin/env bash
# Rules of style over the headers, as one reads them. Usage: check_sources.sh CHECK [ROOT]
# ROOT is the folder with include/ and CMakeLists.txt (default: this repository). Each violation is a line
# FILE:LINE: what is wrong; the exit code is 0 without any, 1 with some, 2 for wrong use.
#
# Faults that must turn each check red are planted one by one by test_check_sources.sh.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=${2:-$(cd "$here/../.." && pwd)}
cd "$root/include/glassbox"

all_headers() { find . -name '*.hpp' | sed 's|^\./||' | LC_ALL=C sort; }
book_headers() { all_headers | grep -v /; }

# FILE:LINE:text of every line of the headers given, with // comments and string literals taken out.
code_lines() {
  awk '{ gsub(/"([^"\\]|\\.)*"/, "\"\""); sub(/\/\/.*/, ""); print FILENAME ":" FNR ":" $0 }' "$@"
}

# code_must_not_match REGEX REASON HEADER...: an extended regular expression for the beginning of a line of code.
code_must_not_match() {
  local regex=$1 reason=$2
  shift 2
  code_lines "$@" | grep -E "^[^:]+:[0-9]+:($regex)" | sed "s|\$|   <- $reason|" || true
}

# "LAYER HEADER" in reading order, as the headings "// L0 ..." of glassbox.hpp say.
reading_order() {
  awk '/^\/\/ L[0-9]/ { layer = $2 }
       /^#include "glassbox\// { gsub(/"|glassbox\//, "", $2); print layer, $2 }' glassbox.hpp
}

check_layering() {
  mapfile -t headers < <(all_headers)
  grep -nHE '^ *# *include *"' "${headers[@]}" | sed -E 's/^([^:]+):([0-9]+):.*"(.*)".*/\1 \2 \3/' | awk -v order="$(reading_order)" '
    function fail(reason) { print $1 ":" $2 ": includes " $3 ": " reason }
    BEGIN {
      count = split(order, lines, "\n")
      for (i = 1; i <= count; ++i) { split(lines[i], word, " "); layer[word[2]] = word[1]; place[word[2]] = i }
      may["L0"] = "L0"; may["L1"] = "L0 L1"; may["L2"] = "L0"; may["L3"] = "L0 L2 L3"; may["L4"] = "L0 L1 L2 L3 L4"
      # The kernels are chosen in one place; the numbers they read are part of the weights.
      named["weight.hpp kernels/stored_types.hpp"]; named["matmul.hpp kernels/products.hpp"]
      named["debugger/study_build.hpp kernels/products.hpp"]; named["debugger/study_build.hpp kernels/stored_types.hpp"]
    }
    {
      if ($3 !~ /^glassbox\//) { fail("write it from the root: \"glassbox/...\""); next }
      includer = $1; included = substr($3, 10)
      if (included == "glassbox.hpp") { fail("nothing includes the umbrella"); next }
      if (includer == "glassbox.hpp") { if (included ~ /\//) fail("the umbrella is the book only"); next }
      if ((includer " " included) in named) next
      from = includer; if (!sub(/\/.*/, "", from)) from = ""
      to = included; if (!sub(/\/.*/, "", to)) to = ""
      if (from == "kernels" && to != "kernels") { fail("kernels include kernels only"); next }
      if (from != "" && (to == "" || to == from)) next
      if (from != "") { fail("an appendix includes the book and its own folder"); next }
      if (to != "") { fail("the book includes no appendix, and kernels only in matmul.hpp"); next }
      if (!(included in layer)) { fail("which has no layer in glassbox.hpp"); next }
      if (!(includer in layer)) { fail("from a header that has no layer in glassbox.hpp"); next }
      if (index(may[layer[includer]], layer[included]) == 0)
        fail(layer[includer] " may include only " may[layer[includer]] ", this is " layer[included])
      else if (place[included] >= place[includer]) fail("which comes later in the reading order")
    }'
}

# What the headers include of others: Eigen/Core and the standard library in the book.
check_third_party() {
  local header allowed
  while read -r header; do
    case $header in
      text/sentencepiece_tokenizer.hpp) allowed='sentencepiece_processor\.h|[a-z_]+' ;;
      io/*) allowed='nlohmann/json\.hpp|Eigen/Core|(sys/mman|sys/stat|fcntl|unistd|windows|Windows)\.h|[a-z_]+' ;;
      kernels/*) allowed='[a-z_]+' ;;
      *) allowed='Eigen/Core|[a-z_]+' ;;
    esac
    grep -nE '^ *# *include *<' "$header" | grep -vE "<($allowed)>" |
      sed "s|^|$header:|; s|\$|   <- not among what this header may include|" || true
  done < <(all_headers)
}

# auto hides types, and with Eigen it keeps references to what is gone. Lambdas and structured bindings may.
check_auto() {
  mapfile -t headers < <(all_headers)
  code_lines "${headers[@]}" | grep -E '^[^:]+:[0-9]+:.*\bauto\b' |
    grep -vE '\bauto(&&|&)? *\[|\bauto [a-z_0-9]+ = \[' | sed 's|$|   <- write the type|' || true
}

check_ascii() {
  mapfile -t headers < <(all_headers)
  LC_ALL=C grep -nP '[^\x00-\x7F]|\r' "${headers[@]}" /dev/null | sed 's|$|   <- not ASCII|' || true
}

check_macros() {
  mapfile -t headers < <(all_headers | grep -v '^version\.hpp$')
  code_must_not_match ' *# *(define|undef)\b' 'macros are in version.hpp only' "${headers[@]}"
}

# Sizes of files come from the filesystem library: ftell counts in long, 32 bits wide on Windows.
check_file_positions() {
  mapfile -t headers < <(all_headers)
  code_must_not_match '.*\b(ftell|fseek|ftello|fseeko)\b' 'use std::filesystem::file_size' "${headers[@]}"
}

# Eigen objects that own memory differ with -march: only views of tensors may pass between units.
check_eigen_objects() {
  mapfile -t headers < <(book_headers | grep -v '^axis\.hpp$')
  code_must_not_match '.*(\b(Matrix|RowVector|Array|PlainObject)<|\.eval\(\)|\b(Matrix|Vector|RowVector)X[fdi]\b)' \
    'hold it in a Tensor, look at it by a view' "${headers[@]}"
  mapfile -t headers < <(all_headers | grep '^kernels/')
  code_must_not_match '.*\bEigen\b' 'kernels contain no Eigen' "${headers[@]}"
}

# The stage table is data, a row a stage, looked up and not read through: its length has no limit.
check_budgets() {
  local header lines
  while read -r header; do
    lines=$(wc -l < "$header")
    if ((lines > 200)); then echo "$header:$lines: $lines lines, at most 200 in a header of the book"; fi
  done < <(book_headers | grep -v '^stage_table\.hpp$')
  mapfile -t headers < <(all_headers)
  awk 'length($0) > 110 { print FILENAME ":" FNR ": " length($0) " columns, at most 110" }' "${headers[@]}"
  mapfile -t headers < <(book_headers)
  check_function_lengths "${headers[@]}"
}

# A function is a brace after parentheses outside any other function; clang-format keeps the rest regular.
check_function_lengths() {
  code_lines "$@" | awk '
    {
      split($0, part, ":"); file = part[1]; number = part[2]
      code = substr($0, length(file) + length(number) + 3)
      if (file != previous) { depth = 0; function_depth = -1; statement = ""; previous = file }
      if (code ~ /^ *#/) next
      for (i = 1; i <= length(code); ++i) {
        c = substr(code, i, 1)
        if (c == "{") {
          if (function_depth < 0 && statement ~ /\)[a-z ]*$/ && statement !~ /namespace/) {
            function_depth = depth; first = start; signature = statement
          }
          ++depth; statement = ""
        } else if (c == "}") {
          --depth; statement = ""
          if (depth == function_depth) {
            limit = signature ~ /[ :]forward\(/ ? 70 : 40
            if (number - first + 1 > limit)
              print file ":" first ": a function of " number - first + 1 " lines, at most " limit
            function_depth = -1
          }
        } else if (c == ";") { statement = "" }
        else {
          if (statement ~ /^ *$/ && c != " ") start = number
          statement = statement c
        }
      }
      statement = statement " "
    }'
}

# Each header of the book and of io/, text/ and kernels/ has its test; tests and examples are all built.
check_tests() {
  local header file name
  while read -r header; do
    case $header in glassbox.hpp | version.hpp | debugger/*) continue ;; esac
    name=$(basename "$header" .hpp)
    file=tests/$(dirname "$header")/test_$name.cpp
    [[ -e $root/$file ]] || echo "$header:1: has no test ${file//\/.\//\/}"
  done < <(all_headers)
  (cd "$root" && find tests -name 'test_*.cpp' | LC_ALL=C sort) | while read -r file; do
    name=$(basename "$file" .cpp)
    grep -qwF "${name#test_}" "$root/tests/CMakeLists.txt" || echo "tests/CMakeLists.txt:1: does not list $file"
  done
  (cd "$root/examples" && ls ./*.cpp) | while read -r file; do
    name=$(basename "$file" .cpp)
    grep -qE "add_glassbox_example\($name\b" "$root/examples/CMakeLists.txt" ||
      echo "examples/CMakeLists.txt:1: does not list examples/$name.cpp"
  done
}

# CMakeLists.txt lists the headers, glassbox.hpp the book: each exactly what is there.
check_lists() {
  local difference
  difference=$(diff <(all_headers) <(grep -oE '[a-z0-9_/]+\.hpp' "$root/CMakeLists.txt" |
    sed 's|^.*include/glassbox/||' | LC_ALL=C sort -u) || true)
  sed -n 's|^< |CMakeLists.txt:1: does not list include/glassbox/|p; s|^> |CMakeLists.txt:1: lists, but there is not, include/glassbox/|p' \
    <<< "$difference"
  difference=$(diff <(book_headers | grep -v '^glassbox\.hpp$') <(reading_order | cut -d' ' -f2 | LC_ALL=C sort) || true)
  sed -n 's|^< |glassbox.hpp:1: does not include |p; s|^> |glassbox.hpp:1: includes, but there is not, |p' <<< "$difference"
  grep -nE '^#include' glassbox.hpp | grep -vE '  // ' | sed 's|^|glassbox.hpp:|; s|$|   <- say beside it what it is|' || true
}

checks="layering third_party auto ascii macros file_positions eigen_objects budgets lists tests"
if [[ $# -lt 1 || " $checks " != *" $1 "* ]]; then
  echo "check_sources.sh CHECK [ROOT], where CHECK is one of: $checks" >&2
  exit 2
fi
violations=$("check_$1")
if [[ -n $violations ]]; then
  echo "$violations"
  exit 1
fi
