//! What no single house can promise: the shape of the workspace, and the laws that cross its walls.

pub mod conform;
pub mod fuzz;
pub mod harness;
pub mod lies;
pub mod rates;
pub mod shape;
