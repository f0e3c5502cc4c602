//! Writes what a session changed as one git-extended patch that `git apply --binary` takes.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;

use nix::sys::stat::Mode;
use protocol::reader::{Change, Finding, Node, NodeKind, TreeKind};
use protocol::{Digest, bounds};
use sha1::{Digest as _, Sha1};
use similar::{DiffOp, group_diff_ops};

use crate::compare;
use crate::content;
use crate::failure::{At, Trouble};
use crate::git85;
use crate::hide::Hide;
use crate::list;
use crate::manifest;
use crate::name;
use crate::place;
use crate::sealed;
use crate::text;
use crate::walk::Tree;
use crate::weigh;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Git's name for content that is not there.
const NOTHING: &str = "0000000000000000000000000000000000000000";

/// What to compare, and where the patch goes.
pub(crate) struct Order<'a> {
    pub(crate) tree: &'a str,
    pub(crate) kind: TreeKind,
    pub(crate) manifest: &'a str,
    pub(crate) workspace: &'a str,
    pub(crate) out: &'a str,
    pub(crate) hide: &'a [String],
    pub(crate) skip: &'a [String],
}

/// Writes the patch and names it by digest.
pub(crate) fn patch(order: &Order<'_>) -> Result<Finding, Trouble> {
    let before = manifest::read(order.manifest)?;
    let tree = sealed::open_root(order.tree)?;
    let workspace = place::open_root(order.workspace)?;
    let skip = order
        .skip
        .iter()
        .map(|path| name::parse(path))
        .collect::<Result<Vec<_>, Trouble>>()?;
    let changes = {
        let lower = list::below(order.kind, Some(&workspace))?;
        compare::compare(&tree, before, &Hide::new(order.hide)?, lower)?.changes
    };
    let mode = Mode::from_bits_truncate(0o644);
    let file = manifest::create(order.out, mode)?;
    let mut out = BufWriter::new(file);
    let written = changes.iter().try_for_each(|change| {
        let path = name::parse(&change.path)?;
        if is_git(&path) || skip.iter().any(|top| name::is_within(&path, top)) {
            return Ok(());
        }
        let old = side(
            &workspace,
            Tree::Live,
            &path,
            change,
            change.before.as_ref(),
        )?;
        let new = side(&tree, Tree::Sealed, &path, change, change.after.as_ref())?;
        sections(&mut out, &path, old, new).at("cannot write", order.out)
    });
    let mut file = out
        .into_inner()
        .map_err(io::IntoInnerError::into_error)
        .at("cannot write", order.out)?;
    if let Err(trouble) = written {
        // Half a patch would apply as if it were whole.
        file.set_len(0).at("cannot empty", order.out)?;
        return Err(trouble);
    }
    finish(&mut file).at("cannot finish", order.out)
}

fn finish(file: &mut File) -> io::Result<Finding> {
    file.sync_data()?;
    file.seek(SeekFrom::Start(0))?;
    let (digest, bytes) = Digest::of_reader(file)?;
    Ok(Finding::Patched { bytes, digest })
}

/// Nothing below a repository's own folder goes into a patch, however it is spelled.
fn is_git(path: &[u8]) -> bool {
    path.split(|b| *b == b'/')
        .any(|part| part.eq_ignore_ascii_case(b".git"))
}

/// One side of a change as git knows it.
struct Blob {
    mode: &'static str,
    content: Vec<u8>,
}

impl Blob {
    /// Git's own name for the content.
    fn id(&self) -> String {
        let mut hash = Sha1::new();
        hash.update(format!("blob {}\0", self.content.len()));
        hash.update(&self.content);
        hash.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Reads one side; a folder is nothing to git.
fn side(
    root: &OwnedFd,
    tree: Tree,
    path: &[u8],
    change: &Change,
    node: Option<&Node>,
) -> Result<Option<Blob>, Trouble> {
    let Some(node) = node.filter(|node| node.kind != NodeKind::Folder) else {
        return Ok(None);
    };
    let shown = || name::shorten(&change.path);
    if node.size > bounds::PATCH_FILE {
        return Err(Trouble::Limit(format!(
            "`{}` has {}, a patch takes files up to {}; apply the change instead",
            shown(),
            weigh::size(node.size),
            weigh::size(bounds::PATCH_FILE)
        )));
    }
    let content = content::read(root, tree, path, node, bounds::PATCH_FILE)
        .at("cannot read", &change.path)?;
    let Some(content) = content else {
        return Err(match tree {
            Tree::Live => Trouble::Moved(format!(
                "`{}` in the workspace is no longer what the session started from; put it back, or \
                 leave it out of the patch",
                shown()
            )),
            Tree::Sealed => Trouble::Hostile(format!(
                "`{}` in the session's tree changed while it was read; end every process of the \
                 session first",
                shown()
            )),
        });
    };
    let mode = match node.kind {
        NodeKind::Symlink => "120000",
        _ if node.mode & 0o100 != 0 => "100755",
        _ => "100644",
    };
    Ok(Some(Blob { mode, content }))
}

/// One change is one section, or two where a file became a link or the other way round.
fn sections(
    out: &mut impl Write,
    path: &[u8],
    old: Option<Blob>,
    new: Option<Blob>,
) -> io::Result<()> {
    let is_link = |blob: &Blob| blob.mode == "120000";
    match (&old, &new) {
        (None, None) => Ok(()),
        (Some(from), Some(to)) if is_link(from) != is_link(to) => {
            section(out, path, old.as_ref(), None)?;
            section(out, path, None, new.as_ref())
        }
        _ => section(out, path, old.as_ref(), new.as_ref()),
    }
}

fn section(
    out: &mut impl Write,
    path: &[u8],
    old: Option<&Blob>,
    new: Option<&Blob>,
) -> io::Result<()> {
    let same = matches!((old, new), (Some(old), Some(new)) if old.content == new.content);
    let modes = matches!((old, new), (Some(old), Some(new)) if old.mode != new.mode);
    if same && !modes {
        // Only permission bits that git does not carry.
        return Ok(());
    }
    let (a, b) = (quote(b"a/", path), quote(b"b/", path));
    out.write_all(b"diff --git ")?;
    out.write_all(&a)?;
    out.write_all(b" ")?;
    out.write_all(&b)?;
    out.write_all(b"\n")?;
    match (old, new) {
        (None, Some(new)) => writeln!(out, "new file mode {}", new.mode)?,
        (Some(old), None) => writeln!(out, "deleted file mode {}", old.mode)?,
        (Some(old), Some(new)) if modes => {
            writeln!(out, "old mode {}\nnew mode {}", old.mode, new.mode)?;
        }
        _ => {}
    }
    if same {
        return Ok(());
    }
    let id = |side: Option<&Blob>| side.map_or_else(|| NOTHING.to_owned(), Blob::id);
    write!(out, "index {}..{}", id(old), id(new))?;
    match (old, new) {
        (Some(old), Some(new)) if old.mode == new.mode => writeln!(out, " {}", new.mode)?,
        _ => writeln!(out)?,
    }
    let content = |side: Option<&Blob>| side.map_or(Vec::new(), |blob| blob.content.clone());
    let (was, is) = (content(old), content(new));
    if !text::is_text(&was) || !text::is_text(&is) {
        out.write_all(b"GIT binary patch\n")?;
        git85::literal(out, &is)?;
        return git85::literal(out, &was);
    }
    if was.is_empty() && is.is_empty() {
        return Ok(());
    }
    let nothing = b"/dev/null".to_vec();
    for (mark, name, there) in [(b"--- ", &a, old.is_some()), (b"+++ ", &b, new.is_some())] {
        out.write_all(mark)?;
        out.write_all(if there { name } else { &nothing })?;
        out.write_all(b"\n")?;
    }
    hunks(out, &text::lines(&was), &text::lines(&is))
}

fn hunks(out: &mut impl Write, old: &[&[u8]], new: &[&[u8]]) -> io::Result<()> {
    for group in group_diff_ops(text::steps(old, new), CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        // An empty range is named by the line before it.
        let start = |range: &std::ops::Range<usize>| range.start + usize::from(!range.is_empty());
        writeln!(
            out,
            "@@ -{},{} +{},{} @@",
            start(&old_range),
            old_range.len(),
            start(&new_range),
            new_range.len()
        )?;
        for step in group {
            if let DiffOp::Equal { .. } = step {
                put(out, b' ', old.get(step.old_range()))?;
                continue;
            }
            put(out, b'-', old.get(step.old_range()))?;
            put(out, b'+', new.get(step.new_range()))?;
        }
    }
    Ok(())
}

fn put(out: &mut impl Write, mark: u8, lines: Option<&[&[u8]]>) -> io::Result<()> {
    for line in lines.unwrap_or_default() {
        out.write_all(&[mark])?;
        out.write_all(line)?;
        if !line.ends_with(b"\n") {
            out.write_all(b"\n\\ No newline at end of file\n")?;
        }
    }
    Ok(())
}

/// A path as git's patches spell it: quoted as in C if it has anything but plain characters.
fn quote(side: &[u8], path: &[u8]) -> Vec<u8> {
    let plain = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\');
    let mut name = side.to_vec();
    if path.iter().all(plain) {
        name.extend_from_slice(path);
        return name;
    }
    name.insert(0, b'"');
    for byte in path {
        match byte {
            b'"' | b'\\' => name.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => name.push(*byte),
            _ => name.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    name.push(b'"');
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(old: Option<(&'static str, &[u8])>, new: Option<(&'static str, &[u8])>) -> String {
        let blob = |side: Option<(&'static str, &[u8])>| {
            side.map(|(mode, content)| Blob {
                mode,
                content: content.to_vec(),
            })
        };
        let mut out = Vec::new();
        sections(&mut out, b"dir/f", blob(old), blob(new)).expect("writes");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_change_of_text_reads_as_git_writes_it() {
        let patch = written(Some(("100644", b"a\nb\nc\n")), Some(("100755", b"a\nB\nc")));
        assert_eq!(
            patch,
            "diff --git a/dir/f b/dir/f\nold mode 100644\nnew mode 100755\n\
             index de980441c3ab03a8c07dda1ad27b8a11f39deb1e..\
             36ef1ba5a79cdfa8b05036e0aa1aab5b21eb0639\n\
             --- a/dir/f\n+++ b/dir/f\n@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+c\n\
             \\ No newline at end of file\n"
        );
    }

    #[test]
    fn a_new_empty_file_and_a_removed_one_have_no_hunks() {
        assert_eq!(
            written(None, Some(("100644", b""))),
            "diff --git a/dir/f b/dir/f\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n"
        );
        let gone = written(Some(("100644", b"x\n")), None);
        assert!(gone.contains("deleted file mode 100644\n"), "{gone}");
        assert!(
            gone.ends_with("--- a/dir/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"),
            "{gone}"
        );
        let link = written(Some(("100644", b"x\n")), Some(("120000", b"y")));
        assert_eq!(link.matches("diff --git").count(), 2);
    }

    #[test]
    fn odd_names_are_quoted_and_a_repositorys_folder_is_known_in_any_case() {
        assert_eq!(quote(b"a/", b"x y\"\t\xff"), b"\"a/x y\\\"\\011\\377\"");
        assert_eq!(quote(b"b/", b"src/main.rs"), b"b/src/main.rs");
        assert!(is_git(b".git/hooks/x") && is_git(b"sub/.GIT") && !is_git(b".gitignore"));
    }
}
