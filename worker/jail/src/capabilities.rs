//! All capabilities go, from every set, for ever: the walls assume that nobody inside has one.

use std::io;

use crate::{
    sys,
    unfit::{Step as _, Unfit},
};

/// SECBIT_NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, and the lock of each; KEEP_CAPS stays
/// clear and locked. No exec and no change of ids gives anything back.
const SECUREBITS: u32 = 0b1110_1111;

/// More than any kernel has; the loop ends earlier, at the first number that does not exist.
const CAPABILITIES: u32 = 64;

/// What a reader of a root supervisor keeps: owners of what it copies in and applies.
pub(crate) const OWNERS: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3;

/// Drops everything but `kept`, in the order that works: bounding set and securebits need
/// CAP_SETPCAP, so the sets go last. What cannot be changed because the process has no capability
/// to change it with is checked by reading it back.
pub(crate) fn drop_all_but(kept: u64) -> Result<(), Unfit> {
    let [_, permitted, _] = sys::capabilities().step("read capabilities")?;
    let may_set = permitted & (1 << 8) != 0;
    for capability in 0..CAPABILITIES {
        if kept & (1 << capability) != 0 {
            continue;
        }
        if may_set {
            if !sys::drop_bounding(capability).step("drop the bounding set")? {
                break;
            }
        } else if sys::in_bounding(capability).is_none() {
            break;
        }
    }
    sys::clear_ambient().step("clear ambient capabilities")?;
    if may_set {
        // A reader that keeps some must be able to keep them; nothing it runs can exec anyway.
        sys::set_securebits(SECUREBITS).step("lock securebits")?;
    }
    sys::set_capabilities(kept & permitted).step("drop capabilities")?;
    verify(kept & permitted).step("drop capabilities")
}

/// Reads the sets back.
fn verify(kept: u64) -> io::Result<()> {
    let [effective, permitted, inheritable] = sys::capabilities()?;
    if effective != kept || permitted != kept || inheritable != 0 {
        return Err(io::Error::other(format!(
            "the kernel left {effective:x} effective, {permitted:x} permitted, {inheritable:x} \
             inheritable"
        )));
    }
    Ok(())
}

/// The effective set as hex, read back, for the report.
pub(crate) fn effective_hex() -> Result<String, Unfit> {
    let [effective, ..] = sys::capabilities().step("read capabilities")?;
    Ok(format!("{effective:016x}"))
}
