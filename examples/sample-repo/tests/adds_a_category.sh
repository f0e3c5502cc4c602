. ./tests/check.inc
expect 148.50 "$(printf 'food,8450\nrent,100\nfood,6400\n' | total food)"
