//! worker-jail
