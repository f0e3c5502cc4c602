# Adds up `category,cents` lines. Blank lines and lines that begin with # are left out.

function money(cents) {
    return sprintf("%d.%d", int(cents / 100), cents % 100)
}

BEGIN {
    FS = ","
}

/^[ \t]*(#|$)/ {
    next
}

NF != 2 || $2 !~ /^[0-9]+$/ {
    printf "line %d is not `category,cents`: %s\n", FNR, $0 | "cat 1>&2"
    bad = 1
    exit 1
}

{
    if (!($1 in total)) {
        order[++count] = $1
    }
    total[$1] += $2
    sum += $2
}

END {
    if (bad) {
        exit 1
    }
    for (i = 1; i <= count; i++) {
        printf "%-12s %10s\n", order[i], money(total[order[i]])
    }
    printf "%-12s %10s\n", "all", money(sum)
}
