#!/usr/bin/env bash
# Gates every run of a sweep against its blessed baseline in reports/baselines: gate.sh SWEEP
#
# Exits with the first code that is not 0. A run without a baseline is refused: nothing passes because nobody looked.
set -uo pipefail
sweep=$1 worst=0 found=0
while IFS= read -r verdict; do
    found=1
    fidelity gate "$(dirname "$verdict")"
    code=$?
    [ "$worst" -ne 0 ] || worst=$code
done < <(find "$sweep" -name verdict.json | sort)
if [ "$found" -eq 0 ]; then
    echo "$sweep holds no verdict.json: nothing was compared" >&2
    exit 3
fi
exit "$worst"
