#!/usr/bin/env bash
# The study build keeps its promise: gdb stops on statements of the book, on that very line, and every local and
# argument of the function can be read. Usage: study_build.sh FOLDER (scratch); compiler $CXX (default g++). Skips
# (77) where gdb is absent or may not run a program.
#
# Faults that must turn it red: no pragma in study_build.hpp; -Og or -O3 without it; an include of a book header
# above its pragma.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
include=${GLASSBOX_INCLUDE:-$root/include}
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
read -ra flags <<< "${STUDY_FLAGS:--O3 -march=native -include glassbox/debugger/study_build.hpp}"

skip() { echo "skipped: $*"; exit 77; }
command -v gdb > /dev/null || skip "gdb is not there"

"${CXX:-g++}" -std=c++20 -g -I "$include" -I "$root/tests" -isystem "${EIGEN_INCLUDE_DIR:-/usr/include/eigen3}" \
  "${flags[@]}" "$here/study_build.cpp" -o "$folder/program"
"$folder/program" > /dev/null

gdb_batch() {
  gdb -nx -batch -ex 'set disable-randomization off' -ex 'set startup-with-shell off' -ex 'set width 0' \
    -ex 'set style enabled off' -ex 'set print elements 4' -ex 'set print max-depth 1' "$@" "$folder/program" 2>&1
}
gdb_batch -ex 'break main' -ex run > "$folder/gdb_works" || true
grep -q 'Breakpoint 1, main' "$folder/gdb_works" || skip "gdb cannot run a program here: $(tail -1 "$folder/gdb_works")"

# stop_at HEADER TEXT NAME...: the first line of the header with this text stops, and each name has a value.
stop_at() {
  local header=$1 text=$2 line name
  shift 2
  line=$(grep -nF -m 1 "$text" "$include/glassbox/$header" | cut -d: -f1 || true)
  [[ -n $line ]] || { echo "$header has no line with: $text"; exit 1; }
  gdb_batch -ex "tbreak $header:$line" -ex run -ex 'info args' -ex 'info locals' > "$folder/session" || true
  local complaint=""
  grep -qE "^Temporary breakpoint 1, .* at .*$header:$line\$" "$folder/session" || complaint="does not stop there"
  if grep -q 'optimized out' "$folder/session"; then complaint="values are optimized out"; fi
  for name in "$@"; do
    grep -qE "^$name = " "$folder/session" || complaint="no value of $name"
  done
  if [[ -n $complaint ]]; then
    cat "$folder/session"
    echo "$header:$line ($text): $complaint"
    exit 1
  fi
  echo "$header:$line: stops, all values readable"
}

stop_at rms_norm.hpp 'normalized.row(r) = x.row(r)' x inverse_rms normalized r
stop_at rms_norm.hpp 'output = loops::scale_features(' this hidden_states mean_square inverse_rms normalized
stop_at attention.hpp 'stage("scores"' this hidden_states cos sin additive_mask cache q_proj_output query_states scores
stop_at attention.hpp 'return attn_output' this hidden_states scores masked_scores attn_weights context merged_heads attn_output
stop_at attention.hpp 'scores.matrix(batch, head) *= scaling' query_states scores scaling batch head kv_head query key
stop_at mlp.hpp 'return down_proj_output' this hidden_states gate_proj_output activated gated down_proj_output
stop_at causal_lm.hpp 'stage("logits"' this input_ids attention_mask cache hidden_states kept_states logits
