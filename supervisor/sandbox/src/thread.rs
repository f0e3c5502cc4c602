//! Threads of the supervisor that work with another account's rights.

use std::io;

use protocol::jail::Identity;

/// This thread takes an account, without a way back: its rights are then the account's.
pub(crate) fn take(identity: Identity) -> io::Result<()> {
    let (uid, gid) = (
        rustix::process::Uid::from_raw(identity.uid),
        rustix::process::Gid::from_raw(identity.gid),
    );
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// Does a short piece of work with an account's rights, on a thread that ends with it: what a root
/// supervisor must look at below an account's folders it sees as that account does.
///
/// # Errors
/// The thread cannot be made, cannot take the account, or has panicked.
pub fn as_account<T: Send>(identity: Identity, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let body = || take(identity).map(|()| work());
        let thread = std::thread::Builder::new()
            .name("account".to_owned())
            .spawn_scoped(scope, body)?;
        thread
            .join()
            .map_err(|_| io::Error::other("the thread that works as the account is gone"))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_has_the_accounts_rights_and_only_there() {
        if !rustix::process::geteuid().is_root() {
            let other = Identity { uid: 0, gid: 0 };
            as_account(other, || ()).expect_err("only root gives its rights away");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("closed");
        std::fs::write(&file, "root's").expect("written");
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&file, closed).expect("closed");
        let nobody = Identity {
            uid: 65_534,
            gid: 65_534,
        };
        let seen = as_account(nobody, || std::fs::read(&file).map_err(|e| e.kind()));
        let seen = seen.expect("a thread");
        assert_eq!(seen, Err(io::ErrorKind::PermissionDenied));
        std::fs::read(&file).expect("this thread is root's still");
    }
}
