//! The account that a session believes to be.

use protocol::jail::{Identity, Mount};

use super::SessionPlace;

/// `/etc` from nothing: one account, one host, no resolver.
pub(super) fn account_files(place: &SessionPlace<'_>, home: &str) -> Vec<Mount> {
    let Identity { uid, gid } = place.identity.unwrap_or_else(|| Identity {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
    });
    let file = |target: &str, content: String| Mount::File {
        target: target.into(),
        content,
    };
    let (mut passwd, mut group) = (String::new(), String::new());
    if uid != 0 {
        passwd.push_str("root:x:0:0:root:/:/bin/false\n");
    }
    if gid != 0 {
        group.push_str("root:x:0:\n");
    }
    passwd.push_str(&format!("agent:x:{uid}:{gid}:agent:{home}:/bin/sh\n"));
    passwd.push_str("nobody:x:65534:65534:nobody:/:/bin/false\n");
    group.push_str(&format!("agent:x:{gid}:\nnogroup:x:65534:\n"));
    vec![
        file("/etc/passwd", passwd),
        file("/etc/group", group),
        file(
            "/etc/hosts",
            "127.0.0.1 localhost\n::1 localhost\n".to_owned(),
        ),
        file("/etc/hostname", "provost\n".to_owned()),
        file("/etc/resolv.conf", String::new()),
        file(
            "/etc/nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"
                .to_owned(),
        ),
    ]
}
