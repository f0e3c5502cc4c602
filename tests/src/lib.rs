//! provost-tests
