//! Numbers as people read them.

/// A whole number with a comma before each group of three digits.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_in_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (5_000_000, "5,000,000")] {
            assert_eq!(thousands(number), text);
        }
    }
}
