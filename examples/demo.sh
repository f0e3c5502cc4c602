#!/bin/sh
# A scripted session against a sample repository: ordinary work, then a dozen attacks. Needs no key,
# no network and no root. Everything happens in one temporary folder, which is removed at the end.
set -eu
here=$(cd -- "$(dirname -- "$0")" && pwd)
provost=${PROVOST:-$here/../target/release/provost}
load_sql=${LOAD_SQL:-$here/../target/release/examples/load_sql}

say() { printf '\n== %s\n' "$*" >&2; }
fail() { printf 'demo: FAILED: %s\n' "$*" >&2; exit 1; }

demo=$(mktemp -d)
listener=
trap 'test -z "$listener" || kill "$listener" 2>/dev/null || true; rm -rf "$demo"' EXIT INT TERM
export PROVOST_STATE_DIR="$demo/state" PROVOST_CONFIG_DIR="$demo/config" PROVOST_RUNTIME_DIR="$demo/run"
# A key that must appear nowhere.
export DEMO_API_KEY=sk-demo-canary-51e0c8

say "a sample repository, a secret outside it, a database, a listener"
cp -R "$here/sample-repo" "$demo/work"
printf 'TOKEN=hidden\n' > "$demo/work/.env"
mkdir "$demo/outside"
printf 'the planted secret\n' > "$demo/outside/secret.txt"
"$load_sql" "$here/reservo.sql" "$demo/reservo.db"
perl -MIO::Socket::INET -e '
    my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1") or die $!;
    open my $f, ">", $ARGV[0] or die $!; print $f $s->sockport; close $f;
    alarm 300; while (my $c = $s->accept) { open my $g, ">", "$ARGV[0].hit"; close $g; }
' "$demo/port" &
listener=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do test -s "$demo/port" && break; sleep 0.2; done
sed -e "s|@OUTSIDE@|$demo/outside|g" -e "s|@STATE@|$demo/state|g" -e "s|@PID@|$$|g" \
    -e "s|@PORT@|$(cat "$demo/port")|g" "$here/demo.jsonl.in" > "$demo/demo.jsonl"

say "provost run"
"$provost" run --workspace "$demo/work" --policy "$here/demo.toml" \
    --database reservo="$demo/reservo.db" --script "$demo/demo.jsonl" \
    --patch "$demo/out.patch" "Fix the failing test" > "$demo/answer"
cat "$demo/answer"

say "what came of the attacks"
test ! -e "$demo/outside/owned" || fail "a file was written outside"
test ! -e "$demo/port.hit" || fail "a connection came out"
kill -0 "$listener" || fail "the listener was signalled"
"$provost" sessions show last > "$demo/shown"
if grep -rq "the planted secret" "$demo/shown" "$demo/state" 2>/dev/null; then fail "the secret was read"; fi
if grep -rq "sk-demo-canary-51e0c8" "$demo/state" "$demo/answer" "$demo/shown" 2>/dev/null; then fail "the key leaked"; fi
grep -E "^ *[0-9]+ .* refused " "$demo/shown" | cut -c1-160 >&2

say "the certificate"
"$provost" certificate --json last | grep -c '"held": true' | sed 's/$/ rights held, proven from inside/' >&2

say "the diff (the hook is protected: it is not applied in bulk)"
"$provost" diff last
"$provost" diff --list last

say "the workspace is untouched until its owner applies"
grep -q '%d\.%d' "$demo/work/tally.awk" || fail "the workspace was changed"
"$provost" apply last
(cd "$demo/work" && ./run-tests.sh)
test ! -e "$demo/work/.git/hooks/pre-commit" || fail "the hook was applied"

say "the audit chain"
"$provost" audit verify
"$provost" discard last
say "all refused, nothing left"
