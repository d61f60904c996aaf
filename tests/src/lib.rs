//! What the integration tests share: generated models, the plain f64 reference and the stored golden values.
//!
//! Nothing here is part of the product. Helpers panic on broken test data instead of returning errors.

pub mod agreement;
pub mod calls;
pub mod engine;
pub mod fuzzing;
pub mod generator;
pub mod goldens;
#[cfg(unix)]
pub mod guard;
pub mod npy;
pub mod proc;
pub mod program;
pub mod quantised;
pub mod random;
pub mod reference;
