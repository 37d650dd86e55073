//! Draws ranks with Zipf weights in constant time, by Vose's alias table.

use crate::random::SplitMix64;

/// Ranks `0..n` where rank r has the weight 1 / (r+1)^skew.
pub(crate) struct Zipf {
    keep: Vec<u32>,
    other: Vec<u32>,
}

impl Zipf {
    pub(crate) fn new(ranks: u32, skew: f64) -> Self {
        let n = ranks as usize;
        let weights: Vec<f64> = (1..=n).map(|rank| (rank as f64).powf(-skew)).collect();
        let sum: f64 = weights.iter().sum();
        let mut share: Vec<f64> = weights.iter().map(|weight| weight / sum * n as f64).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| share[i] < 1.0);
        let mut keep = vec![u32::MAX; n];
        let mut other: Vec<u32> = (0..ranks).collect();
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            keep[poor] = (share[poor] * f64::from(u32::MAX)) as u32;
            other[poor] = rich as u32;
            share[rich] -= 1.0 - share[poor];
            if share[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Self { keep, other }
    }

    pub(crate) fn draw(&self, random: &mut SplitMix64) -> u32 {
        let i = random.below(self.keep.len() as u64) as usize;
        if (random.next() >> 32) as u32 <= self.keep[i] { i as u32 } else { self.other[i] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_ranks_come_as_often_as_their_weight_says() {
        let (zipf, mut random) = (Zipf::new(100, 1.0), SplitMix64(7));
        let mut seen = [0u32; 100];
        for _ in 0..100_000 {
            seen[zipf.draw(&mut random) as usize] += 1;
        }
        let harmonic: f64 = (1..=100).map(|r| 1.0 / f64::from(r)).sum();
        for rank in [0, 1, 9] {
            let expected = 100_000.0 / harmonic / f64::from(rank + 1);
            let found = f64::from(seen[rank as usize]);
            assert!((found - expected).abs() < 0.1 * expected, "rank {rank}: {found}, expected {expected}");
        }
    }
}
