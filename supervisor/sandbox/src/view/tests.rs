//! Views drawn for odd workspaces, homes and policies.

use std::collections::BTreeMap;

use policies::{Confinement, Filesystem, Limits, Mode, Models, Network, Settings, WorkspaceMode};

use super::*;

fn settings(read: &[&str], write: &[&str]) -> Settings {
    let list = |paths: &[&str]| paths.iter().map(|&path| path.to_owned()).collect();
    Settings {
        mode: Mode::OnRequest,
        confinement: Confinement {
            backend: policies::Backend::Landlock,
            image: None,
            runtime: None,
            namespaces: true,
            workspace: Some(WorkspaceMode::Copy),
            rights: BTreeMap::new(),
        },
        filesystem: Filesystem {
            read: list(read),
            write: list(write),
            ..Filesystem::default()
        },
        network: Network::default(),
        limits: Limits {
            memory: bounds::MEMORY,
            processes: 100,
            cpu: None,
            disk: 1000,
            wall: 60,
            output: 1,
            turns: 1,
            iterations: 1,
            ..Limits::default()
        },
        models: Models::default(),
        databases: Vec::new(),
        hooks: Vec::new(),
    }
}

fn host() -> Host {
    Host {
        trees: vec!["/usr".to_owned()],
        links: vec![("/bin".to_owned(), "usr/bin".to_owned())],
        etc: vec![("/etc/ld.so.cache".to_owned(), "/etc/ld.so.cache".to_owned())],
        etc_links: vec![(
            "/etc/localtime".to_owned(),
            "/usr/share/zoneinfo/UTC".to_owned(),
        )],
    }
}

fn drawn(
    workspace: &str,
    home: &str,
    private: &[&str],
    settings: &Settings,
) -> Result<JailSpec, ViewError> {
    let session = SessionId::parse("s-1").expect("valid");
    let private: Vec<PathBuf> = private.iter().map(PathBuf::from).collect();
    let place = SessionPlace {
        session: &session,
        workspace: Path::new(workspace),
        tree: Path::new("/state/sessions/s-1/tree"),
        overlay: None,
        situation: Situation::Namespaces,
        doors: Doors::default(),
        settings,
        identity: Some(Identity {
            uid: 61_200,
            gid: 61_200,
        }),
        own_reach: false,
        home: Path::new(home),
        private: &private,
    };
    jail_spec(&place, &host())
}

fn target(mount: &Mount) -> Option<&str> {
    match mount {
        Mount::ReadOnly { target, .. }
        | Mount::Writable { target, .. }
        | Mount::Overlay { target, .. }
        | Mount::Tmpfs { target, .. }
        | Mount::Link { target, .. }
        | Mount::File { target, .. } => Some(target),
        Mount::Device { .. } | Mount::Terminals | Mount::Proc | Mount::Worker => None,
    }
}

fn position(spec: &JailSpec, path: &str) -> usize {
    spec.view
        .iter()
        .position(|mount| target(mount) == Some(path))
        .expect(path)
}

#[test]
fn home_is_mounted_before_the_workspace_below_it() {
    let spec = drawn("/home/u/project", "/home/u", &[], &settings(&[], &[])).expect("drawn");
    assert_eq!(spec.home, "/home/u");
    assert!(position(&spec, "/home/u") < position(&spec, "/home/u/project"));
    let spec = drawn("/tmp/w", "/home/u", &[], &settings(&[], &[])).expect("drawn");
    assert!(position(&spec, "/tmp") < position(&spec, "/tmp/w"));
    // The workspace is HOME itself, or holds it: HOME goes elsewhere.
    for (workspace, home) in [("/home/u", "/home/agent"), ("/home", "/run/home")] {
        let spec = drawn(workspace, "/home/u", &[], &settings(&[], &[])).expect("drawn");
        assert_eq!(spec.home, home, "{workspace}");
    }
    for home in ["/", "/usr/home", "relative", "/home/../etc", "/etc/home"] {
        let spec = drawn("/srv/w", home, &[], &settings(&[], &[])).expect("drawn");
        assert_eq!(spec.home, "/home/agent", "{home}");
    }
}

#[test]
fn only_the_session_itself_is_writable_and_nothing_of_the_host_comes_unlisted() {
    let spec = drawn("/srv/w", "/home/u", &[], &settings(&[], &["/var/cache/x"])).expect("drawn");
    let writable: Vec<_> = spec
        .view
        .iter()
        .filter(|mount| matches!(mount, Mount::Writable { .. }))
        .collect();
    let own = Mount::Writable {
        source: "/state/sessions/s-1/tree".to_owned(),
        target: "/srv/w".to_owned(),
    };
    assert_eq!(writable, [&own]);
    assert_eq!(
        spec.ceiling.write,
        [
            "/srv/w",
            "/tmp",
            "/home/u",
            "/var/cache/x",
            "/dev/shm",
            "/dev/pts",
            "/dev/ptmx"
        ]
    );
    assert_eq!(spec.agent_read, ["/srv/w", WORKER_INSIDE]);
    assert_eq!((spec.limits.processes, spec.limits.file_size), (100, 1000));
    let sources: Vec<_> = spec
        .view
        .iter()
        .filter_map(|mount| match mount {
            Mount::ReadOnly { source, .. } => Some(source.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(sources, ["/usr", "/etc/ld.so.cache"]);
    assert!(spec.view.contains(&Mount::Worker));
    let Mount::File { content, .. } = &spec.view[position(&spec, "/etc/passwd")] else {
        panic!("a file")
    };
    assert!(
        content.contains("agent:x:61200:61200:agent:/home/u:"),
        "{content}"
    );
    let environment = command_environment(&spec);
    assert!(environment.contains(&("HOME".to_owned(), "/home/u".to_owned())));
}

#[test]
fn a_workspace_that_would_cover_the_view_or_uncover_us_is_refused() {
    let places = ["/home/u/.config/provost", "/home/u/.local/state/provost"];
    for workspace in [
        "/",
        "/usr",
        "/etc",
        "/tmp",
        "/dev",
        "/proc/1/root",
        "/run/x",
        "w",
        "/srv/../etc",
        "/nix",
    ] {
        let error = drawn(workspace, "/home/u", &[], &settings(&[], &[])).expect_err(workspace);
        assert!(matches!(error, ViewError::Workspace { .. }), "{workspace}");
    }
    for workspace in [
        "/home/u",
        "/home",
        places[0],
        "/home/u/.config/provost/keys",
    ] {
        let error = drawn(workspace, "/home/u", &places, &settings(&[], &[])).expect_err(workspace);
        assert!(
            error.to_string().contains("Provost's own places"),
            "{error}"
        );
    }
    drawn(
        "/home/u/.config-provost",
        "/home/u",
        &places,
        &settings(&[], &[]),
    )
    .expect("a neighbour");
}

#[test]
fn a_tree_of_the_policy_is_added_unless_it_holds_what_is_kept() {
    let folder = tempfile::tempdir().expect("folder");
    let real = folder.path().canonicalize().expect("real");
    let at = |name: &str| real.join(name).to_str().expect("utf-8").to_owned();
    for name in ["tools", "state/provost", "w/vendor"] {
        std::fs::create_dir_all(real.join(name)).expect("made");
    }
    std::os::unix::fs::symlink(real.join("state/provost"), real.join("sly")).expect("linked");
    let private = at("state/provost");
    let draw = |tree: &str| drawn(&at("w"), "/home/u", &[&private], &settings(&[tree], &[]));
    let spec = draw(&at("tools")).expect("drawn");
    assert!(spec.ceiling.exec.contains(&at("tools")));
    assert!(position(&spec, &at("tools")) < position(&spec, &at("w")));
    // Inside the workspace it is the session's copy, and what is not there is not in the view.
    for tree in [at("w/vendor"), at("missing")] {
        let spec = draw(&tree).expect("drawn");
        assert!(
            spec.view
                .iter()
                .all(|mount| target(mount) != Some(tree.as_str()))
        );
    }
    for tree in [
        at("state"),
        at("state/provost"),
        at("sly"),
        "/".into(),
        "/proc".into(),
        "/run".into(),
    ] {
        assert!(
            matches!(draw(&tree), Err(ViewError::Tree { list: "read", .. })),
            "{tree}"
        );
    }
    assert!(draw("tools").is_err() && draw(&at("tools/..")).is_err());
    for folder in ["/usr/local/cache", "/etc/x", "/srv", "x"] {
        let settings = settings(&[], &[folder]);
        let error = drawn("/srv/w", "/home/u", &[], &settings).expect_err(folder);
        assert!(
            matches!(error, ViewError::Tree { list: "write", .. }),
            "{folder}"
        );
    }
}

#[test]
fn this_machine_has_programs_and_no_secret_of_etc() {
    let host = Host::look();
    assert!(host.trees.iter().any(|tree| tree == "/usr"));
    let names = host
        .etc
        .iter()
        .chain(&host.etc_links)
        .map(|(name, _)| name.as_str());
    for name in names {
        for secret in [
            "/etc/shadow",
            "/etc/gshadow",
            "/etc/ssh",
            "/etc/ssl/private",
            "/etc/passwd",
        ] {
            assert!(!below(name, secret) && !below(secret, name), "{name}");
        }
    }
}
