//! Programs that speak to other machines, as the detectors of addresses and of exfiltration see them.

use super::spelling::{code, spelled};
use crate::{
    Run, address,
    shell::{Simple, Word},
};

/// Programs whose operands are hosts or addresses.
pub(super) const SPEAKING: &[&str] = &[
    "curl",
    "wget",
    "wget2",
    "fetch",
    "aria2c",
    "axel",
    "http",
    "https",
    "xh",
    "lynx",
    "w3m",
    "links",
    "elinks",
    "nc",
    "ncat",
    "netcat",
    "socat",
    "telnet",
    "ftp",
    "lftp",
    "tftp",
    "sftp",
    "scp",
    "ssh",
    "rsync",
    "ping",
    "ping6",
    "fping",
    "hping3",
    "traceroute",
    "tracepath",
    "mtr",
    "nmap",
    "masscan",
    "dig",
    "nslookup",
    "host",
    "drill",
    "kdig",
    "whois",
    "openssl",
    "grpcurl",
    "websocat",
    "wscat",
    "mosh",
    "psql",
    "mysql",
    "mariadb",
    "mongosh",
    "mongo",
    "redis-cli",
    "mqtt",
    "mosquitto_pub",
    "ab",
    "wrk",
    "hey",
    "vegeta",
    "k6",
    "curlie",
    "croc",
    "smbclient",
    "rclone",
    "s3cmd",
    "gsutil",
    "ldapsearch",
    "snmpwalk",
    "nbtscan",
    "arping",
    "proxychains",
    "proxychains4",
    "chisel",
    "ngrok",
    "cloudflared",
    "frpc",
    "nbd-client",
];

/// Programs that can send what they are given to another machine.
pub(super) const SENDING: &[&str] = &[
    "curl",
    "wget",
    "wget2",
    "http",
    "https",
    "xh",
    "curlie",
    "nc",
    "ncat",
    "netcat",
    "socat",
    "telnet",
    "ftp",
    "lftp",
    "tftp",
    "sftp",
    "scp",
    "rsync",
    "ssh",
    "mail",
    "mailx",
    "mutt",
    "sendmail",
    "msmtp",
    "swaks",
    "openssl",
    "websocat",
    "wscat",
    "grpcurl",
    "mosquitto_pub",
    "rclone",
    "s3cmd",
    "gsutil",
    "aws",
    "az",
    "gcloud",
    "gh",
    "glab",
    "croc",
    "wormhole",
    "magic-wormhole",
    "transfer",
    "smbclient",
    "nats",
    "kafkacat",
    "kcat",
    "redis-cli",
    "logger",
    "ncftpput",
    "gist",
    "pastebinit",
    "wl-paste",
    "ipfs",
    "tailscale",
];

/// Programs that ask the name service for what they are given.
pub(super) const ASKING: &[&str] = &[
    "dig",
    "nslookup",
    "host",
    "drill",
    "kdig",
    "delv",
    "getent",
    "resolvectl",
    "systemd-resolve",
    "ping",
    "ping6",
    "fping",
    "traceroute",
    "tracepath",
    "mtr",
    "whois",
    "avahi-resolve",
];

/// Programs whose arguments are text, or that only look whether something is there.
pub(super) const SPEAKERS: &[&str] = &[
    "echo", "printf", "test", "[", "[[", "true", "false", ":", "which", "type", "basename",
    "dirname", "grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk", "gawk", "jq", "yq",
];

/// One host that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// As written.
    pub(super) text: String,
    /// The host of it.
    pub(super) host: String,
    /// Whether the text says one host to everybody.
    pub(super) plain: bool,
    /// Whether it is an address with a scheme, and no word that could be something else.
    pub(super) url: bool,
}

/// git's subcommands that name other machines.
const GIT_REMOTE: &[&str] = &[
    "clone",
    "fetch",
    "pull",
    "push",
    "ls-remote",
    "remote",
    "submodule",
    "archive",
    "config",
    "fetch-pack",
    "send-pack",
    "http-fetch",
    "http-push",
];

/// Options whose number is a time or a count.
fn counts(option: &str) -> bool {
    let short = ["-m", "-w", "-i", "-W", "-T", "-c", "-t"];
    short.contains(&option)
        || (option.starts_with("--")
            && [
                "time", "retr", "limit", "rate", "interval", "delay", "version",
            ]
            .iter()
            .any(|word| option.contains(word)))
}

/// Every host that a command names: addresses with a scheme in any word and in code, and the operands
/// of programs that speak to hosts.
pub(super) fn hosts(simple: &Simple) -> Vec<Named> {
    let name = simple.name().unwrap_or("");
    if SPEAKERS.contains(&name) {
        return Vec::new();
    }
    let mut speaks = SPEAKING.contains(&name);
    if name == "git" {
        // The other subcommands take texts for people.
        speaks = simple.literals().any(|word| GIT_REMOTE.contains(&word));
        if !speaks {
            return Vec::new();
        }
    }
    let mut named = Vec::new();
    for (_, value) in &simple.assignments {
        of_word(value, false, &mut named);
    }
    let mut before = "";
    for word in simple.args.iter().take(1_000) {
        of_word(word, speaks && !counts(before), &mut named);
        before = word.literal.as_deref().unwrap_or("");
    }
    for text in code(simple) {
        let apart = |c: char| c.is_whitespace() || "'\"`()[]{},;<>|".contains(c);
        for piece in text.split(apart).filter(|piece| piece.contains("://")) {
            named.extend(of_url(piece));
        }
        // `connect(("10.0.0.1", 80))`
        for piece in text.split(['"', '\'']) {
            let is_address = piece.len() >= 7
                && piece.len() <= 45
                && piece
                    .chars()
                    .all(|c| c.is_ascii_hexdigit() || ".:x".contains(c))
                && piece.contains(['.', ':']);
            if is_address && address::of_host(piece).reach != address::Reach::Public {
                named.push(Named {
                    text: piece.to_owned(),
                    host: piece.to_owned(),
                    plain: true,
                    url: false,
                });
            }
        }
    }
    named
}

fn of_word(word: &Word, speaks: bool, named: &mut Vec<Named>) {
    let text = spelled(word);
    let value = match text.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value,
        _ => &text,
    };
    for part in [text.as_str(), value] {
        if let Some(found) = of_url(part) {
            named.push(found);
            return;
        }
    }
    // `-xhttp://…` and lists as `a,http://b`.
    for piece in text.split([',', ' ', '\n']) {
        if let Some(at) = piece.find("://") {
            let head = piece.get(..at).unwrap_or("");
            let scheme = head
                .rfind(|c: char| !c.is_ascii_alphanumeric() && !"+.".contains(c))
                .map_or(0, |before| before + 1);
            named.extend(piece.get(scheme..).and_then(of_url));
        }
    }
    if speaks && !text.starts_with('-') && !text.contains([' ', '\n']) {
        // The addresses of `socat` (`TCP:host:port`), `-e` of none.
        let behind = match text.split_once(':') {
            Some((kind, rest))
                if [
                    "tcp",
                    "tcp4",
                    "tcp6",
                    "udp",
                    "udp4",
                    "udp6",
                    "openssl",
                    "ssl",
                    "tcp-connect",
                ]
                .iter()
                .any(|known| kind.eq_ignore_ascii_case(known)) =>
            {
                rest
            }
            _ => &text,
        };
        let host = address::host_of_operand(behind);
        if !host.is_empty() {
            named.push(Named {
                text: text.clone(),
                host,
                plain: true,
                url: false,
            });
        }
    }
}

fn of_url(text: &str) -> Option<Named> {
    let (host, plain) = address::host_of_url(text.trim_matches(['"', '\'']))?;
    Some(Named {
        text: text.to_owned(),
        host,
        plain,
        url: true,
    })
}

/// The host of `/dev/tcp/HOST/PORT` that bash opens itself.
pub(super) fn host_of_device(path: &str) -> Option<&str> {
    let rest = path
        .strip_prefix("/dev/tcp/")
        .or_else(|| path.strip_prefix("/dev/udp/"))?;
    rest.split('/').next().filter(|host| !host.is_empty())
}

/// Texts of the commands inside a word's substitutions, by what the reading lists.
pub(super) fn substituted<'r>(run: &'r Run, text: &'r str) -> impl Iterator<Item = &'r Simple> {
    let opened = text.contains("$(") || text.contains('`') || text.contains("<(");
    run.reading
        .simples
        .iter()
        .filter(move |simple| opened && !simple.text.is_empty() && text.contains(&simple.text))
}
