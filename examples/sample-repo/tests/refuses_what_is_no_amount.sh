. ./tests/check.inc
printf 'food,much\n' | ./tally - >/dev/null 2>&1
expect 1 "$?"
