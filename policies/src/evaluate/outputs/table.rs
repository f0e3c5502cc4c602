//! Which programs write what, as one table; lists are words between blanks.

/// Which operands are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    None,
    All,
    /// All but the first `n`.
    After(usize),
    /// All but the first `n`, if they are protected names.
    Maybe(usize),
    /// The first.
    First,
    /// The last.
    Last,
    /// The last of at least two; what is put there keeps its name.
    Into,
}

/// How a program is told what it writes.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) names: &'static str,
    /// The subcommands that this row is about; empty for any.
    pub(super) sub: &'static str,
    /// Options whose value is written: `-o`, `--output`, `-out`, `of=`.
    pub(super) options: &'static str,
    pub(super) operands: Operands,
    /// One of these options must stand for the operands to be written.
    pub(super) only_with: &'static str,
}

const fn row(names: &'static str, options: &'static str, operands: Operands) -> Writer {
    Writer {
        names,
        sub: "",
        options,
        operands,
        only_with: "",
    }
}

const fn git(sub: &'static str, options: &'static str, operands: Operands) -> Writer {
    Writer {
        names: "git",
        sub,
        options,
        operands,
        only_with: "",
    }
}

const fn in_place(names: &'static str, only_with: &'static str) -> Writer {
    Writer {
        names,
        sub: "",
        options: "",
        operands: Operands::All,
        only_with,
    }
}

use Operands::{After, All, First, Into, Last, Maybe, None as No};

pub(super) const WRITERS: &[Writer] = &[
    row(
        "cp mv install gcp gmv ginstall",
        "-t --target-directory",
        Into,
    ),
    row("ln gln link", "-t --target-directory", Into),
    // Who writes to a link writes to what it names.
    row("ln gln link", "", Maybe(0)),
    row("rsync", "--log-file --backup-dir --write-batch", Into),
    row("scp", "", Into),
    row(
        "rm unlink rmdir shred tee touch truncate mkdir mkfifo fallocate sponge dos2unix unix2dos trash",
        "",
        All,
    ),
    row("mv", "", All),
    row("chmod chown chgrp setfacl mknod chattr", "", All),
    row("dd", "of=", No),
    row("sort gsort", "-o --output", No),
    row("uniq", "", After(1)),
    row(
        "tree iconv xmllint pandoc dot bison flex tcc age gpg gpg2 strace ltrace time gtime jc ffuf nmap base64 jpegoptim sassc m4 cbindgen bindgen ld as nasm yasm gfortran gcc g++ cc c++ clang clang++ rustc ghc ocamlfind swiftc zstd lz4 less",
        "-o --output",
        No,
    ),
    row(
        "curl",
        "-o --output --output-dir -D --dump-header -c --cookie-jar --trace --trace-ascii --stderr --etag-save --libcurl --hsts --alt-svc",
        No,
    ),
    row(
        "wget wget2",
        "-O --output-document -P --directory-prefix -o --output-file -a --append-output --save-cookies --warc-file",
        No,
    ),
    row("aria2c", "-o --out -d --dir -l --log", No),
    row("find gfind bfs", "-fprint -fprint0 -fls -fprintf", No),
    row("go", "-o -coverprofile -cpuprofile -memprofile -trace", No),
    row("openssl", "-out -keyout -writerand -CAserial", No),
    row(
        "patch",
        "-o --output -r --reject-file -d --directory",
        Operands::All,
    ),
    row("xxd", "", After(1)),
    row("split gsplit", "", After(1)),
    row("csplit", "-f --prefix", No),
    row("unzip", "-d", No),
    row("7z 7za 7zr", "-o", No),
    row("unrar", "", After(2)),
    row("cpio", "-D --directory -O -F --file", No),
    row("zip", "-O --output-file", No),
    row("gzip gunzip bzip2 bunzip2 xz unxz unzstd", "", All),
    row("objcopy strip convert magick", "-o", After(1)),
    row("ffmpeg tcpdump tshark", "-w", No),
    row("ssh-keygen", "-f", No),
    row("script", "-O --log-out -T --log-timing -I -B", All),
    row(
        "pip pip3",
        "-t --target -d --dest --log --prefix --root",
        No,
    ),
    row("npm pnpm yarn", "--prefix --dir --cwd", No),
    row("cargo", "--target-dir --out-dir --root", No),
    row("docker podman", "--iidfile --cidfile --metadata-file", No),
    row("tar gtar bsdtar", "-C --directory --index-file", No),
    row("sqlite3", "", Maybe(0)),
    row("ffmpeg", "", Last),
    row("zip", "", First),
    git(
        "diff log show whatchanged range-diff diff-tree diff-files diff-index stash format-patch archive",
        "--output",
        No,
    ),
    git("format-patch", "-o --output-directory", No),
    git("archive", "-o", No),
    git("bundle", "", After(2)),
    git("apply am", "--directory", No),
    git("config", "-f --file", No),
    git("worktree", "", Maybe(2)),
    git("clone init", "--separate-git-dir", Maybe(1)),
    git("submodule", "", Maybe(2)),
    git("mv rm", "", After(1)),
    git("bugreport diagnose", "-o --output-directory", No),
    git("fast-export", "--export-marks", No),
    in_place("sed gsed", "-i --in-place"),
    in_place("perl ruby", "-i"),
    in_place("jq gojq", "-i --in-place"),
    in_place("yq dasel xmlstarlet", "-i --inplace --in-place"),
    in_place(
        "clang-format autopep8 shfmt taplo",
        "-i -w --in-place --write",
    ),
    in_place("gofmt goimports", "-w"),
    in_place("prettier biome dprint", "-w --write"),
    in_place(
        "eslint stylelint markdownlint markdownlint-cli2 rubocop",
        "--fix -a -A",
    ),
];

/// Programs that look at what they name, or only speak of it; the rows above stay.
pub(super) const LOOKS: &str = "\
    cat tac nl head tail less more bat batcat view grep egrep fgrep zgrep rg ag ack ls ll exa \
    eza lsd tree stat file wc du df diff colordiff delta cmp comm sort uniq cut tr paste join \
    column fold fmt od xxd hexdump strings md5sum sha1sum sha256sum sha512sum b2sum cksum base64 \
    jq gojq yq dasel sed gsed awk gawk mawk echo printf test [ [[ true false : cd pushd popd \
    export declare typeset local readonly unset alias read mapfile readarray type which command \
    hash pwd set shift return exit let basename dirname realpath readlink";

/// Programs that take no name of a file as one to write, though they run much else; the rows stay.
pub(super) const READERS: &str = "\
    find gfind fd fdfind source . git gh glab hub actionlint yamllint shellcheck hadolint zizmor \
    markdownlint markdownlint-cli2 eslint stylelint prettier biome dprint rubocop vale codespell \
    typos check-jsonschema ajv taplo kubeconform kubeval pytest jest vitest mocha tox cargo go \
    make gmake cmake ninja just act pre-commit docker podman docker-compose kubectl helm \
    terraform tofu npm pnpm yarn bun pip pip3 uv poetry tar gtar bsdtar cloc tokei scc code wait \
    kill sleep seq date env printenv devcontainer curl gpg openssl ctags watchexec entr xmllint \
    pandoc gitleaks trivy semgrep shfmt clang-format";

/// Subcommands of git that leave the files that they name as they are.
pub(super) const GIT_LOOKS: &str = "\
    add commit diff log show status blame annotate grep ls-files ls-tree cat-file check-ignore check-attr \
    diff-tree diff-files diff-index hash-object shortlog whatchanged rev-list rev-parse push fetch";

/// Whether a list of the table holds a word.
pub(super) fn holds(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}
