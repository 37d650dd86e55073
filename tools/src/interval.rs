//! Durations on the command line: a whole number and a unit, such as `1s`, `250ms` or `2m`.

use std::time::Duration;

/// Reads a duration; for clap's `value_parser`.
///
/// # Errors
/// Says what was expected and found.
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let milliseconds_per_unit = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return Err(format!("expected a duration like 1s, 250ms or 2m, found {text:?}")),
    };
    let number: u64 = number.parse().map_err(|_| format!("expected a duration like 1s, found {text:?}"))?;
    Ok(Duration::from_millis(number.saturating_mul(milliseconds_per_unit)))
}

/// Writes a duration as [`parse`] reads it, to the millisecond.
pub fn text(duration: Duration) -> String {
    match duration.as_millis() {
        milliseconds if milliseconds > 0 && milliseconds % 1000 == 0 => format!("{}s", milliseconds / 1000),
        milliseconds => format!("{milliseconds}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_alike() {
        for text_form in ["250ms", "1s", "1500ms", "120s"] {
            assert_eq!(text(parse(text_form).unwrap()), text_form);
        }
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
    }

    #[test]
    fn what_is_no_duration_is_refused_by_name() {
        for wrong in ["", "1", "s", "1h", "-1s", "1.5s"] {
            assert!(parse(wrong).unwrap_err().contains(&format!("{wrong:?}")), "{wrong}");
        }
    }
}
