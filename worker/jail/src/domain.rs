//! Landlock domains, at the running kernel's own ABI and with hard requirements only.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
    make_bitflags,
};
use nix::sys::stat::{SFlag, fstat};
use protocol::jail::Domain;

use crate::{sys, unfit::Unfit};

/// The newest ABI whose rights this crate names; a newer kernel is used at this one.
const NEWEST: u32 = 10;

/// The kernel's Landlock, as used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// The ABI: the kernel's, the newest that we know, or the pretended one, whichever is least.
    pub(crate) abi: u32,
    /// Errata bits.
    pub(crate) errata: u32,
}

impl Kernel {
    /// Whether signals and abstract sockets can be scoped.
    pub(crate) fn scopes(self) -> bool {
        self.abi >= 6
    }

    fn as_abi(self) -> ABI {
        ABI::from(i32::try_from(self.abi).unwrap_or_default())
    }
}

/// Asks the kernel.
pub(crate) fn kernel(pretend: Option<u32>) -> Result<Kernel, Unfit> {
    let found = sys::landlock_version(1).map_err(|error| {
        let why = match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => {
                "Landlock is built but not enabled: add `landlock` to the `lsm=` boot parameter"
            }
            Some(libc::ENOSYS) => {
                "the kernel has no Landlock: Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK is \
                 needed (in a container: a seccomp profile that allows calls 444 to 446)"
            }
            _ => "Landlock does not answer",
        };
        Unfit::new("ask for Landlock", format!("{why} ({error})"))
    })?;
    let abi = found.min(NEWEST).min(pretend.unwrap_or(NEWEST));
    if abi == 0 {
        return Err(Unfit::new("ask for Landlock", "an ABI of 0 holds nothing"));
    }
    // Kernels before ABI 7 do not know the question: no bits.
    let errata = sys::landlock_version(2).unwrap_or_default();
    Ok(Kernel { abi, errata })
}

/// One path and what is granted below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant<'a> {
    path: &'a str,
    access: BitFlags<AccessFs>,
}

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
const EXEC: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir | Execute});
/// Everything but device nodes.
const WRITE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | RemoveDir | RemoveFile | MakeDir | MakeReg | MakeSock
    | MakeFifo | MakeSym | Refer | Truncate | ResolveUnix
});
/// A device or a folder of terminals: nothing is made or removed there.
const DEVICE: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | IoctlDev});

/// The nodes that every command may use; each is harmless, and shells need the first.
const NODES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Grants for reading.
pub(crate) fn read<'a>(paths: &[&'a str]) -> Vec<Grant<'a>> {
    paths
        .iter()
        .map(|path| Grant { path, access: READ })
        .collect()
}

/// Grants for reading and writing.
pub(crate) fn write<'a>(paths: &[&'a str]) -> Vec<Grant<'a>> {
    paths
        .iter()
        .map(|path| Grant {
            path,
            access: WRITE,
        })
        .collect()
}

/// Grants for preparing the layer of an overlay: writing, and the marks that look like devices and
/// are none (the kernel refuses every other device to an account).
pub(crate) fn layer<'a>(paths: &[&'a str]) -> Vec<Grant<'a>> {
    let access = WRITE | AccessFs::MakeChar;
    paths.iter().map(|path| Grant { path, access }).collect()
}

/// Grants for executing.
pub(crate) fn exec<'a>(paths: &[&'a str]) -> Vec<Grant<'a>> {
    paths
        .iter()
        .map(|path| Grant { path, access: EXEC })
        .collect()
}

/// The grants of a domain of the treaty, and the harmless nodes.
pub(crate) fn grants(domain: &Domain) -> Vec<Grant<'_>> {
    let mut grants: Vec<Grant<'_>> = NODES
        .iter()
        .map(|path| Grant {
            path,
            access: DEVICE,
        })
        .collect();
    grants.extend(domain.read.iter().map(|path| Grant { path, access: READ }));
    grants.extend(domain.exec.iter().map(|path| Grant { path, access: EXEC }));
    grants.extend(domain.write.iter().map(|path| Grant {
        path,
        access: if path.starts_with("/dev/pts") || path == "/dev/ptmx" {
            DEVICE
        } else {
            WRITE
        },
    }));
    grants
}

/// Why a domain could not be entered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DomainFailure {
    /// A granted path cannot be opened for a reason other than its absence.
    #[error("`{path}` cannot be granted: {source}")]
    Path {
        /// The path.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel does not hold a right that its ABI promises.
    #[error("landlock: {0}")]
    Ruleset(#[from] RulesetError),
    /// The kernel says that not everything is held.
    #[error("landlock is not fully enforced")]
    Partly,
}

/// Enters a domain that grants exactly `grants`: every file right and every TCP right of the ABI is
/// handled, signals and abstract sockets are scoped where the ABI can. A path that is absent is
/// skipped: without its rule less is granted, never more.
pub(crate) fn enter(kernel: Kernel, grants: &[Grant<'_>]) -> Result<(), DomainFailure> {
    let abi = kernel.as_abi();
    let all = AccessFs::from_all(abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)?;
    if kernel.abi >= 4 {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    if kernel.scopes() {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    let mut created = ruleset.create()?;
    for grant in grants {
        let Some((handle, folder)) = open(grant.path)? else {
            continue;
        };
        // Rights that only folders have are an error on a file.
        let mut access = grant.access & all;
        if !folder {
            access &= AccessFs::from_file(abi);
        }
        created = created.add_rule(PathBeneath::new(handle.as_fd(), access))?;
    }
    finish(created)
}

/// Enters a domain that takes no file right a command could use, but is a domain: for wardens,
/// whose commands must not signal or trace them, and which must grant all that a command may get.
pub(crate) fn enter_scope(kernel: Kernel) -> Result<(), DomainFailure> {
    // Device nodes: no grant of ours has them, so handling them here takes nothing away. A layer
    // that handles anything refuses REFER unless it grants it: granted everywhere.
    let mut handled = make_bitflags!(AccessFs::{MakeChar | MakeBlock});
    if kernel.abi >= 2 {
        handled |= AccessFs::Refer;
    }
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)?;
    if kernel.scopes() {
        ruleset = ruleset.scope(Scope::from_all(kernel.as_abi()))?;
    }
    let mut created = ruleset.create()?;
    if kernel.abi >= 2
        && let Some((root, _)) = open("/")?
    {
        created = created.add_rule(PathBeneath::new(root.as_fd(), AccessFs::Refer))?;
    }
    finish(created)
}

fn finish(created: landlock::RulesetCreated) -> Result<(), DomainFailure> {
    let status = created.restrict_self()?;
    if status.ruleset == RulesetStatus::FullyEnforced && status.no_new_privs {
        Ok(())
    } else {
        Err(DomainFailure::Partly)
    }
}

/// A handle on a granted path and whether it is a folder; `None` if nothing is there.
fn open(path: &str) -> Result<Option<(OwnedFd, bool)>, DomainFailure> {
    let failed = |source| DomainFailure::Path {
        path: path.to_owned(),
        source,
    };
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path);
    let handle: OwnedFd = match opened {
        Ok(file) => file.into(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mode = fstat(&handle)
        .map_err(|errno| failed(errno.into()))?
        .st_mode;
    let kind = SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits());
    Ok(Some((handle, kind == SFlag::S_IFDIR)))
}
