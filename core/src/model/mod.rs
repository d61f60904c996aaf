//! (model/mod)
