//! A stream of clicks that depends on its options alone, for the example `clicks_per_url`.
//!
//! A record looks like `{"user":"u16996","url":"/p/64808","ts":1700000000000,"ref":"https://…"}`, 104 to 115 bytes,
//! with the user as its key. Urls are drawn with Zipf weights: a few are hot, most are rare.

use std::io::Write;

use crate::feed::Stream;
use crate::random::SplitMix64;
use crate::zipf::Zipf;

/// What the stream consists of. Equal options give equal records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How many urls there are, at least 1.
    pub urls: u32,
    /// How many users there are, at least 1.
    pub users: u32,
    /// Zipf exponent of the urls: 0 draws them evenly, 1 is strongly skewed.
    pub skew: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { urls: 100_000, users: 50_000, skew: 0.7, seed: 42 }
    }
}

/// The endless stream of clicks.
pub struct Clicks {
    options: Options,
    random: SplitMix64,
    zipf: Zipf,
    made: u64,
}

const REFERRERS: [&str; 4] = ["search", "newsletter", "direct", "campaign-7"];
/// Time stamps start here and grow by a millisecond every 20 records.
const FIRST_TIMESTAMP_MS: u64 = 1_700_000_000_000;

impl Clicks {
    /// The stream with these options, from its first record.
    ///
    /// # Panics
    /// With no urls or no users.
    pub fn new(options: Options) -> Self {
        assert!(options.urls > 0 && options.users > 0, "a click needs a url and a user: {options:?}");
        let zipf = Zipf::new(options.urls, options.skew);
        Self { options, random: SplitMix64(options.seed), zipf, made: 0 }
    }
}

impl Stream for Clicks {
    fn next_into(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) {
        let urls = u64::from(self.options.urls);
        let user = self.random.below(u64::from(self.options.users));
        // Ranks are spread over the url numbers, so that the hot ones are not neighbours.
        let url = u64::from(self.zipf.draw(&mut self.random)) * (48_271 % urls.max(2)) % urls;
        let random = self.random.next();
        let timestamp = FIRST_TIMESTAMP_MS + self.made / 20;
        let referrer = REFERRERS[(random & 3) as usize];
        let session = (random >> 32) as u32;
        write!(key, "u{user}").expect("memory takes what is written");
        write!(
            value,
            "{{\"user\":\"u{user}\",\"url\":\"/p/{url}\",\"ts\":{timestamp},\
             \"ref\":\"https://www.example.com/landing/{referrer}?s={session:08x}\"}}"
        )
        .expect("memory takes what is written");
        self.made += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(options: Options, records: usize) -> Vec<(String, String)> {
        let mut clicks = Clicks::new(options);
        (0..records)
            .map(|_| {
                let (mut key, mut value) = (Vec::new(), Vec::new());
                clicks.next_into(&mut key, &mut value);
                (String::from_utf8(key).unwrap(), String::from_utf8(value).unwrap())
            })
            .collect()
    }

    #[test]
    fn the_default_stream_is_pinned() {
        let made = first(Options::default(), 20);
        let pinned = (
            "u16996".to_owned(),
            r#"{"user":"u16996","url":"/p/64808","ts":1700000000000,"ref":"https://www.example.com/landing/direct?s=7e348a0e"}"#
                .to_owned(),
        );
        assert_eq!(made.iter().position(|record| *record == pinned), Some(2), "{made:#?}");
    }

    #[test]
    fn equal_options_give_equal_records_and_another_seed_others() {
        let options = Options { urls: 10, users: 5, ..Options::default() };
        assert_eq!(first(options, 100), first(options, 100));
        assert_ne!(first(options, 100), first(Options { seed: 43, ..options }, 100));
    }
}
