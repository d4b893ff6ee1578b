#!/usr/bin/env bash
# A training step here and with PyTorch, one after the other, three times: training_step.sh [THREADS]
# Wants an idle machine, g++, Eigen and Debian's python3-torch and libopenblas0-pthread.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
threads=${1:-2}
program=$(mktemp)
trap 'rm -f "$program"' EXIT
"${CXX:-g++}" -std=c++20 -O3 -march=native -w -pthread -I "$root/include" -I "$root/examples" \
  -isystem "${EIGEN:-/usr/include/eigen3}" "$here/training_step.cpp" -o "$program"
# OpenBLAS 0.3.21 takes new AVX-512 processors for old ones unless it is told.
if grep -q avx512f /proc/cpuinfo; then export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-SKYLAKEX}; fi
for _ in 1 2 3; do
  "$program" "$threads" 5 2> /dev/null
  /usr/bin/python3 "$here/training_step.py" "$threads" 5 2> /dev/null
done
