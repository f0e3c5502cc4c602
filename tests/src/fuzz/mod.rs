//! Fuzzing on stable Rust: each decoder that reads what a stranger wrote is fed with examples, and with
//! what mutation makes of them, within a time, a memory and a size.
//!
//! There is no coverage to steer by. Instead each target says in a few words what it made of an input,
//! and an input that makes it say something new joins the examples. One process runs one target, so
//! that a fault of any kind (panic, abort, stack, memory, hang) ends only that process: the input that
//! was being tried is in a file by then, and its parent keeps it.

mod law;
mod mutate;
mod random;
mod targets;
mod wire;

use std::{
    collections::HashSet,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use mutate::Material;
use nix::sys::resource::{Resource, setrlimit};
use random::Random;

pub use targets::TARGETS;

/// One frame of Bedrock: an event of a name, both checksums right.
#[must_use]
pub fn bedrock_event(name: &str, payload: &[u8]) -> Vec<u8> {
    wire::frame(name.as_bytes(), payload)
}

/// What a target made of an input, in a few words without its content; `None`: nothing to say.
pub type Said = Option<String>;

/// One decoder under fuzzing.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder of examples.
    pub name: &'static str,
    run: fn(&[u8]) -> Said,
}

impl Target {
    const fn new(name: &'static str, run: fn(&[u8]) -> Said) -> Self {
        Self { name, run }
    }

    /// A target by its name; the one with the planted fault only by name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        let mut known = TARGETS.iter().chain([&targets::PLANTED]);
        known.find(|target| target.name == name).copied()
    }

    /// Feeds it one input.
    #[must_use]
    pub fn feed(&self, input: &[u8]) -> Said {
        (self.run)(input)
    }
}

/// How long, how large, from which seed.
#[derive(Debug, Clone)]
pub struct Run {
    /// For how long.
    pub time: Duration,
    /// The same seed makes the same inputs.
    pub seed: u64,
    /// Bytes of one input.
    pub longest: usize,
    /// The file that holds the input that is being tried.
    pub trying: PathBuf,
}

/// What a run without a fault saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Inputs tried.
    pub inputs: u64,
    /// Different things that the target said.
    pub answers: usize,
}

/// Memory of a fuzzing process: a decoder that wants more for inputs of kilobytes is at fault.
pub const MEMORY: u64 = 1024 * 1024 * 1024;
/// Seconds that one input may take.
pub const HANG: u32 = 10;
/// Examples that a run holds.
const EXAMPLES: usize = 4_096;

/// Where the examples of all targets lie.
#[must_use]
pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

/// The examples of a target, in the order of their names, with their files.
///
/// # Errors
/// The folder or a file cannot be read, or there is none.
pub fn examples(name: &str) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let folder = corpus().join(name);
    let entries = std::fs::read_dir(&folder).map_err(|error| {
        io::Error::new(error.kind(), format!("`{}`: {error}", folder.display()))
    })?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort();
    let read = |path: PathBuf| std::fs::read(&path).map(|bytes| (path, bytes));
    let examples = paths
        .into_iter()
        .map(read)
        .collect::<io::Result<Vec<_>>>()?;
    if examples.is_empty() {
        return Err(io::Error::other(format!(
            "`{}` holds no example",
            folder.display()
        )));
    }
    Ok(examples)
}

/// Fuzzes one target in this process, which its limits then belong to. A fault ends the process.
///
/// # Errors
/// The examples cannot be read, the file of the input cannot be written, a limit cannot be set.
pub fn fuzz(target: Target, run: &Run) -> io::Result<Seen> {
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    let trying = File::create(&run.trying)?;
    let mut known: Vec<Vec<u8>> = examples(target.name)?
        .into_iter()
        .map(|(_, bytes)| bytes)
        .collect();
    let words = mutate::words(&known);
    let mut random = Random::new(run.seed);
    let mut answers: HashSet<String> = HashSet::new();
    let mut inputs = 0_u64;
    let end = Instant::now() + run.time;
    let mut try_one = |input: &[u8]| -> io::Result<bool> {
        keep(&trying, input)?;
        // The default action of its signal ends the process: one input took too long.
        nix::unistd::alarm::set(HANG);
        inputs = inputs.saturating_add(1);
        Ok(target.feed(input).is_some_and(|said| answers.insert(said)))
    };
    for example in &known {
        try_one(example)?;
    }
    while Instant::now() < end {
        let (Some(base), Some(other)) = (random.pick(&known), random.clone().pick(&known)) else {
            break;
        };
        let material = Material {
            other,
            words: &words,
            longest: run.longest,
        };
        let input = mutate::mutate(base, material, &mut random);
        if try_one(&input)? && known.len() < EXAMPLES {
            known.push(input);
        }
    }
    nix::unistd::alarm::cancel();
    Ok(Seen {
        inputs,
        answers: answers.len(),
    })
}

/// Eight bytes of length, then the input: a shorter one leaves the tail of a longer one behind.
fn keep(trying: &File, input: &[u8]) -> io::Result<()> {
    let length = u64::try_from(input.len()).unwrap_or(u64::MAX);
    let whole = [&length.to_be_bytes()[..], input].concat();
    trying.write_all_at(&whole, 0)
}

/// The input that a process was trying when it ended; `None` if it never came to one.
#[must_use]
pub fn kept(trying: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(trying).ok()?;
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
    rest.get(..length).map(<[u8]>::to_vec)
}

/// A sentence without numbers and without a stranger's words, so that the same fault reads the same:
/// what is quoted is the stranger's, unless it is the name of something missing.
#[must_use]
pub fn gist(text: &str) -> String {
    let ours = text.contains("missing field");
    let letters = text
        .chars()
        .take_while(|letter| ours || !matches!(letter, '`' | '"'));
    letters
        .filter(|letter| !letter.is_ascii_digit())
        .take(60)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gist_has_neither_numbers_nor_the_strangers_words() {
        let one = gist("unknown field `abc1`, expected `id` at line 1 column 17");
        let two = gist("unknown field `zz`, expected `id` at line 3 column 2");
        assert_eq!(one, two);
    }

    #[test]
    fn what_was_tried_is_kept_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trying");
        assert_eq!(kept(&path), None);
        let file = File::create(&path).expect("a file");
        keep(&file, b"a longer input").expect("written");
        keep(&file, b"short").expect("written");
        assert_eq!(kept(&path).as_deref(), Some(&b"short"[..]));
    }
}
