#!/usr/bin/env bash
# Gates every run of a sweep against its blessed baseline: gate.sh SWEEP BASELINES DEVICE
#
# Exits with the first code that is not 0. A run without a baseline fails: nothing passes because nobody looked.
set -uo pipefail
sweep=$1 baselines=$2 device=$3
worst=0 found=0
while IFS= read -r verdict; do
    found=1
    run=$(dirname "$verdict")
    checkpoint=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["checkpoint"]["name"])' "$verdict")
    mapfile -t candidates < <(find "$baselines/$checkpoint/$device" -name '*.json' 2>/dev/null | sort)
    if [ ${#candidates[@]} -ne 1 ]; then
        echo "$run: ${#candidates[@]} baselines in $baselines/$checkpoint/$device, expected one; fidelity bless writes it" >&2
        code=2
    else
        fidelity gate "$run" --baseline "${candidates[0]}"
        code=$?
    fi
    [ "$worst" -ne 0 ] || worst=$code
done < <(find "$sweep" -name verdict.json | sort)
if [ "$found" -eq 0 ]; then
    echo "$sweep holds no verdict.json: nothing was compared" >&2
    exit 3
fi
exit "$worst"
