//! Opens names beneath the workspace root and nowhere else: the kernel holds the line, so that a
//! folder swapped for a link in the middle of a walk leads to an error and never outside.

use std::os::fd::{BorrowedFd, OwnedFd};

use protocol::{Failure, FailureClass};
use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
};

/// Longest path that an order may name.
const PATH_BYTES: usize = 4_096;
/// Tries when the kernel says that the tree changed under the walk.
const TRIES: usize = 16;
/// Beneath the root, on its own mount, through no link of /proc.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Splits a relative path into its folders and its last name.
///
/// # Errors
/// [`FailureClass::Outside`] for a path that is not plainly relative; the supervisor never sends one.
pub(crate) fn parts(path: &str) -> Result<(Vec<&str>, &str), Failure> {
    let mut names: Vec<&str> = path.split('/').collect();
    let plain = |name: &&str| !name.is_empty() && *name != "." && *name != "..";
    let fits = path.len() <= PATH_BYTES && !path.contains('\0') && names.iter().all(plain);
    match names.pop() {
        Some(last) if fits => Ok((names, last)),
        _ => Err(Failure {
            class: FailureClass::Outside,
            message: "the path is not relative to the workspace in plain names".to_owned(),
        }),
    }
}

/// Opens a folder beneath `root`; links on the way are followed as long as they stay beneath.
pub(crate) fn folder(root: BorrowedFd<'_>, names: &[&str]) -> Result<OwnedFd, Errno> {
    let path = if names.is_empty() {
        ".".to_owned()
    } else {
        names.join("/")
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(root, &path, flags, BENEATH)
}

/// Opens one name of a held folder; a link there is not followed.
pub(crate) fn entry(folder: BorrowedFd<'_>, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(folder, name, flags, BENEATH | ResolveFlags::NO_SYMLINKS)
}

fn open(
    from: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut last = Errno::AGAIN;
    for _ in 0..TRIES {
        match rustix::fs::openat2(from, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => last = Errno::AGAIN,
            other => return other,
        }
    }
    Err(last)
}

/// Says why a call on `path` failed. Absent and hidden are one answer.
pub(crate) fn failure(errno: Errno, path: &str) -> Failure {
    let (class, what) = match errno {
        Errno::NOENT => (FailureClass::NotFound, "nothing is there"),
        Errno::NOTDIR => (
            FailureClass::WrongKind,
            "a part of the path is not a folder",
        ),
        Errno::ISDIR => (FailureClass::WrongKind, "it is a folder"),
        Errno::XDEV | Errno::LOOP | Errno::AGAIN => (
            FailureClass::Outside,
            "the path leaves the workspace, or changed while it was resolved: resolve it again",
        ),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            (FailureClass::Denied, "the kernel refused it")
        }
        Errno::NOSPC | Errno::DQUOT => (FailureClass::Exhausted, "no space is left"),
        Errno::FBIG => (
            FailureClass::Exhausted,
            "it is larger than a file of this session may be",
        ),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
            (FailureClass::Exhausted, "no descriptor or memory is left")
        }
        Errno::NAMETOOLONG => (FailureClass::Other, "a name is too long"),
        _ => {
            let message = format!("`{path}`: {}", std::io::Error::from(errno));
            return Failure {
                class: FailureClass::Other,
                message,
            };
        }
    };
    Failure {
        class,
        message: format!("`{path}`: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_have_parts() {
        assert_eq!(parts("a/b/c").expect("plain"), (vec!["a", "b"], "c"));
        assert_eq!(parts("c").expect("plain"), (vec![], "c"));
        for path in [
            "", "/", "/a", "a/", "a//b", "./a", "a/..", "../a", "a/./b", "a\0",
        ] {
            assert_eq!(
                parts(path).expect_err(path).class,
                FailureClass::Outside,
                "{path:?}"
            );
        }
        assert!(parts(&"a/".repeat(3_000)).is_err());
    }
}
