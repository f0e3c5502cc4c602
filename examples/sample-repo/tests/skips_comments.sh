. ./tests/check.inc
expect 1.50 "$(printf '# a note\n\nfood,150\n' | total all)"
