//! The accept-lists: program by program, the options that are known to read only.

/// How many operands a program may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// As many as there are: each is read.
    Any,
    /// At most so many; one more would be written.
    Most(usize),
}

/// One program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    /// Single letters without a value.
    pub(super) short: &'static str,
    /// Single letters with a value.
    pub(super) value: &'static str,
    /// Long options, with or without `=value`.
    pub(super) long: &'static str,
    /// Long options whose value may be the next word.
    pub(super) long_value: &'static str,
    /// Options that are one word behind one dash.
    pub(super) words: &'static str,
    /// Whether `-5` is a count.
    pub(super) digits: bool,
    pub(super) operands: Operands,
    /// Whether no option that exists writes or runs anything, so that any word will do.
    pub(super) open: bool,
    /// Whether options end at the first operand: what a wrapper starts stands in the reading for
    /// itself.
    pub(super) leading: bool,
}

impl Program {
    /// No option, any operand.
    pub(super) const NONE: Self = Self {
        short: "",
        value: "",
        long: "",
        long_value: "",
        words: "",
        digits: false,
        operands: Operands::Any,
        open: false,
        leading: false,
    };
}

const NONE: Program = Program::NONE;
const ANY: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// Anything: builtins and programs that only look at their words.
const WORDS: Program = Program {
    short: ANY,
    open: true,
    ..NONE
};

/// Programs whose `--version` is known to do nothing else.
pub(super) const VERSIONED: &str = "bash cargo cat cc clang cmake curl docker find gcc git go grep jq ls make node npm pip \
    pip3 python python3 rg rustc sed sort sqlite3 tar tree uv";

/// The entry of a program.
pub(super) fn find(name: &str) -> Option<&'static Program> {
    Some(match name {
        "true" | "false" | ":" | "pwd" | "echo" | "cd" | "basename" | "dirname" | "whoami"
        | "exit" | "type" | "which" | "nproc" | "sleep" => &WORDS,
        "test" | "[" => &TEST,
        "printf" => &PRINTF,
        "ls" => &LS,
        "cat" | "nl" | "tac" | "rev" => &CAT,
        "head" | "tail" => &HEAD,
        "wc" => &WC,
        "grep" | "egrep" | "fgrep" => &GREP,
        "rg" => &RG,
        "sort" => &SORT,
        "uniq" => &UNIQ,
        "cut" => &CUT,
        "tr" => &TR,
        "diff" => &DIFF,
        "cmp" | "comm" | "join" | "paste" => &COMPARE,
        "stat" | "readlink" | "realpath" | "df" | "du" => &STAT,
        "file" => &FILE,
        "id" | "uname" | "arch" | "groups" | "tty" => &ID,
        "printenv" => &PRINTENV,
        "env" => &ENV,
        "sha256sum" | "sha1sum" | "sha512sum" | "md5sum" | "b2sum" | "cksum" | "sum" => &SUM,
        "od" | "hexdump" | "strings" => &DUMP,
        "xxd" => &XXD,
        "column" | "fold" | "expand" | "seq" => &COLUMN,
        "tree" => &TREE,
        "ps" => &PS,
        "free" | "uptime" | "lscpu" | "lsblk" | "lsmem" | "vmstat" | "who" | "users" | "w"
        | "logname" | "locale" | "getconf" | "cal" | "factor" | "hostid" | "lsb_release" => {
            &MACHINE
        }
        "pgrep" | "pidof" | "lsof" => &PROCESSES,
        "nm" | "size" | "readelf" | "objdump" | "c++filt" => &BINARY,
        "base64" | "base32" => &ENCODE,
        "sha224sum" | "sha384sum" => &SUM,
        "expr" | "numfmt" | "tsort" | "fmt" | "pr" | "unexpand" | "look" | "dircolors" => &TEXT,
        "dpkg" => &DPKG,
        "dpkg-query" => &DPKG_QUERY,
        "rpm" => &RPM,
        "command" => &COMMAND,
        "timeout" => &TIMEOUT,
        "nice" => &NICE,
        "xargs" => &XARGS,
        _ => return None,
    })
}

const TEST: Program = Program {
    words: "-nt -ot -ef -eq -ne -lt -le -gt -ge",
    ..WORDS
};
/// `-v` sets a variable, and its name could be evaluated.
const PRINTF: Program = Program {
    leading: true,
    ..NONE
};
const LS: Program = Program {
    short: "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
    value: "ITw",
    long: "all almost-all author escape color directory classify file-type format full-time \
            group-directories-first no-group human-readable si dereference inode \
            numeric-uid-gid literal hide-control-chars quote-name reverse recursive size sort \
            time time-style width zero help",
    long_value: "hide ignore block-size",
    open: true,
    ..NONE
};
const CAT: Program = Program {
    short: "AbeEnstTuvpr",
    value: "dfhilNwv",
    long: "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting \
            body-numbering before regex separator help",
    open: true,
    ..NONE
};
const HEAD: Program = Program {
    short: "qvzfFr",
    value: "cns",
    long: "quiet silent verbose zero-terminated follow retry help",
    long_value: "bytes lines pid sleep-interval max-unchanged-stats",
    digits: true,
    open: true,
    ..NONE
};
const WC: Program = Program {
    short: "clLmw",
    long: "bytes chars lines max-line-length words total help files0-from",
    open: true,
    ..NONE
};
const GREP: Program = Program {
    short: "EFGPivwxcLlqsobHhnTZarRIUzuy",
    value: "efmABCdD",
    long: "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case \
            invert-match word-regexp line-regexp count color colour files-without-match \
            files-with-matches only-matching quiet silent no-messages byte-offset \
            with-filename no-filename line-number initial-tab null text binary recursive \
            dereference-recursive null-data help line-buffered",
    long_value: "regexp file max-count after-context before-context context binary-files devices \
            directories exclude exclude-dir exclude-from include label group-separator",
    digits: true,
    open: true,
    ..NONE
};
/// Without `--pre`, `--hostname-bin` and `-z`, which start other programs.
const RG: Program = Program {
    short: "acFHhIilLnNopPqRsSuUvVwx0.",
    value: "ABCdEefgjmMrtT",
    long: "ignore-case smart-case case-sensitive fixed-strings files hidden no-ignore \
            no-ignore-vcs count count-matches files-with-matches files-without-match \
            only-matching line-number no-line-number with-filename no-filename heading \
            no-heading json multiline multiline-dotall pcre2 invert-match word-regexp \
            line-regexp text trim vimgrep stats null follow unrestricted quiet column \
            no-messages type-list passthru one-file-system crlf no-config",
    long_value: "regexp file glob iglob type type-not max-count max-depth max-columns max-filesize \
            after-context before-context context color colors sort sortr threads encoding \
            replace path-separator engine",
    ..NONE
};
/// Without `-o`, `-T` and `--compress-program`.
const SORT: Program = Program {
    short: "bdfghiMnrRVcCmsuz",
    value: "ktS",
    long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort \
            human-numeric-sort ignore-nonprinting month-sort numeric-sort random-sort \
            version-sort reverse check merge stable unique zero-terminated debug sort help",
    long_value: "key field-separator buffer-size parallel",
    ..NONE
};
/// The second operand is written.
const UNIQ: Program = Program {
    short: "cdDiuz",
    value: "fsw",
    long: "count repeated all-repeated ignore-case unique zero-terminated group",
    long_value: "skip-fields skip-chars check-chars",
    operands: Operands::Most(1),
    ..NONE
};
const CUT: Program = Program {
    short: "nsz",
    value: "bcdf",
    long: "complement only-delimited zero-terminated help",
    long_value: "bytes characters delimiter fields output-delimiter",
    open: true,
    ..NONE
};
const TR: Program = Program {
    short: "cCdst",
    long: "complement delete squeeze-repeats truncate-set1 help",
    open: true,
    ..NONE
};
/// Without `-l`, which pages through another program.
const DIFF: Program = Program {
    short: "abBcdeEHiNnpPqrstTuwyZ",
    value: "CDFILSUWxX",
    long: "brief report-identical-files side-by-side expand-tabs ignore-case \
            ignore-tab-expansion ignore-trailing-space ignore-space-change ignore-all-space \
            ignore-blank-lines text strip-trailing-cr minimal recursive new-file unified \
            context color no-dereference suppress-common-lines normal ed rcs show-c-function \
            left-column",
    long_value: "exclude exclude-from label width ignore-matching-lines",
    ..NONE
};
const COMPARE: Program = Program {
    short: "123bislzv",
    value: "adejnot",
    long: "print-bytes verbose silent quiet check-order nocheck-order output-delimiter total \
            zero-terminated header serial help",
    long_value: "ignore-initial bytes delimiters",
    open: true,
    ..NONE
};
const STAT: Program = Program {
    short: "abcefhikLlmnPqsStTvxXDHzE",
    value: "Bd",
    long: "dereference file-system format printf terse canonicalize canonicalize-existing \
            canonicalize-missing no-newline quiet silent verbose zero relative-to \
            relative-base strip no-symlinks logical physical all human-readable si inodes \
            kilobytes local no-sync output portability print-type total type exclude-type \
            apparent-size summarize max-depth separate-dirs one-file-system exclude time \
            time-style threshold bytes count-links help",
    open: true,
    ..NONE
};
/// Without `-C`, which writes a compiled file, and `-z`, which starts a decompressor.
const FILE: Program = Program {
    short: "bhikLNprsv0",
    value: "eFP",
    long: "brief mime mime-type mime-encoding keep-going dereference no-dereference no-pad \
            raw special-files extension print0",
    ..NONE
};
const ID: Program = Program {
    short: "aGgnruZzsvmpio",
    long: "all group groups name real user zero context kernel-name nodename kernel-release \
            kernel-version machine processor hardware-platform operating-system help silent \
            quiet",
    open: true,
    ..NONE
};
const PRINTENV: Program = Program {
    short: "0",
    long: "null",
    open: true,
    ..NONE
};
/// Alone it prints; with anything else it starts a program.
const ENV: Program = Program {
    short: "0",
    operands: Operands::Most(0),
    ..NONE
};
const SUM: Program = Program {
    short: "bctwzrs",
    value: "al",
    long: "binary check tag text zero ignore-missing quiet status strict warn help algorithm \
            length untagged raw base64 debug",
    open: true,
    ..NONE
};
const DUMP: Program = Program {
    short: "abcCdfhilLosvxX",
    value: "AjNtSwen",
    long: "address-radix endian skip-bytes read-bytes format output-duplicates width all \
            print-file-name encoding canonical no-squeezing",
    long_value: "bytes radix length skip",
    ..NONE
};
/// The second operand is written; `-r` turns text into bytes, on its output.
const XXD: Program = Program {
    short: "abCeEipPruv",
    value: "cglos",
    operands: Operands::Most(1),
    ..NONE
};
const COLUMN: Program = Program {
    short: "tsxnebiLw",
    value: "cosNRHOWTfd",
    long: "table fillrows json keep-empty-lines equal-width spaces bytes",
    long_value: "separator output-separator table-columns width output-width format tabs",
    open: true,
    ..NONE
};
/// Without `-o` and `-R`, which write.
const TREE: Program = Program {
    short: "aACdDfFghiJlnNpqQrsStuUvXx",
    value: "HILPT",
    long: "dirsfirst filesfirst du gitignore help ignore-case inodes metafirst noreport prune \
            si sort nolinks",
    long_value: "charset filelimit timefmt",
    ..NONE
};
const PS: Program = Program {
    short: "aAdeEfFHjlLMNTvwxyZ",
    value: "CgGnopqstuU",
    long: "forest headers no-headers help sort format pid ppid user",
    open: true,
    ..NONE
};
const COMMAND: Program = Program {
    short: "pvV",
    leading: true,
    ..NONE
};
const TIMEOUT: Program = Program {
    short: "v",
    value: "ks",
    long: "preserve-status foreground verbose",
    long_value: "kill-after signal",
    leading: true,
    ..NONE
};
const NICE: Program = Program {
    value: "n",
    long_value: "adjustment",
    digits: true,
    leading: true,
    ..NONE
};
const XARGS: Program = Program {
    short: "0rtx",
    value: "dILnPs",
    long: "null no-run-if-empty verbose exit",
    long_value: "delimiter max-args max-chars max-procs",
    leading: true,
    ..NONE
};
/// What a machine is and how it does. None of them writes; `w` and `who` read the accounts' file.
const MACHINE: Program = Program {
    short: "abcdefghiklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    value: "",
    long: "human kilo mega giga bytes si total wide pretty since all json list output extended \
            parse noheadings paths help short release description codename id",
    ..NONE
};
const PROCESSES: Program = Program {
    short: "acfilnoqstvwxzbPR",
    value: "dguGUpPs",
    long: "list-name list-full count exact full newest oldest inverse ignore-case help",
    long_value: "delimiter pgroup group parent session terminal euid uid",
    ..NONE
};
const BINARY: Program = Program {
    short: "aAbBCdDfghHiIlnNopPrRsStTuVwxzW",
    value: "jM",
    long: "demangle dynamic defined-only undefined-only extern-only no-sort numeric-sort \
            print-size size-sort reverse-sort line-numbers all headers file-header \
            program-headers sections section-headers segments symbols syms relocs notes \
            disassemble disassemble-all source full-contents wide format radix help",
    long_value: "section",
    ..NONE
};
const ENCODE: Program = Program {
    short: "di",
    value: "w",
    long: "decode ignore-garbage help",
    long_value: "wrap",
    ..NONE
};
const TEXT: Program = Program {
    short: "cstu",
    value: "wpgl",
    long: "to from suffix padding grouping header field delimiter invalid round format \
            from-unit to-unit crown-margin split-only tagged-paragraph uniform-spacing help",
    long_value: "width prefix goal",
    digits: true,
    open: true,
    ..NONE
};
/// Its queries only.
const DPKG: Program = Program {
    short: "lLsSpC",
    long: "list listfiles status search print-avail audit get-selections print-architecture \
            print-foreign-architectures version help",
    ..NONE
};
const DPKG_QUERY: Program = Program {
    short: "lLsSpWc",
    value: "f",
    long: "list listfiles status search print-avail show control-list help",
    long_value: "showformat",
    ..NONE
};
/// `-q` and what narrows it; the other modes have their own letters.
const RPM: Program = Program {
    short: "qailcdRf",
    long: "query all info list requires provides changelog whatprovides whatrequires qf",
    ..NONE
};
