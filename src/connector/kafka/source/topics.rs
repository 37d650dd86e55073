//! Which topics a source reads: some by name, or all whose whole name matches a pattern.

use regex::Regex;

/// The choice.
#[derive(Debug, Clone)]
pub(super) enum Topics {
    Named(Vec<String>),
    Pattern {
        /// As the user wrote it.
        text: String,
        /// Anchored at both ends; else what is wrong with it, told by the check at start.
        anchored: Result<Regex, String>,
    },
}

impl Topics {
    pub(super) fn pattern(text: String) -> Self {
        let anchored = Regex::new(&format!("^(?:{text})$")).map_err(|e| e.to_string());
        Self::Pattern { text, anchored }
    }

    /// Whether a topic is among them. Kafka's own topics never match a pattern.
    pub(super) fn contain(&self, topic: &str) -> bool {
        match self {
            Self::Named(names) => names.iter().any(|name| name == topic),
            Self::Pattern { anchored: Ok(regex), .. } => !topic.starts_with("__") && regex.is_match(topic),
            Self::Pattern { .. } => false,
        }
    }

    pub(super) fn problems(&self) -> Vec<String> {
        match self {
            Self::Named(names) if names.is_empty() => {
                vec!["the source has no topics: name some, or give a pattern".to_owned()]
            }
            Self::Named(names) => {
                let twice = |at: usize| names[..at].contains(&names[at]);
                let repeated = (0..names.len()).filter(|at| twice(*at));
                repeated.map(|at| format!("topic {:?} is named twice", names[at])).collect()
            }
            Self::Pattern { text, anchored: Err(problem) } => {
                vec![format!("the topic pattern {text:?} is no regular expression: {problem}")]
            }
            Self::Pattern { .. } => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names_and_never_kafkas_own() {
        let table = [
            ("orders", "orders", true),
            ("orders", "orders-2", false),
            ("orders", "my-orders", false),
            ("a|b", "b", true),
            ("a|b", "ab", false),
            ("orders-.*", "orders-eu", true),
            (".*", "__consumer_offsets", false),
            (".*", "_mine", true),
        ];
        for (pattern, topic, expected) in table {
            assert_eq!(Topics::pattern(pattern.to_owned()).contain(topic), expected, "{pattern} {topic}");
        }
        assert_eq!(Topics::pattern("(".to_owned()).problems().len(), 1);
    }

    #[test]
    fn a_name_given_twice_is_a_mistake() {
        let names = ["a", "b", "a"].map(str::to_owned).to_vec();
        assert_eq!(Topics::Named(names).problems(), ["topic \"a\" is named twice"]);
    }
}
