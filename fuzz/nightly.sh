#!/usr/bin/env bash
# Runs every fuzz target for a set time and writes a summary to fuzz/artifacts/summary.md. What it finds is minimised and filed: the
# input below fuzz/regressions/, where `cargo test -p tools` tries it from then on, and what it showed in fuzz/artifacts/findings.md,
# with the beginning of a case. Exit status 1 when something was found, or when the canary stays silent.
#
#   fuzz/nightly.sh                    every target, FUZZ_SECONDS (600) each, FUZZ_JOBS (as many as processors) at the same time
#   fuzz/nightly.sh reader eval        only these
#   fuzz/nightly.sh --table            no run: the targets, one a line, with their dictionaries, seeds and longest inputs
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-600}
jobs=${FUZZ_JOBS:-$(nproc)}
artifacts=fuzz/artifacts
summary=$artifacts/summary.md
findings=$artifacts/findings.md
# The evaluator measures the native stack by the addresses of locals; a fake stack would mislead it.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=0}
# One input may take so long, in seconds, and so much, in megabytes. Many jobs on few processors make every input slow.
bounds=(-timeout=60 -rss_limit_mb=2048)

# target, dictionary, seeds below fuzz/corpus/seeds/, longest input in bytes
table="
reader      lang       programs    512
program     lang       programs    2048
eval        -          -           512
hostile     -          -           256
print_read  -          -           512
snapshot    -          -           1024
snapshots   -          -           4096
json        json       values      4096
judge       json       values      4096
signature   signature  signatures  1024
schema      schema     schemas     4096
frames      rpc        frames      4096
http        http       http        4096
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

# Other drivers of the same targets read the table.
if [[ ${1-} == --table ]]; then
  sed '/^$/d' <<< "$table"
  exit
fi

# Whether an input that was found before still fails.
still_fails() { # target, input
  ! "$built/$1" "${bounds[@]}" "$2" > /dev/null 2>&1
}

# Fuzzes one target; its row of the summary and its findings stand below its artifacts then.
attack() { # target, dictionary, seeds, length
  local target=$1 dictionary=$2 seeds=$3 length=$4
  local own=$artifacts/$target corpus=fuzz/corpus/$target known=fuzz/regressions/$target
  local log=$own/log.txt finding status=0 found=0
  mkdir -p "$own" "$corpus"
  rm -f "$own/row.txt" "$own/findings.md"
  # What an earlier run found counts until it is repaired.
  for finding in "$own"/{crash,oom,timeout,leak,minimized}-*; do
    if [[ -f $finding ]] && ! still_fails "$target" "$finding"; then rm -f "$finding"; fi
  done
  local folders=("$corpus")
  [[ $seeds == - || ! -d fuzz/corpus/seeds/$seeds ]] || folders+=("fuzz/corpus/seeds/$seeds")
  [[ ! -d $known ]] || folders+=("$known")
  local options=("${bounds[@]}" -max_total_time="$seconds" -max_len="$length" -print_final_stats=1 -artifact_prefix="$own/")
  [[ $dictionary == - ]] || options+=(-dict="fuzz/dictionaries/$dictionary.dict")
  "$built/$target" "${folders[@]}" "${options[@]}" > "$log" 2>&1 || status=$?
  local runs speed covered
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
  speed=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log" | tail -n 1)
  covered=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  for finding in "$own"/{crash,oom,timeout,leak}-*; do
    [[ -f $finding ]] || continue
    # A time that other processes took is nobody's fault.
    if ! still_fails "$target" "$finding"; then rm -f "$finding"; status=0; continue; fi
    found=$((found + 1))
    file_finding "$target" "$finding"
  done
  if ((status != 0 && found == 0)); then found="exit status $status"; fi
  if [[ $found == 0 && ! ${runs:-0} =~ [1-9] ]]; then found="tried nothing"; fi
  [[ $found == 0 ]] || tail -n 40 "$log" >&2
  printf '| %s | %s | %s | %s | %s |\n' "$target" "${runs:-?}" "${speed:-?}" "${covered:-?}" "$found" > "$own/row.txt"
  cat "$own/row.txt"
}

# Minimises a finding, keeps it as an input of the tests on stable, and says what it showed.
file_finding() { # target, finding
  local target=$1 finding=$2 own=$artifacts/$1
  local smaller=$own/minimized-from-${finding##*/} kept
  # A finding that can't be made smaller stays as it is.
  timeout 300 "$built/$target" "${bounds[@]}" -minimize_crash=1 -runs=5000 -exact_artifact_path="$smaller" "$finding" > "$own/minimize.txt" 2>&1 || true
  [[ -s $smaller ]] && ! still_fails "$target" "$smaller" && rm -f "$smaller"
  [[ -s $smaller ]] || smaller=$finding
  mkdir -p "fuzz/regressions/$target"
  kept=fuzz/regressions/$target/$(sha256sum < "$smaller" | cut -c 1-12)
  cp "$smaller" "$kept"
  {
    printf '## %s: %s\n\n' "$target" "$kept"
    printf 'Again: `cargo +nightly fuzz run %s %s`, or on stable `cargo test -p tools --test regressions`.\n\n```text\n' "$target" "$kept"
    "$built/$target" "${bounds[@]}" "$kept" 2>&1 | grep -m 1 -A 3 -E 'panicked at|ERROR: ' || true
    printf '```\n\n'
    case $target in
      reader | program) printf 'The case, once it is clear what it must give:\n\n```clj\n%s ;=> …\n```\n\n' "$(cat "$kept")" ;;
      *) printf 'The input:\n\n```text\n%s\n```\n\n' "$(xxd "$kept" | head -n 64)" ;;
    esac
  } > "$own/findings.md.part"
  cat "$own/findings.md.part" >> "$own/findings.md"
  rm -f "$own/findings.md.part"
}

chosen=" $* "
for name in "$@"; do
  grep -q "^$name " <<< "$table" || { echo "no fuzz target is called $name; fuzz/nightly.sh --table lists them" >&2; exit 2; }
done
wanted() { [[ $chosen == "  " || $chosen == *" $1 "* ]]; }
mkdir -p "$artifacts"
# What the specification's cases send makes the first corpus; it is derived, so it is not kept in the repository.
rm -rf fuzz/corpus/seeds
cargo tool seeds --out fuzz/corpus/seeds
cargo +nightly fuzz build
# The executables themselves are run: cargo looks at every source file each time it is asked.
built=fuzz/target/$(rustc +nightly -vV | sed -n 's/^host: //p')/release

while read -r target dictionary seeds length; do
  [[ -n $target ]] && wanted "$target" || continue
  rm -f "$artifacts/$target/row.txt"
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
  attack "$target" "$dictionary" "$seeds" "$length" &
done <<< "$table"
wait

failed=0
printf '| Target | Inputs | Inputs/s | Coverage | Findings |\n|---|--:|--:|--:|--:|\n' > "$summary"
: > "$findings"
while read -r target _; do
  [[ -n $target ]] && wanted "$target" || continue
  # A target without a row did not even run.
  if [[ -f $artifacts/$target/row.txt ]]; then cat "$artifacts/$target/row.txt" >> "$summary"; else echo "| $target | | | | did not run |" >> "$summary"; fi
  tail -n 1 "$summary" | grep -q '| 0 |$' || failed=1
  [[ ! -f $artifacts/$target/findings.md ]] || cat "$artifacts/$target/findings.md" >> "$findings"
done <<< "$table"

# A fuzzer that finds nothing where something is to be found proves nothing.
if [[ $chosen == "  " ]]; then
  mkdir -p "$artifacts/canary" fuzz/corpus/canary
  rm -f "$artifacts"/canary/crash-*
  # One that doesn't even start is silent, too.
  if ! "$built/canary" fuzz/corpus/canary -max_total_time=60 -artifact_prefix="$artifacts/canary/" > "$artifacts/canary/log.txt" 2>&1 \
    && compgen -G "$artifacts/canary/crash-*" > /dev/null; then
    echo '| canary | | | | found, as it must be |' >> "$summary"
  else
    echo '| canary | | | | silent |' >> "$summary"
    failed=1
  fi
  rm -f "$artifacts"/canary/crash-*
fi
cat "$summary"
exit "$failed"
