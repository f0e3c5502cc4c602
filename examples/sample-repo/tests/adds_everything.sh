. ./tests/check.inc
expect 1375.10 "$(grep -v books data/march.csv | total all)"
