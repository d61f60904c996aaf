//! Element types of the format.

use core::fmt;

/// Element type of a tensor, as the header names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dtype {
    /// One byte, 0 or 1
    Bool,
    /// 4-bit float (OCP MX)
    F4,
    /// 6-bit float, 2 bits of exponent (OCP MX)
    F6E2m3,
    /// 6-bit float, 3 bits of exponent (OCP MX)
    F6E3m2,
    /// Unsigned 8-bit integer
    U8,
    /// Signed 8-bit integer
    I8,
    /// 8-bit float, 5 bits of exponent
    F8E5m2,
    /// 8-bit float, 4 bits of exponent
    F8E4m3,
    /// 8-bit exponent (OCP MX)
    F8E8m0,
    /// 8-bit float, 4 bits of exponent, no infinity, no negative zero
    F8E4m3Fnuz,
    /// 8-bit float, 5 bits of exponent, no infinity, no negative zero
    F8E5m2Fnuz,
    /// Signed 16-bit integer
    I16,
    /// Unsigned 16-bit integer
    U16,
    /// IEEE half
    F16,
    /// bfloat16: the upper half of an IEEE single
    Bf16,
    /// Signed 32-bit integer
    I32,
    /// Unsigned 32-bit integer
    U32,
    /// IEEE single
    F32,
    /// Complex number of two IEEE singles
    C64,
    /// IEEE double
    F64,
    /// Signed 64-bit integer
    I64,
    /// Unsigned 64-bit integer
    U64,
}

impl Dtype {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Bool,
        Self::F4,
        Self::F6E2m3,
        Self::F6E3m2,
        Self::U8,
        Self::I8,
        Self::F8E5m2,
        Self::F8E4m3,
        Self::F8E8m0,
        Self::F8E4m3Fnuz,
        Self::F8E5m2Fnuz,
        Self::I16,
        Self::U16,
        Self::F16,
        Self::Bf16,
        Self::I32,
        Self::U32,
        Self::F32,
        Self::C64,
        Self::F64,
        Self::I64,
        Self::U64,
    ];

    /// The name in the header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::F4 => "F4",
            Self::F6E2m3 => "F6_E2M3",
            Self::F6E3m2 => "F6_E3M2",
            Self::U8 => "U8",
            Self::I8 => "I8",
            Self::F8E5m2 => "F8_E5M2",
            Self::F8E4m3 => "F8_E4M3",
            Self::F8E8m0 => "F8_E8M0",
            Self::F8E4m3Fnuz => "F8_E4M3FNUZ",
            Self::F8E5m2Fnuz => "F8_E5M2FNUZ",
            Self::I16 => "I16",
            Self::U16 => "U16",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::I32 => "I32",
            Self::U32 => "U32",
            Self::F32 => "F32",
            Self::C64 => "C64",
            Self::F64 => "F64",
            Self::I64 => "I64",
            Self::U64 => "U64",
        }
    }

    /// Bits of one element.
    pub const fn bits(self) -> u32 {
        match self {
            Self::F4 => 4,
            Self::F6E2m3 | Self::F6E3m2 => 6,
            Self::Bool
            | Self::U8
            | Self::I8
            | Self::F8E5m2
            | Self::F8E4m3
            | Self::F8E8m0
            | Self::F8E4m3Fnuz
            | Self::F8E5m2Fnuz => 8,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 16,
            Self::I32 | Self::U32 | Self::F32 => 32,
            Self::C64 | Self::F64 | Self::I64 | Self::U64 => 64,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
