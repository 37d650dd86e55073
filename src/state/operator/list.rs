//! `ListState`: entries that are dealt out evenly when the number of subtasks changes.

use super::pages::Pages;
use crate::model::Data;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A list of a subtask's own. After a restart the lists of all former subtasks, one behind the other in the order of
/// their subtasks, are one list that is dealt out: each subtask gets a piece of it, and no two pieces differ in length by
/// more than one. So an operator must not mind which subtask an entry comes to.
///
/// A clone is another handle to the same list.
///
/// ```
/// use tidegate::api::prelude::*;
///
/// /// Emits values in pairs; the one that waits for its partner is state.
/// #[derive(Clone, Default)]
/// struct Pairs { waiting: Option<ListState<u64>> }
///
/// impl ProcessFunction<u64> for Pairs {
///     type Out = (u64, u64);
///     fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
///         self.waiting = Some(context.list_state("waiting")?);
///         Ok(())
///     }
///     fn process(&mut self, value: u64, _: &Context<'_>, out: &mut Emitter<'_, Self::Out>) -> Result<(), UserError> {
///         let waiting = self.waiting.as_ref().expect("open has declared it");
///         waiting.add(value);
///         if let [first, second, rest @ ..] = &waiting.entries()[..] {
///             out.emit((*first, *second));
///             waiting.set(rest.iter().copied());
///         }
///         Ok(())
///     }
/// }
/// ```
pub struct ListState<T>(pub(super) Arc<Mutex<Pages<T>>>);

impl<T> Clone for ListState<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Data + Sync> ListState<T> {
    fn lock(&self) -> MutexGuard<'_, Pages<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry behind the others.
    pub fn add(&self, value: T) {
        self.lock().push(value);
    }

    /// All entries, in the order in which they were added.
    pub fn entries(&self) -> Vec<T> {
        self.lock().iter().cloned().collect()
    }

    /// Replaces all entries.
    pub fn set(&self, values: impl IntoIterator<Item = T>) {
        let pages = values.into_iter().collect();
        *self.lock() = pages;
    }

    /// Keeps the entries for which the closure is true.
    pub fn retain(&self, keep: impl Fn(&T) -> bool) {
        let mut pages = self.lock();
        *pages = pages.iter().filter(|value| keep(value)).cloned().collect();
    }

    /// Removes all entries.
    pub fn clear(&self) {
        *self.lock() = Pages::new();
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
