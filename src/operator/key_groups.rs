//! The number of key groups of a keyed operator: given by the user, else that of its checkpoint, else the default.

use crate::model::MaxParallelism;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Shared by the operator and the exchange in front of it; chosen once, when the job has read its checkpoint.
#[derive(Clone, Default)]
pub struct KeyGroups {
    given: Arc<Mutex<Option<MaxParallelism>>>,
    chosen: Arc<OnceLock<MaxParallelism>>,
}

impl KeyGroups {
    /// Those of another operator on the same stream: the same word of the user's, and a choice of their own.
    #[must_use]
    pub fn of_another_operator(&self) -> Self {
        let given = *self.given.lock().unwrap_or_else(PoisonError::into_inner);
        Self { given: Arc::new(Mutex::new(given)), chosen: Arc::default() }
    }

    /// The user's word.
    pub fn give(&self, max: MaxParallelism) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(max);
    }

    /// Chooses, given what the newest checkpoint has and the operator's parallelism.
    ///
    /// # Errors
    /// A text, when the user's word contradicts the checkpoint, or the parallelism is above the maximum.
    pub fn choose(
        &self,
        checkpoint: Option<MaxParallelism>,
        parallelism: u32,
    ) -> Result<MaxParallelism, String> {
        let given = *self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let max = match (given, checkpoint) {
            (Some(given), Some(then)) if given != then => {
                return Err(format!(
                    "it was started with a maximum parallelism of {}, which is fixed at the first start; this job says {}. Set \
                     it to {} or leave it out",
                    then.get(),
                    given.get(),
                    then.get()
                ));
            }
            (given, checkpoint) => {
                checkpoint.or(given).unwrap_or_else(|| MaxParallelism::default_for(parallelism))
            }
        };
        if parallelism > max.get() {
            return Err(format!(
                "a parallelism of {parallelism} is above its maximum parallelism of {}",
                max.get()
            ));
        }
        let chosen = *self.chosen.get_or_init(|| max);
        assert_eq!(chosen, max, "the number of key groups does not change while a process runs");
        Ok(chosen)
    }

    /// What was chosen.
    ///
    /// # Panics
    /// If nothing was chosen yet: tasks are built after that.
    pub fn get(&self) -> MaxParallelism {
        *self.chosen.get().expect("key groups are chosen before tasks are built")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_on_one_keyed_stream_choose_for_themselves() {
        let stream = KeyGroups::default();
        let (narrow, wide) = (stream.of_another_operator(), stream.of_another_operator());
        assert_eq!(narrow.choose(None, 1).unwrap().get(), 128);
        assert_eq!(wide.choose(None, 200).unwrap().get(), 512);
        assert_eq!(narrow.get().get(), 128);
    }

    #[test]
    fn the_checkpoint_decides_unless_the_user_contradicts_it() {
        let max = |n| MaxParallelism::new(n).unwrap();
        let table = [
            (None, None, 1, Ok(128)),
            (None, Some(64), 1, Ok(64)),
            (Some(64), None, 1, Ok(64)),
            (Some(64), Some(64), 64, Ok(64)),
            (Some(64), Some(128), 1, Err("128")),
            (Some(2), None, 3, Err("above")),
        ];
        for (given, checkpoint, parallelism, expected) in table {
            let groups = KeyGroups::default();
            if let Some(given) = given {
                groups.give(max(given));
            }
            match (groups.choose(checkpoint.map(max), parallelism), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.get(), expected),
                (Err(text), Err(part)) => assert!(text.contains(part), "{text}"),
                (found, expected) => panic!("{found:?}, expected {expected:?}"),
            }
        }
    }
}
