//! Variables that make a program load or run something else than its name says.

use crate::shell::{Simple, Word};

/// The first such variable that a simple command sets, and why it matters.
pub(super) fn variable(simple: &Simple) -> Option<(String, &'static str)> {
    let leading = simple
        .assignments
        .iter()
        .map(|(name, value)| (name.as_str(), value.literal.as_deref(), value.text.as_str()));
    let exporting = matches!(
        simple.name(),
        Some("export" | "declare" | "typeset" | "readonly" | "local" | "env" | "sudo" | "doas")
    );
    let arguments = simple
        .args
        .iter()
        .filter(|_| exporting)
        .filter_map(assignment);
    leading.chain(arguments).find_map(|(name, literal, text)| {
        reason(name, literal, text).map(|why| (name.to_owned(), why))
    })
}

/// Options by which a program that only looks, sorts or packs starts another one; lists are words
/// between blanks.
const STARTING: &[(&str, &str)] = &[
    ("rg", "--pre --hostname-bin"),
    ("sort gsort", "--compress-program"),
    (
        "tar gtar bsdtar",
        "--to-command --checkpoint-action --rsh-command --info-script --new-volume-script",
    ),
    ("zip", "-TT --unzip-command"),
    ("man", "-P --pager -H --html"),
    ("scp sftp", "-S -D"),
    ("split gsplit", "--filter"),
    ("less more", "+!"),
    ("vim vi nvim view ex", "+! +:! -c!"),
];

/// The first such option that a simple command has.
pub(super) fn option(simple: &Simple) -> Option<String> {
    let name = simple.name()?;
    let holds = |list: &str| list.split_whitespace().any(|known| known == name);
    let (_, options) = STARTING.iter().find(|(names, _)| holds(names))?;
    let words: Vec<&str> = simple.literals().collect();
    let ended = words.iter().take_while(|word| **word != "--");
    let found = ended.enumerate().find(|(at, word)| {
        options.split_whitespace().any(|option| match option {
            "-c!" => {
                *word == &"-c"
                    && words
                        .get(at + 1)
                        .is_some_and(|next| next.trim_start_matches(':').starts_with('!'))
            }
            _ if option.starts_with('+') => word.starts_with(option),
            _ if option.starts_with("--") => {
                let long = word.split('=').next().unwrap_or(word);
                // A long option may be cut short.
                long == option
                    || (long.len() >= 6
                        && long != "--checkpoint"
                        && name != "rg"
                        && option.starts_with(long))
            }
            _ => *word == &option,
        })
    });
    // Messages at checkpoints start nothing.
    found
        .map(|(_, word)| (*word).to_owned())
        .filter(|word| !word.contains("checkpoint-action=") || word.contains("exec"))
}

/// An argument of the form `NAME=VALUE`.
fn assignment(word: &Word) -> Option<(&str, Option<&str>, &str)> {
    let (name, text) = word.text.split_once('=')?;
    let name = name.trim_start_matches(['"', '\'']).trim_end_matches('+');
    let literal = word
        .literal
        .as_deref()
        .and_then(|word| word.split_once('='))
        .map(|(_, v)| v);
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(fits)).then_some((name, literal, text))
}

/// Values that are harmless for variables that name a program.
const HARMLESS: &[&str] = &[
    "",
    "cat",
    "true",
    ":",
    "0",
    "1",
    "/bin/true",
    "/usr/bin/true",
    "less",
];

fn reason(name: &str, literal: Option<&str>, text: &str) -> Option<&'static str> {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if name == "PATH" {
        let value = literal.unwrap_or(text).trim_matches(['"', '\'']);
        let known = [
            "$PATH",
            "${PATH}",
            "/usr/local/bin",
            "/usr/bin",
            "/bin",
            "/usr/local/sbin",
            "/usr/sbin",
            "/sbin",
        ];
        let plain = value
            .split(':')
            .all(|folder| known.contains(&folder.trim_end_matches('/')));
        return (!plain).then_some("decides which program a name stands for");
    }
    if starts(&["LD_", "DYLD_", "GLIBC_TUNABLES", "GCONV_PATH"]) {
        return Some("makes the loader run other code first");
    }
    let quiet_python = [
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONUNBUFFERED",
        "PYTHONHASHSEED",
        "PYTHONIOENCODING",
        "PYTHONUTF8",
        "PYTHONFAULTHANDLER",
        "PYTHONDEVMODE",
        "PYTHONOPTIMIZE",
    ];
    if starts(&["PYTHON"]) && !quiet_python.contains(&name) {
        return Some("makes the interpreter load other code");
    }
    let quiet_git = [
        "GIT_AUTHOR_",
        "GIT_COMMITTER_",
        "GIT_TERMINAL_PROMPT",
        "GIT_OPTIONAL_LOCKS",
        "GIT_ADVICE",
        "GIT_MERGE_AUTOEDIT",
    ];
    let harmless = literal.is_some_and(|value| HARMLESS.contains(&value));
    if starts(&["GIT_"]) && !starts(&quiet_git) && !harmless {
        return Some("makes git run or obey something else");
    }
    let interpreters = [
        "BASH_ENV",
        "ENV",
        "BASH_FUNC_",
        "SHELLOPTS",
        "BASHOPTS",
        "PS4",
        "PROMPT_COMMAND",
        "ZDOTDIR",
        "NODE_OPTIONS",
        "NODE_PATH",
        "PERL5OPT",
        "PERL5LIB",
        "PERLLIB",
        "PERL5DB",
        "RUBYOPT",
        "RUBYLIB",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "CLASSPATH",
        "MAVEN_OPTS",
        "GRADLE_OPTS",
        "PHPRC",
        "PHP_INI_SCAN_DIR",
        "LUA_INIT",
        "R_PROFILE",
        "R_ENVIRON",
        "TCLLIBPATH",
        "DOTNET_STARTUP_HOOKS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC",
        "CARGO_HOME",
        "MAKEFLAGS",
        "MAKEFILES",
        "GNUMAKEFLAGS",
        "AWKPATH",
        "OPENSSL_CONF",
        "IFS",
        "CDPATH",
    ];
    if interpreters
        .iter()
        .any(|known| name == *known || (known.ends_with('_') && name.starts_with(known)))
        || name.starts_with("LUA_INIT")
        || (name.starts_with("CARGO_TARGET_") && name.ends_with("_RUNNER"))
    {
        return Some("makes an interpreter or a tool run other code");
    }
    let programs = [
        "PAGER",
        "MANPAGER",
        "EDITOR",
        "VISUAL",
        "BROWSER",
        "LESSOPEN",
        "LESSCLOSE",
        "SSH_ASKPASS",
        "SUDO_ASKPASS",
        "FCEDIT",
        "HGEDITOR",
        "SVN_EDITOR",
        "SHELL",
    ];
    (programs.contains(&name) && !harmless).then_some("names a program that others will start")
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn loader_and_interpreter_variables_are_known_and_quiet_ones_pass() {
        for (name, value) in [
            ("LD_PRELOAD", "./x.so"),
            ("PATH", "./bin:$PATH"),
            ("PYTHONPATH", "x"),
            ("GIT_SSH_COMMAND", "sh -c id"),
            ("PAGER", "sh -c id"),
            ("BASH_ENV", "x"),
            ("NODE_OPTIONS", "--require ./x"),
            ("BASH_FUNC_ls%%", "() { id; }"),
            ("GIT_PAGER", "id"),
            ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", "x"),
            ("PATH", ""),
            ("PATH", "/usr/bin:"),
        ] {
            assert!(reason(name, Some(value), value).is_some(), "{name}={value}");
        }
        for (name, value) in [
            ("PATH", "/usr/local/bin:$PATH"),
            ("PYTHONUNBUFFERED", "1"),
            ("GIT_PAGER", "cat"),
            ("PAGER", "cat"),
            ("GIT_AUTHOR_NAME", "a"),
            ("RUST_LOG", "debug"),
            ("FOO", "bar"),
            ("TZ", "UTC"),
            ("CI", "true"),
            ("GIT_TERMINAL_PROMPT", "0"),
        ] {
            assert!(reason(name, Some(value), value).is_none(), "{name}={value}");
        }
    }
}
