//! A command's own walls, between the fork and the exec: limits, domain, tripwire.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    net::UdpSocket,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
    path::Path,
};

use nix::{
    errno::Errno,
    sys::{
        prctl,
        resource::{Resource, setrlimit},
        signal::{Signal, kill},
        stat::{Mode, umask},
    },
    unistd::{Pid, execve, getppid, setsid},
};
use protocol::{CommandLimits, Failure, FailureClass, Spawn, jail::Domain};

use crate::{
    calls,
    child::{Note, Stage},
    descriptors,
    domain::{self, Kernel},
    filter,
    poke::Poke,
    sys,
};

/// A command, ready to be started: everything that can be refused before a fork was.
#[derive(Debug)]
pub(crate) struct Command<'a> {
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: &'a Path,
    domain: &'a Domain,
    limits: CommandLimits,
    /// Pids that it must not signal beside hands' and its warden's: the agent's, if it runs, and the
    /// supervisor's, if it is in sight.
    kept: Vec<i32>,
    /// Standard output and error.
    pub(crate) output: OwnedFd,
    /// Standard error, if it is apart.
    pub(crate) errors: Option<OwnedFd>,
    /// The file that is executed, if the view is not asked for it.
    pub(crate) program: Option<OwnedFd>,
    /// Standard input, else `/dev/null`.
    pub(crate) stdin: Option<OwnedFd>,
}

impl<'a> Command<'a> {
    /// Reads an order.
    pub(crate) fn new(order: &'a Spawn, kept: Vec<i32>, streams: Streams) -> Result<Self, Failure> {
        let Streams {
            output,
            stdin,
            errors,
            program,
        } = streams;
        let unfit = |message: &str| Failure {
            class: FailureClass::WrongKind,
            message: format!("the command cannot be started: {message}"),
        };
        let text = |text: &str| CString::new(text).map_err(|_| unfit("a word holds a NUL byte"));
        let argv = order
            .argv
            .iter()
            .map(|word| text(word))
            .collect::<Result<Vec<_>, _>>()?;
        let named = order.argv.first().map(String::as_str).unwrap_or_default();
        if named.is_empty() || (!order.program && !named.starts_with('/')) {
            return Err(unfit("the program is not an absolute path"));
        }
        let pair = |(name, value): &(String, String)| {
            if name.is_empty() || name.contains('=') {
                return Err(unfit("a variable has no name"));
            }
            text(&format!("{name}={value}"))
        };
        let env = order.env.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
        if !order.cwd.starts_with('/') {
            return Err(unfit("its working directory is not an absolute path"));
        }
        let wanted = [order.stdin, order.errors, order.program];
        if wanted != [stdin.is_some(), errors.is_some(), program.is_some()] {
            return Err(unfit("the order and its descriptors disagree"));
        }
        Ok(Self {
            argv,
            env,
            cwd: Path::new(&order.cwd),
            domain: &order.domain,
            limits: order.limits,
            kept,
            output,
            errors,
            program,
            stdin,
        })
    }
}

/// How much commands give way: hands, wardens and the agent of their own session come first.
const NICE: i32 = 5;

/// A program that came as a descriptor, by the kernel's own name for it: an interpreter opens it so too.
const PROGRAM_ITSELF: &CStr = c"/proc/self/fd/3";

/// What a command's order brings along.
#[derive(Debug)]
pub struct Streams {
    /// Standard output; standard error too, unless that is apart.
    pub output: OwnedFd,
    /// Standard input; else `/dev/null`.
    pub stdin: Option<OwnedFd>,
    /// Standard error.
    pub errors: Option<OwnedFd>,
    /// The file to execute.
    pub program: Option<OwnedFd>,
}

impl Streams {
    /// One output for everything, and nothing else.
    #[must_use]
    pub fn of(output: OwnedFd) -> Self {
        Self {
            output,
            stdin: None,
            errors: None,
            program: None,
        }
    }
}

/// Where a start failed, and the errno.
type Failed = (Stage, i32);

fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

/// Becomes the command. `told` closes at exec; what fails before is a note on it.
pub(crate) fn run(kernel: Kernel, hands: i32, command: &Command<'_>, told: OwnedFd) -> ! {
    // Out of the way of the number that a program is given.
    let told = match sys::high(told.as_fd()) {
        Ok(high) => high,
        Err(_) => told,
    };
    let (stage, errno) = become_it(kernel, hands, command, &told);
    Note::Failed { stage, errno }.send(&told);
    sys::leave(0)
}

fn become_it(kernel: Kernel, hands: i32, command: &Command<'_>, told: &OwnedFd) -> Failed {
    if let Err(failed) = raise(kernel, hands, command, told) {
        return failed;
    }
    let Some(program) = command.argv.first().map(CString::as_c_str) else {
        return (Stage::Exec, libc::EINVAL);
    };
    let program = match command.program {
        Some(_) => PROGRAM_ITSELF,
        None => program,
    };
    let Err(errno) = execve(program, &command.argv, &command.env);
    (Stage::Exec, errno as i32)
}

fn raise(kernel: Kernel, hands: i32, command: &Command<'_>, told: &OwnedFd) -> Result<(), Failed> {
    let placed = |error: io::Error| (Stage::Descriptors, errno_of(&error));
    sys::default_signals().map_err(placed)?;
    setsid().map_err(|errno| (Stage::Descriptors, errno as i32))?;
    umask(Mode::from_bits_truncate(0o022));
    match &command.stdin {
        Some(stdin) => sys::place(stdin.as_fd(), 0).map_err(placed)?,
        None => {
            let null = File::open("/dev/null").map_err(placed)?;
            sys::place(null.as_fd(), 0).map_err(placed)?;
        }
    }
    sys::place(command.output.as_fd(), 1).map_err(placed)?;
    let errors = command.errors.as_ref().unwrap_or(&command.output);
    sys::place(errors.as_fd(), 2).map_err(placed)?;
    match &command.program {
        Some(program) => {
            sys::place(program.as_fd(), descriptors::LINK).map_err(placed)?;
            descriptors::close_from(4, &[told.as_fd()]).map_err(placed)?;
        }
        None => descriptors::close_all_but(&[told.as_fd()]).map_err(placed)?,
    }
    limits(command.limits).map_err(|errno| (Stage::Limits, errno as i32))?;
    sys::be_nice(NICE).map_err(|error| (Stage::Limits, errno_of(&error)))?;

    std::env::set_current_dir(command.cwd).map_err(|error| (Stage::Folder, errno_of(&error)))?;
    // A folder outside the root answers with a name that is not absolute.
    let here = std::env::current_dir().map_err(|error| (Stage::Folder, errno_of(&error)))?;
    if !here.is_absolute() {
        return Err((Stage::Folder, libc::EACCES));
    }
    domain::enter(kernel, &domain::grants(command.domain)).map_err(|_| (Stage::Domain, 0))?;
    if !kernel.scopes() {
        let mut kept = vec![hands, getppid().as_raw()];
        kept.extend(&command.kept);
        filter::install(&calls::unscoped(&kept)).map_err(|_| (Stage::Domain, 0))?;
    }
    tripwire(kernel, hands, command.domain)
}

/// The command's limits; what hands itself has is the ceiling.
fn limits(limits: CommandLimits) -> Result<(), Errno> {
    let set = |resource, value: u64| {
        let (_, hard) = nix::sys::resource::getrlimit(resource)?;
        let value = value.min(hard);
        setrlimit(resource, value, value)
    };
    set(Resource::RLIMIT_CORE, 0)?;
    // One second between the signal that explains and the one that ends.
    let cpu = limits.cpu_seconds.max(1);
    setrlimit(Resource::RLIMIT_CPU, cpu, cpu.saturating_add(1))?;
    set(Resource::RLIMIT_FSIZE, limits.file_size)?;
    set(Resource::RLIMIT_NOFILE, limits.open_files)?;
    if limits.data > 0 {
        set(Resource::RLIMIT_DATA, limits.data)?;
    }
    Ok(())
}

/// The tripwire: three calls that must fail, each at another wall, and one that must succeed. It
/// runs in the command's own process after its last wall, so it is about that process and no other.
pub(crate) fn tripwire(kernel: Kernel, hands: i32, domain: &Domain) -> Result<(), Failed> {
    // The filter: nothing else refuses another process' limits.
    match sys::poke(Poke::Prlimit(hands)) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
        Err(error) => return Err((Stage::TripwireFilter, errno_of(&error))),
        Ok(_) => return Err((Stage::TripwireFilter, 0)),
    }
    // The domain: a folder that every account may list and that was not granted.
    match ungranted(domain) {
        Some(folder) => match File::open(folder) {
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => {}
            Err(error) => return Err((Stage::TripwireDomain, errno_of(&error))),
            Ok(_) => return Err((Stage::TripwireDomain, 0)),
        },
        None if kernel.scopes() => match kill(Pid::from_raw(hands), None) {
            Err(Errno::EPERM) => {}
            Err(errno) => return Err((Stage::TripwireDomain, errno as i32)),
            Ok(()) => return Err((Stage::TripwireDomain, 0)),
        },
        None => return Err((Stage::TripwireDomain, 0)),
    }
    // The network: connecting a datagram socket sends nothing, it only asks for a route.
    if let Ok(socket) = UdpSocket::bind("0.0.0.0:0")
        && socket.connect(NOWHERE).is_ok()
    {
        return Err((Stage::TripwireNetwork, 0));
    }
    // And the twin, or a process that can do nothing would pass.
    let null = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open("/dev/null");
    null.map(drop)
        .map_err(|error| (Stage::TripwireTwin, errno_of(&error)))
}

/// An address for documentation: routed by whoever has a default route, answered by nobody.
pub(crate) const NOWHERE: &str = "192.0.2.1:9";

/// A folder of every view that the domain does not grant, not even through a parent.
fn ungranted(domain: &Domain) -> Option<&'static str> {
    let granted = |folder: &str| {
        let lists = [&domain.read, &domain.write, &domain.exec];
        lists
            .into_iter()
            .flatten()
            .any(|path| Path::new(folder).starts_with(path))
    };
    ["/", "/run", "/dev"]
        .into_iter()
        .find(|folder| !granted(folder))
}

/// Executes a program with descriptors exactly 0 to 2 on `/dev/null` and `third` as 3, and an empty
/// environment. Returns only if it failed; `told` closes at exec.
pub(crate) fn exec_plain(
    programs: &[CString],
    argv: &[CString],
    third: &OwnedFd,
    told: &OwnedFd,
) -> io::Error {
    let prepare = || -> io::Result<OwnedFd> {
        let told = sys::high(told.as_fd())?;
        sys::default_signals()?;
        setsid()?;
        descriptors::null_standard()?;
        // Nothing that hands started goes on without it, also where they share no pid namespace.
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        sys::place(third.as_fd(), descriptors::LINK)?;
        descriptors::close_from(4, &[told.as_fd()])?;
        Ok(told)
    };
    let told = match prepare() {
        Ok(told) => told,
        Err(error) => return error,
    };
    let none: [CString; 0] = [];
    let mut failed = Errno::ENOENT;
    for program in programs {
        let Err(errno) = execve(program, argv, &none);
        failed = errno;
        if errno != Errno::ENOENT {
            break;
        }
    }
    Note::Failed {
        stage: Stage::Exec,
        errno: failed as i32,
    }
    .send(&told);
    failed.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(read: &[&str]) -> Domain {
        Domain {
            read: read.iter().map(|&path| path.to_owned()).collect(),
            ..Domain::default()
        }
    }

    #[test]
    fn the_tripwire_asks_for_a_folder_that_was_not_granted() {
        assert_eq!(ungranted(&domain(&["/usr"])), Some("/"));
        assert_eq!(ungranted(&domain(&["/"])), None);
    }

    #[test]
    fn a_bare_process_trips_the_first_wire() {
        let parent = nix::unistd::getppid().as_raw();
        let kernel = domain::kernel(None).expect("landlock");
        let tripped = tripwire(kernel, parent, &domain(&["/usr"]));
        assert!(
            matches!(tripped, Err((Stage::TripwireFilter, _))),
            "{tripped:?}"
        );
    }
}
