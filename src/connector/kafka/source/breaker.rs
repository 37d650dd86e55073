//! Counts refused records, to tell some bad records from a wrong decoder.

use super::options::Breaker;

/// The state of one subtask's breaker.
pub(super) struct Refusals {
    limits: Breaker,
    in_a_row: u32,
    seen: u32,
    refused: u32,
}

impl Refusals {
    pub(super) fn new(limits: Breaker) -> Self {
        Self { limits, in_a_row: 0, seen: 0, refused: 0 }
    }

    /// A record was decoded.
    pub(super) fn good(&mut self) {
        self.in_a_row = 0;
        self.next();
    }

    /// A record was refused. Tells why this is one too many, if it is.
    pub(super) fn bad(&mut self) -> Option<String> {
        let Breaker { consecutive, ratio, window } = self.limits;
        self.in_a_row += 1;
        self.refused += 1;
        let problem = if self.in_a_row >= consecutive {
            Some(format!(
                "{} records in a row could not be decoded, the limit is {consecutive}",
                self.in_a_row
            ))
        } else if f64::from(self.refused) > ratio * f64::from(window) {
            let percent = ratio * 100.0;
            let (refused, seen) = (self.refused, self.seen + 1);
            Some(format!(
                "{refused} of {seen} records could not be decoded, the limit is {percent} % of {window}"
            ))
        } else {
            None
        };
        self.next();
        problem
    }

    fn next(&mut self) {
        self.seen += 1;
        if self.seen >= self.limits.window {
            self.seen = 0;
            self.refused = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At which record it breaks, where `x` is a refused one.
    fn breaks(limits: Breaker, records: &str) -> Option<usize> {
        let mut refusals = Refusals::new(limits);
        records.chars().position(|record| {
            if record == 'x' {
                return refusals.bad().is_some();
            }
            refusals.good();
            false
        })
    }

    #[test]
    fn it_breaks_at_too_many_in_a_row_or_in_a_window() {
        let row = Breaker { consecutive: 3, ratio: 1.0, window: 4 };
        let ratio = Breaker { consecutive: 100, ratio: 0.5, window: 4 };
        let table = [
            (row, "..xx.xx.", None),
            (row, "..xxx", Some(4)),
            (row, "xxx", Some(2)),
            (ratio, "x.x.x.x.", None),
            (ratio, "x.xx", Some(3)),
            // Windows do not overlap.
            (ratio, "..xxxx..", None),
            (ratio, "..xxxxx", Some(6)),
        ];
        for (limits, records, expected) in table {
            assert_eq!(breaks(limits, records), expected, "{records}");
        }
    }
}
