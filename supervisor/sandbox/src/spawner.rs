//! The one thread that starts processes. It lives as long as the supervisor, because the signal that
//! a worker asks for at its parent's death fires when the *thread* that started it ends.

use std::{
    io,
    process::{Child, Command},
    sync::{Arc, OnceLock, mpsc},
};

use crate::cgroup::Group;

struct Start {
    command: Command,
    /// Where the child is born, if it is bounded.
    group: Option<Arc<Group>>,
    answer: mpsc::SyncSender<io::Result<Child>>,
}

static SPAWNER: OnceLock<Option<mpsc::Sender<Start>>> = OnceLock::new();

fn begin() -> Option<mpsc::Sender<Start>> {
    let (sender, starts) = mpsc::channel::<Start>();
    let body = move || {
        while let Ok(Start {
            mut command,
            group,
            answer,
        }) = starts.recv()
        {
            let stay = group.as_ref().map(|group| group.enter()).transpose();
            let child = stay.and_then(|stay| {
                let child = command.spawn();
                // Home again before the next one is started.
                drop(stay);
                child
            });
            drop(group);
            // The command owns the child's ends of the links: they close before anybody waits for
            // end-of-file on ours.
            drop(command);
            // Whoever asked may have given up; the child then meets closed links and leaves.
            let _ = answer.send(child);
        }
    };
    std::thread::Builder::new()
        .name("spawner".to_owned())
        .spawn(body)
        .ok()?;
    Some(sender)
}

/// Starts `command` from the spawner thread.
pub(crate) fn start(command: Command, group: Option<Arc<Group>>) -> io::Result<Child> {
    let gone = || io::Error::other("the thread that starts processes is gone");
    let sender = SPAWNER.get_or_init(begin).as_ref().ok_or_else(gone)?;
    let (answer, child) = mpsc::sync_channel(1);
    let start = Start {
        command,
        group,
        answer,
    };
    sender.send(start).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}
