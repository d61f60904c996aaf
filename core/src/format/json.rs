//! (json)
