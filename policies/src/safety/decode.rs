//! Decoded text that an interpreter runs: whoever looks at the line cannot see what will happen. Which
//! commands reach an interpreter is told by [`super::download`].

use crate::shell::Simple;

/// The detector's id.
pub(super) const ID: &str = "decode-and-run";

pub(super) const WHY: &str = "an interpreter runs what is decoded, and nobody has read it";

/// Whether a simple command turns text that cannot be read into text that can.
pub(super) fn decodes(simple: &Simple) -> bool {
    let Some(name) = simple.name() else {
        return false;
    };
    match name {
        "xxd" => simple
            .literals()
            .any(|word| word.starts_with("-r") || word.contains('r')),
        "openssl" => simple
            .literals()
            .any(|word| word == "-d" || word == "-base64"),
        "uudecode" | "rot13" | "unhex" => true,
        // An alphabet moved along hides words as well as an encoding does.
        "tr" => simple.literals().any(|word| {
            word.len() >= 6 && (word.contains("n-za-m") || word.to_lowercase().contains("n-za-m"))
        }),
        "rev" => true,
        "printf" | "echo" => simple.literals().any(|word| {
            let escapes = word.matches("\\x").count() + word.matches("\\0").count();
            escapes >= 4
        }),
        "gunzip" | "zcat" | "bunzip2" | "bzcat" | "xzcat" | "unxz" | "zstdcat" => true,
        "gzip" | "bzip2" | "xz" | "zstd" => simple
            .literals()
            .any(|word| word.starts_with("--dec") || (word.starts_with('-') && word.contains('d'))),
        "base64" | "base32" | "basenc" | "gbase64" => simple.literals().any(|word| {
            word == "-D"
                || (word.len() >= 3 && "--decode".starts_with(word))
                || (word.starts_with('-') && !word.starts_with("--") && word.contains('d'))
        }),
        _ => false,
    }
}

/// Calls that decode in code that also runs what it made.
pub(super) const IN_CODE: &[&str] = &[
    "b64decode",
    "b32decode",
    "b85decode",
    "fromhex",
    "unhexlify",
    "decode_base64",
    "atob(",
    "'base64'",
    "\"base64\"",
    "'hex'",
    "\"hex\"",
    "base64_decode",
    "Base64.decode",
    "gzinflate",
    "str_rot13",
    "zlib.decompress",
    "marshal.loads",
    "codecs.decode",
    "join(chr(",
    "+chr(",
    "+ chr(",
    "map(chr,",
    "fromCharCode",
    "FromBase64String",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, safety::table::holds};

    #[test]
    fn decoded_code_is_told_from_decoded_data() {
        let ask = Decision::Ask;
        holds(
            ID,
            &[
                ("echo aWQ= | base64 -d | sh", ask),
                ("echo aWQ= | base64 --decode | bash -s", ask),
                ("base64 -d <<< aWQ= | sudo sh", ask),
                ("$(echo cm0gLXJmIC4= | base64 -d)", ask),
                ("eval \"$(echo aWQ= | base64 -d)\"", ask),
                ("bash -c \"$(base64 -d x)\"", ask),
                ("bash <(base64 -d x)", ask),
                ("echo 6964 | xxd -r -p | sh", ask),
                ("openssl enc -d -base64 -in x | sh", ask),
                ("printf '\\x72\\x6d\\x20\\x2d' | sh", ask),
                ("echo vq | tr 'a-z' 'n-za-m' | sh", ask),
                ("echo di | rev | bash", ask),
                ("zcat x.gz | bash", ask),
                ("gzip -dc x.gz | sh", ask),
                (
                    "python3 -c \"import base64; exec(base64.b64decode('aWQ='))\"",
                    ask,
                ),
                ("perl -MMIME::Base64 -e 'eval decode_base64(\"aWQ=\")'", ask),
                (
                    "node -e \"eval(Buffer.from('aWQ=','base64').toString())\"",
                    ask,
                ),
                ("php -r 'eval(base64_decode(\"aWQ=\"));'", ask),
            ],
            &[
                "base64 -d x > y",
                "echo aWQ= | base64 -d",
                "base64 -d x | jq .",
                "zcat log.gz | grep x",
                "gunzip -c dump.gz | head",
                "echo abc | rev | cat",
                "cat x | tr a-z A-Z",
                "python3 -c \"import base64; print(base64.b64decode('aWQ='))\"",
                "cat x.sh | bash",
                "printf 'a\\n' | sh",
            ],
        );
    }
}
