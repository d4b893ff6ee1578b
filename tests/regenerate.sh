#!/bin/sh
# Writes anew every expected value that depends on the embedded model or on what the examples print:
# examples/expected/*.txt. To be run after the model, an example or the stage table has changed; look at
# `git diff examples/expected` before committing.
#
#   tests/regenerate.sh [FOLDER WITH THE BUILT EXAMPLES]      default: build/release/examples, else build/debug/examples
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
programs=${1:-}
for preset in release debug; do
  if [ -z "$programs" ] && [ -x "$root/build/$preset/examples/walk" ]; then
    programs=$root/build/$preset/examples
  fi
done
if [ -z "$programs" ] || [ ! -x "$programs/walk" ]; then
  echo "regenerate.sh: no built examples found; build them by" >&2
  echo "  cmake --preset release && cmake --build --preset release" >&2
  echo "or name their folder: tests/regenerate.sh build/debug/examples" >&2
  exit 1
fi

expected=$root/examples/expected
mkdir -p "$expected"
# write NAME PROGRAM ARGUMENTS...: NAME.txt is replaced only when the program succeeded.
write() {
  name=$1
  program=$2
  shift 2
  if ! "$programs/$program" "$@" > "$expected/$name.txt.new"; then
    rm -f "$expected/$name.txt.new"
    echo "regenerate.sh: $program failed" >&2
    exit 1
  fi
  mv "$expected/$name.txt.new" "$expected/$name.txt"
  echo "examples/expected/$name.txt"
}

for source in "$root"/examples/[01][0-9]_*.cpp; do
  name=$(basename "$source" .cpp)
  write "$name" "$name"
done
write walk walk
write walk_chinese walk --prompt 从前，有一只 --stage attn_weights --full
write walk_ids walk "$root/tests/reference/tiny-llama-mha" --ids 1,5,9 --layer 1
