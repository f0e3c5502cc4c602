//! The role reader: one errand within walls that leave exactly the errand's paths.

use std::{
    fs::File,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use protocol::{
    BUILD, bounds, frame,
    reader::{Errand, Finding, ReaderFailure, ReaderSpec},
};

use crate::{BUG, FAULT, UNFIT, spec};

/// What SQLite keeps beside a database.
const BESIDE_DATABASE: [&str; 3] = ["-wal", "-shm", "-journal"];

pub(crate) fn run() -> ExitCode {
    let Ok([link, _, descriptor]) = worker_jail::take_standard() else {
        return ExitCode::from(BUG);
    };
    let mut link = File::from(link);
    let spec: ReaderSpec = match spec::read(descriptor) {
        Ok(spec) => spec,
        Err(error) => return refuse(&mut link, error.to_string()),
    };
    if spec.build != BUILD {
        return refuse(
            &mut link,
            "the spec is of another build: install provost and provost-worker from one release"
                .to_owned(),
        );
    }
    if let Some(account) = spec.account
        && let Err(unfit) = worker_jail::become_account(account)
    {
        return refuse(&mut link, unfit.to_string());
    }
    let paths = Paths::of(&spec.errand);
    if let Err(error) = paths.prepare() {
        return refuse(&mut link, error.to_string());
    }
    let (read, write, layer) = (paths.read(), paths.write(), paths.layer());
    if let Err(unfit) = worker_jail::confine_reader(&write, &read, &layer) {
        return refuse(&mut link, unfit.to_string());
    }
    match worker_reader::run(&spec.errand, &mut |finding| send(&mut link, &finding)) {
        Ok(()) => ExitCode::SUCCESS,
        // The link itself broke: nobody hears more.
        Err(_) => ExitCode::from(FAULT),
    }
}

fn send(link: &mut File, finding: &Finding) -> io::Result<()> {
    let bytes = frame::encode(finding, bounds::FRAME).map_err(io::Error::other)?;
    link.write_all(&bytes)
}

fn refuse(link: &mut File, message: String) -> ExitCode {
    let _ = send(
        link,
        &Finding::Failed {
            class: ReaderFailure::Unfit,
            message,
        },
    );
    ExitCode::from(UNFIT)
}

/// The paths of an errand: a reader has these and no other.
#[derive(Debug, Default, PartialEq, Eq)]
struct Paths {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// Layers of overlays: there also the marks by which names are gone may be made.
    layer: Vec<PathBuf>,
    /// A file that the errand makes: it is made before the walls, so that they can name it alone
    /// and not its folder.
    made: Option<(PathBuf, u32)>,
}

impl Paths {
    fn of(errand: &Errand) -> Self {
        let list = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        match errand {
            Errand::CopyIn {
                workspace,
                tree,
                manifest,
                ..
            } => Self {
                read: list(&[workspace]),
                write: list(&[tree, manifest]),
                made: Some((manifest.into(), 0o600)),
                ..Self::default()
            },
            Errand::Prepare {
                workspace,
                tree,
                manifest,
                ..
            } => Self {
                read: list(&[workspace]),
                write: list(&[manifest]),
                layer: list(&[tree]),
                made: Some((manifest.into(), 0o600)),
            },
            Errand::List {
                tree,
                manifest,
                workspace,
                ..
            } => {
                let mut read: Vec<PathBuf> = list(&[tree, manifest]);
                read.extend(workspace.iter().map(PathBuf::from));
                Self {
                    read,
                    ..Self::default()
                }
            }
            Errand::Patch {
                tree,
                manifest,
                workspace,
                out,
                ..
            } => Self {
                read: list(&[tree, manifest, workspace]),
                write: list(&[out]),
                made: Some((out.into(), 0o644)),
                ..Self::default()
            },
            Errand::Apply {
                tree,
                manifest,
                workspace,
                journal,
                ..
            } => Self {
                read: list(&[tree, manifest]),
                write: list(&[workspace, journal]),
                made: Some((journal.into(), 0o600)),
                ..Self::default()
            },
            Errand::Restore {
                tree,
                manifest,
                steps,
                ..
            } => {
                let mut read: Vec<PathBuf> = list(&[manifest]);
                let kept = steps.iter().filter_map(|step| step.before.as_ref());
                read.extend(kept.map(|kept| PathBuf::from(&kept.file)));
                Self {
                    read,
                    layer: list(&[tree]),
                    ..Self::default()
                }
            }
            Errand::Query { database, .. } | Errand::Tables { database, .. } => {
                let beside = BESIDE_DATABASE.map(|end| format!("{database}{end}"));
                let there = beside.iter().filter(|path| Path::new(path).exists());
                let mut read: Vec<PathBuf> = list(&[database]);
                read.extend(there.map(PathBuf::from));
                Self {
                    read,
                    ..Self::default()
                }
            }
            Errand::Measure { tree } => Self {
                read: list(&[tree]),
                ..Self::default()
            },
            Errand::Remove { folder } => Self {
                write: list(&[folder]),
                ..Self::default()
            },
        }
    }

    /// Makes the errand's file where it is missing; never through a link.
    fn prepare(&self) -> io::Result<()> {
        let Some((path, mode)) = &self.made else {
            return Ok(());
        };
        let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(*mode)
            .custom_flags(flags)
            .open(path)
            .map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("cannot create `{}`: {error}", path.display()),
                )
            })?;
        if file.metadata()?.is_file() {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "`{}` is not a regular file: name another",
            path.display()
        )))
    }

    fn read(&self) -> Vec<&Path> {
        self.read.iter().map(PathBuf::as_path).collect()
    }

    fn write(&self) -> Vec<&Path> {
        self.write.iter().map(PathBuf::as_path).collect()
    }

    fn layer(&self) -> Vec<&Path> {
        self.layer.iter().map(PathBuf::as_path).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_errand_has_its_own_paths_and_no_folder_around_them() {
        let errand = Errand::Patch {
            tree: "/s/tree".into(),
            kind: protocol::reader::TreeKind::Copy,
            manifest: "/s/manifest".into(),
            workspace: "/w".into(),
            out: "/home/u/out.patch".into(),
            hide: Vec::new(),
            skip: Vec::new(),
        };
        let paths = Paths::of(&errand);
        assert_eq!(
            paths.read(),
            [
                Path::new("/s/tree"),
                Path::new("/s/manifest"),
                Path::new("/w")
            ]
        );
        assert_eq!(paths.write(), [Path::new("/home/u/out.patch")]);
        let remove = Paths::of(&Errand::Remove {
            folder: "/s".into(),
        });
        assert_eq!(
            (remove.read().len(), remove.write()),
            (0, vec![Path::new("/s")])
        );
    }

    #[test]
    fn a_database_comes_with_what_lies_beside_it() {
        let folder = tempfile::tempdir().expect("folder");
        let database = folder.path().join("d.db");
        std::fs::write(&database, b"").expect("written");
        std::fs::write(folder.path().join("d.db-wal"), b"").expect("written");
        let text = database.to_str().expect("utf-8").to_owned();
        let paths = Paths::of(&Errand::Tables {
            name: "d".into(),
            database: text,
            tables: vec![],
        });
        assert_eq!(paths.read, [database, folder.path().join("d.db-wal")]);
        assert!(paths.write.is_empty());
    }

    #[test]
    fn a_file_to_make_is_never_made_through_a_link_and_keeps_what_it_holds() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("out");
        let paths = Paths {
            made: Some((path.clone(), 0o600)),
            ..Paths::default()
        };
        paths.prepare().expect("made");
        std::fs::write(&path, b"kept").expect("written");
        paths.prepare().expect("there");
        assert_eq!(std::fs::read(&path).expect("read"), b"kept");
        std::fs::remove_file(&path).expect("removed");
        symlink("elsewhere", &path).expect("linked");
        assert!(paths.prepare().is_err());
        assert!(!folder.path().join("elsewhere").exists());
    }
}
