. ./tests/check.inc
expect 12.05 "$(printf 'travel,1205\n' | total travel)"
