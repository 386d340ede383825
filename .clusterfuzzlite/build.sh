#!/bin/bash -eu
# Builds every fuzz target into $OUT with its first inputs, its dictionary and its bounds. The table of targets is that of fuzz/nightly.sh.
cd "$SRC/touchstone"

# The programs, frames and documents of the specification's cases. Sanitizers are for the targets.
seeds=$PWD/target/seeds
env -u RUSTFLAGS cargo run --quiet --package tools -- seeds --out "$seeds"
cargo fuzz build --release --debug-assertions
built=fuzz/target/x86_64-unknown-linux-gnu/release

while read -r target dictionary inputs length; do
  [[ -n $target ]] || continue
  cp "$built/$target" "$OUT/"
  folders=()
  [[ $inputs == - || ! -d $seeds/$inputs ]] || folders+=("$seeds/$inputs")
  [[ ! -d fuzz/regressions/$target ]] || folders+=("fuzz/regressions/$target")
  if ((${#folders[@]})); then
    find "${folders[@]}" -type f -print0 | xargs -0 zip -q -j "$OUT/${target}_seed_corpus.zip"
  fi
  [[ $dictionary == - ]] || cp "fuzz/dictionaries/$dictionary.dict" "$OUT/$target.dict"
  # The evaluator measures the native stack by the addresses of locals; a fake stack would mislead it.
  printf '[libfuzzer]\nmax_len = %s\ntimeout = 60\nrss_limit_mb = 2048\n\n[asan]\ndetect_stack_use_after_return = 0\n' "$length" > "$OUT/$target.options"
done < <(fuzz/nightly.sh --table)
