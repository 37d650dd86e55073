//! Randomness for names and for jitter; never for anything that must be the same twice.

/// Sixteen hexadecimal digits, different at every call with overwhelming probability.
pub fn token() -> String {
    format!("{:016x}", fastrand::u64(..))
}

/// A number in `0.0..1.0`.
pub fn fraction() -> f64 {
    fastrand::f64()
}
