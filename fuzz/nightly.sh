#!/usr/bin/env bash
# Runs every fuzz target for a set time and prints a summary. Findings are minimised and kept in fuzz/artifacts/;
# exit status 1 when there is one, or when the canary stays silent.
#
#   fuzz/nightly.sh                    every target, FUZZ_SECONDS (600) each
#   fuzz/nightly.sh reader eval        only these
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-600}
artifacts=fuzz/artifacts
# The evaluator measures the native stack by the addresses of locals; a fake stack would mislead it.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=0}
summary=$artifacts/summary.md

# target, dictionary, seeds below fuzz/seeds/ or fuzz/corpus/, longest input in bytes
table="
reader      lang       programs    4096
program     lang       programs    2048
eval        -          -           512
print_read  -          -           512
json        json       values      4096
judge       json       values      4096
signature   signature  signatures  1024
schema      schema     schemas     4096
frames      rpc        frames      4096
http        http       http        1024
openapi     openapi    openapi     8192
config      config     configs     4096
labels      schema     schemas     4096
tools       schema     schemas     4096
answer      json       values      4096
sse         sse        sse         2048
redactor    -          -           2048
sessions    -          -           512
fixture     fixture    fixtures    8192
"

if (($#)); then chosen=" $* "; else chosen=""; fi
mkdir -p "$artifacts"
# What the specification's cases send makes the first corpus; it is derived, so it is not kept in the repository.
cargo tool seeds --out fuzz/corpus/seeds
cargo +nightly fuzz build
# The executables themselves are run: cargo looks at every source file each time it is asked.
built=fuzz/target/$(rustc +nightly -vV | sed -n 's/^host: //p')/release

printf '| Target | Inputs | Inputs/s | Coverage | Findings |\n|---|---|---|---|---|\n' > "$summary"
failed=0
while read -r target dictionary seeds length; do
  [[ -n $target ]] || continue
  if [[ -n $chosen && $chosen != *" $target "* ]]; then continue; fi
  corpus=fuzz/corpus/$target
  mkdir -p "$corpus" "$artifacts/$target"
  folders=("$corpus")
  [[ $seeds == - || ! -d fuzz/corpus/seeds/$seeds ]] || folders+=("fuzz/corpus/seeds/$seeds")
  options=(-max_total_time="$seconds" -max_len="$length" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
    -artifact_prefix="$artifacts/$target/")
  [[ $dictionary == - ]] || options+=(-dict="fuzz/dictionaries/$dictionary.dict")
  log=$artifacts/$target/log.txt
  # What an earlier run found counts until it is repaired.
  for finding in "$artifacts/$target"/{crash,oom,timeout,leak,minimized}-*; do
    if [[ -f $finding ]] && "$built/$target" -timeout=10 -rss_limit_mb=2048 "$finding" > /dev/null 2>&1; then rm -f "$finding"; fi
  done
  status=0
  "$built/$target" "${folders[@]}" "${options[@]}" > "$log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
  speed=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log" | tail -n 1)
  covered=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  found=0
  for finding in "$artifacts/$target"/{crash,oom,timeout,leak}-*; do
    [[ -f $finding ]] || continue
    found=$((found + 1))
    # A finding that can't be made smaller stays as it is.
    smaller=$artifacts/$target/minimized-from-${finding##*/}
    "$built/$target" -minimize_crash=1 -runs=2000 -exact_artifact_path="$smaller" "$finding" >> "$log" 2>&1 || true
  done
  if ((status != 0 && found == 0)); then found="exit status $status"; fi
  [[ $found == 0 ]] || { failed=1; tail -n 40 "$log" >&2; }
  printf '| %s | %s | %s | %s | %s |\n' "$target" "${runs:-?}" "${speed:-?}" "${covered:-?}" "$found" | tee -a "$summary"
done <<< "$table"

# A fuzzer that finds nothing where something is to be found proves nothing.
if [[ -z $chosen ]]; then
  mkdir -p "$artifacts/canary" fuzz/corpus/canary
  if "$built/canary" fuzz/corpus/canary -max_total_time=60 -artifact_prefix="$artifacts/canary/" > "$artifacts/canary/log.txt" 2>&1; then
    echo '| canary | | | | silent |' | tee -a "$summary"
    failed=1
  else
    echo '| canary | | | | found, as it must be |' | tee -a "$summary"
  fi
  rm -f "$artifacts"/canary/crash-*
fi
exit "$failed"
