//! Walls, tried for real.
fn main() {}
