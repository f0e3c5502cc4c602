//! worker-hands
