//! Key groups: the unit in which keyed state moves between subtasks.
//!
//! The arithmetic is Flink's (`KeyGroupRangeAssignment`, `MathUtils.murmurHash`), so that what its users know
//! holds here: `key_group = murmur(hash) % max_parallelism`, `subtask = key_group * parallelism /
//! max_parallelism`. Only the hash of the key differs: XXH3 over its canonical bytes, folded to 32 bits, the
//! same in every process, version and platform; a golden test pins it.

use serde::{Deserialize, Serialize};

/// A key group's number, in `0..max_parallelism`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyGroup(pub u16);

/// How many key groups a job has, 1 to 32768; fixed at its first start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MaxParallelism(u32);

impl MaxParallelism {
    /// The largest, 2^15, as in Flink.
    pub const MAX: u32 = 1 << 15;

    /// # Errors
    /// A text with the range, when `n` is outside of it.
    pub fn new(n: u32) -> Result<Self, String> {
        if n == 0 || n > Self::MAX {
            return Err(format!("the maximum parallelism must be 1 to {}, found {n}", Self::MAX));
        }
        Ok(Self(n))
    }

    /// Flink's default: one and a half times the parallelism, rounded up to a power of two, in 128..=32768.
    pub fn default_for(parallelism: u32) -> Self {
        let wanted = parallelism.saturating_add(parallelism / 2).min(Self::MAX).next_power_of_two();
        Self(wanted.clamp(128, Self::MAX))
    }

    /// As a number.
    pub fn get(self) -> u32 {
        self.0
    }
}

/// The stable 64-bit hash of a key's canonical bytes.
pub fn hash_key(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// The key group of a key with this hash.
pub fn key_group_of(hash: u64, max: MaxParallelism) -> KeyGroup {
    let folded = (hash ^ (hash >> 32)) as u32;
    KeyGroup((murmur(folded) % max.0) as u16)
}

/// The subtask that owns the key group.
pub fn subtask_of(group: KeyGroup, parallelism: u32, max: MaxParallelism) -> u32 {
    u32::from(group.0) * parallelism / max.0
}

/// Murmur3's 32-bit finish over one word, never negative as a signed number (Flink's `MathUtils.murmurHash`).
fn murmur(code: u32) -> u32 {
    let mut h = code.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    h = h.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64) ^ 4;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^= h >> 16;
    (h as i32).checked_abs().unwrap_or(0) as u32
}

/// The key groups of one subtask, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyGroupRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl KeyGroupRange {
    /// What subtask `index` of `parallelism` owns; together they cover `0..max` exactly once.
    ///
    /// # Panics
    /// If the parallelism is zero or above the maximum, or the index is not below it.
    pub fn of_subtask(index: u32, parallelism: u32, max: MaxParallelism) -> Self {
        assert!(
            index < parallelism && parallelism <= max.0,
            "subtask {index} of {parallelism}, maximum {}",
            max.0
        );
        let first = (index * max.0).div_ceil(parallelism);
        let last = ((index + 1) * max.0 - 1) / parallelism;
        Self { first: first as u16, last: last as u16 }
    }

    /// Whether the group is one of them.
    pub fn contains(self, group: KeyGroup) -> bool {
        (self.first..=self.last).contains(&group.0)
    }

    /// How many.
    pub fn count(self) -> usize {
        usize::from(self.last - self.first) + 1
    }

    /// Whether the two have a group in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_hash_and_its_key_group_never_change() {
        let max = MaxParallelism::new(128).unwrap();
        let found: Vec<(&str, u64, u16)> = ["", "a", "/p/47", "order-1"]
            .iter()
            .map(|k| (*k, hash_key(k.as_bytes()), key_group_of(hash_key(k.as_bytes()), max).0))
            .collect();
        let golden = vec![
            // The first two hashes are those of the XXH3 specification's reference program.
            ("", 0x2d06_8005_38d3_94c2, 74),
            ("a", 0xe6c6_32b6_1e96_4e1f, 88),
            ("/p/47", 4_206_560_194_984_219_792, 9),
            ("order-1", 6_900_751_593_513_035_894, 55),
        ];
        assert_eq!(found, golden);
    }

    #[test]
    fn murmur_agrees_with_flinks() {
        for (code, expected) in [(0, 593689054), (1, 68075478), (42, 1134849565), (4294967295, 1982413648)] {
            assert_eq!(murmur(code), expected, "{code}");
        }
    }

    #[test]
    fn default_maximum_is_flinks() {
        for (parallelism, max) in [(1, 128), (85, 128), (86, 256), (128, 256), (30_000, 32_768)] {
            assert_eq!(MaxParallelism::default_for(parallelism).get(), max, "parallelism {parallelism}");
        }
    }

    proptest! {
        #[test]
        fn ranges_cover_every_group_once_and_agree_with_the_routing(max in 1u32..=32_768, p in 1u32..=64) {
            let p = p.min(max);
            let max = MaxParallelism::new(max).unwrap();
            let mut next = 0u32;
            for i in 0..p {
                let range = KeyGroupRange::of_subtask(i, p, max);
                prop_assert_eq!(u32::from(range.first), next);
                for g in [range.first, range.last] {
                    prop_assert_eq!(subtask_of(KeyGroup(g), p, max), i);
                }
                next = u32::from(range.last) + 1;
            }
            prop_assert_eq!(next, max.get());
        }
    }
}
