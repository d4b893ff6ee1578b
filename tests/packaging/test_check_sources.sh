#!/usr/bin/env bash
# check_sources.sh notices what it is for: faults are planted one by one in a copy of the headers, and each
# must be reported, with its file. Usage: test_check_sources.sh FOLDER (scratch)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
planted=0

rm -rf "$folder/sources"
mkdir "$folder/sources"
cp -r "$root/include" "$root/CMakeLists.txt" "$folder/sources/"
(cd "$root" && find tests examples \( -name '*.cpp' -o -name CMakeLists.txt \) -print | tar -cf - -T -) |
  tar -xf - -C "$folder/sources"

restore() {
  rm -rf "$folder/copy"
  cp -r "$folder/sources" "$folder/copy"
}

# must_report CHECK PATTERN: the copy has a fault; the report has a line that matches PATTERN.
must_report() {
  if "$here/check_sources.sh" "$1" "$folder/copy" > "$folder/report"; then
    echo "the check $1 did not notice: $2"
    exit 1
  fi
  if ! grep -qE "$2" "$folder/report"; then
    cat "$folder/report"
    echo "the check $1 reported something else than: $2"
    exit 1
  fi
  planted=$((planted + 1))
  restore
}

# must_accept CHECK: what is planted is allowed.
must_accept() {
  if ! "$here/check_sources.sh" "$1" "$folder/copy"; then
    echo "the check $1 objects to what is allowed"
    exit 1
  fi
  restore
}

# plant HEADER LINE: appends a line.
plant() { echo "$2" >> "$folder/copy/include/glassbox/$1"; }

restore
plant softmax.hpp '#include "glassbox/linear.hpp"'
must_report layering '^softmax\.hpp:[0-9]+: includes glassbox/linear\.hpp: L2 may include only L0'
plant rms_norm.hpp '#include "glassbox/attention.hpp"'
must_report layering '^rms_norm\.hpp:.*comes later in the reading order'
plant linear.hpp '#include "glassbox/glassbox.hpp"'
must_report layering '^linear\.hpp:.*nothing includes the umbrella'
plant attention.hpp '#include "glassbox/kernels/products.hpp"'
must_report layering '^attention\.hpp:.*kernels only in matmul\.hpp'
plant generate.hpp '#include "glassbox/io/json.hpp"'
must_report layering '^generate\.hpp:.*includes no appendix'
plant glassbox.hpp '#include "glassbox/io/json.hpp"  // files'
must_report layering '^glassbox\.hpp:.*the umbrella is the book only'
plant kernels/products.hpp '#include "glassbox/tensor.hpp"'
must_report layering '^kernels/products\.hpp:.*kernels include kernels only'
plant io/json.hpp '#include "glassbox/text/sentencepiece_model.hpp"'
must_report layering '^io/json\.hpp:.*its own folder'
plant mlp.hpp '#include "activation.hpp"'
must_report layering '^mlp\.hpp:.*write it from the root'

plant check.hpp '#include <nlohmann/json.hpp>'
must_report third_party '^check\.hpp:.*nlohmann'
plant tensor.hpp '#include <Eigen/Dense>'
must_report third_party '^tensor\.hpp:.*Eigen/Dense'
plant kernels/products.hpp '#include <Eigen/Core>'
must_report third_party '^kernels/products\.hpp:'
plant io/mapped_file.hpp '#include <sentencepiece_processor.h>'
must_report third_party '^io/mapped_file\.hpp:'

plant mlp.hpp 'inline int f() { auto x = 1; return x; }'
must_report auto '^mlp\.hpp:.*write the type'
plant io/npy.hpp 'inline int f(auto x) { return x; }'
must_report auto '^io/npy\.hpp:'
plant mlp.hpp 'inline int f() { const auto [a, b] = pair(); const auto twice = [](int x) { return 2 * x; }; }  // auto'
must_accept auto

plant mlp.hpp "// sch$(printf '\xc3\xb6')n"
must_report ascii '^mlp\.hpp:'
plant mlp.hpp '#define GLASSBOX_FAST 1'
must_report macros '^mlp\.hpp:'
plant io/npy.hpp 'inline long f(FILE* file) { return std::ftell(file); }'
must_report file_positions '^io/npy\.hpp:'

plant attention.hpp 'inline void f() { const Matrix<float> scores; }'
must_report eigen_objects '^attention\.hpp:'
plant softmax.hpp 'inline void f() { g((a * b).eval()); }'
must_report eigen_objects '^softmax\.hpp:'
plant kernels/products.hpp 'inline void f(Eigen::Index i);'
must_report eigen_objects '^kernels/products\.hpp:'
plant softmax.hpp 'inline void f(const ConstMatrixView<float>& view);  // a Matrix<float> inside a tensor'
must_accept eigen_objects

for _ in {1..201}; do plant mlp.hpp '//'; done
must_report budgets '^mlp\.hpp:[0-9]+: [0-9]+ lines, at most 200'
plant io/npy.hpp "// $(printf 'x%.0s' {1..110})"
must_report budgets '^io/npy\.hpp:[0-9]+: 113 columns'
plant mlp.hpp 'inline int long_one(int a) {'
for _ in {1..40}; do plant mlp.hpp '  ++a;'; done
plant mlp.hpp '}'
must_report budgets '^mlp\.hpp:[0-9]+: a function of 42 lines, at most 40'

plant new_header.hpp '#pragma once'
must_report lists '^CMakeLists\.txt:1: does not list include/glassbox/new_header\.hpp'
plant new_header.hpp '#pragma once'
must_report lists '^glassbox\.hpp:1: does not include new_header\.hpp'
rm "$folder/copy/include/glassbox/io/npy.hpp"
must_report lists '^CMakeLists\.txt:1: lists, but there is not, include/glassbox/io/npy\.hpp'
sed -i 's|^\(#include "glassbox/mlp.hpp"\).*|\1|' "$folder/copy/include/glassbox/glassbox.hpp"
must_report lists '^glassbox\.hpp:[0-9]+:.*say beside it what it is'

rm "$folder/copy/tests/test_rms_norm.cpp"
must_report tests '^rms_norm\.hpp:1: has no test tests/test_rms_norm\.cpp'
touch "$folder/copy/tests/io/test_new_format.cpp"
must_report tests 'tests/CMakeLists\.txt:1: does not list tests/io/test_new_format\.cpp'
touch "$folder/copy/examples/13_training.cpp"
must_report tests 'examples/CMakeLists\.txt:1: does not list examples/13_training\.cpp'

echo "$planted planted faults, each reported"
