//! The record as supervisors use it: many at once, killed, without space, tampered with.

#[cfg(test)]
mod audit;
#[cfg(test)]
mod durability;
#[cfg(test)]
mod keeping;
#[cfg(test)]
mod signing;
#[cfg(test)]
mod support;
