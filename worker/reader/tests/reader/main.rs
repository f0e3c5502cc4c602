//! What a reader does, seen from outside: real trees, real databases, real races.

#[cfg(test)]
mod apply;
#[cfg(test)]
mod copy;
#[cfg(test)]
mod list;
#[cfg(test)]
mod patch;
#[cfg(test)]
mod race;
#[cfg(test)]
mod remove;
#[cfg(test)]
mod sql;
#[cfg(test)]
mod support;
#[cfg(test)]
mod upper;
