#!/bin/sh
# Runs every test in tests/ and says how many passed; exits 1 if one failed.
set -u
cd -- "$(dirname -- "$0")" || exit 1
passed=0
failed=0
for test in tests/*.sh; do
    if output=$(sh "$test" 2>&1); then
        passed=$((passed + 1))
        echo "ok      $test"
    else
        failed=$((failed + 1))
        echo "FAILED  $test"
        printf '%s\n' "$output" | sed 's/^/        /'
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
