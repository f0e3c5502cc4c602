//! The built programs: where the environment says, else where this build has put them.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use super::fail;

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `provost`.
    pub provost: PathBuf,
    /// `provost-worker`, static.
    pub worker: PathBuf,
}

/// Finds the programs once: `PROVOST_BIN` and `PROVOST_WORKER`, else the target folder that this test
/// was built into; the newest of debug and release.
pub fn programs() -> &'static Programs {
    static FOUND: OnceLock<Programs> = OnceLock::new();
    FOUND.get_or_init(|| {
        let target = target();
        let triple = target.join(format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
        Programs {
            provost: find("PROVOST_BIN", &target, "provost"),
            worker: find("PROVOST_WORKER", &triple, "provost-worker"),
        }
    })
}

/// TARGET of TARGET/PROFILE/deps/this-test.
fn target() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let mut above = own.ancestors().skip(1);
    let folder = above.find(|folder| folder.ends_with("debug") || folder.ends_with("release"));
    folder.and_then(Path::parent).map_or_else(
        || fail("this test lies in no target folder: set PROVOST_BIN"),
        Path::to_owned,
    )
}

fn find(variable: &str, folder: &Path, name: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        if path.is_file() {
            return path;
        }
        fail(&format!(
            "{variable} is `{}`, and no such file is there",
            path.display()
        ));
    }
    let built = ["debug", "release"].map(|profile| folder.join(profile).join(name));
    let newest = built
        .iter()
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max();
    newest.map_or_else(
        || {
            fail(&format!(
                "`{name}` is not built below `{}`: run `make build`, or set {variable}",
                folder.display()
            ))
        },
        |(_, path)| path.clone(),
    )
}
