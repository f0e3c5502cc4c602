//! What this machine's root folder and `/etc` are like.

use std::path::Path;

use super::{Host, PROGRAM_FOLDERS, below};

/// What programs need of `/etc` to start and to speak TLS; no account, no host name, no secret.
const ETC: [&str; 33] = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "crypto-policies",
    "debian_version",
    "fonts",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "locale.alias",
    "magic",
    "mime.types",
    "os-release",
    "perl",
    "php",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "protocols",
    "python3",
    "redhat-release",
    "rpc",
    "services",
    "shells",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

impl Host {
    /// Looks at the machine.
    #[must_use]
    pub fn look() -> Self {
        let mut host = Self::default();
        for name in PROGRAM_FOLDERS {
            match std::fs::read_link(name) {
                Ok(to) => host
                    .links
                    .push((name.to_owned(), to.to_string_lossy().into_owned())),
                Err(_) if Path::new(name).is_dir() => host.trees.push(name.to_owned()),
                Err(_) => {}
            }
        }
        for name in etc_names() {
            let target = format!("/etc/{name}");
            let Ok(real) = std::fs::canonicalize(&target) else {
                continue;
            };
            let real = real.to_string_lossy().into_owned();
            // A link into a tree stays a link: programs read the time zone's name from it.
            if real != target && host.trees.iter().any(|tree| below(&real, tree)) {
                host.etc_links.push((target, real));
            } else {
                host.etc.push((target, real));
            }
        }
        host
    }
}

/// The listed names, and each version of Python's folder that this machine has.
fn etc_names() -> Vec<String> {
    let mut names: Vec<String> = ETC.iter().map(|&name| name.to_owned()).collect();
    if let Ok(entries) = std::fs::read_dir("/etc") {
        let found = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.extend(found.filter(|name| name.starts_with("python3.")));
    }
    names.sort();
    names
}
