//! `UnionState`: entries that every subtask gets to see after a restart.
//!
//! The problem: where every subtask is given all entries and writes back what it was given, the union multiplies with
//! each restart, by the number of subtasks; where nobody writes them back, they are lost at the next. So an entry has one
//! owner at any time. What was restored is handed over to be looked at, by [`UnionState::take_restored`], and is no part
//! of what the subtask writes; what it writes is its *own* entries: those that it adds, and the share of the restored ones
//! that it alone was dealt, as with a list. An operator that knows better whose an entry is, as one that owns whatever has
//! its number, says so by [`UnionState::set`].

use super::list::ListState;
use super::pages::Pages;
use crate::model::Data;
use std::sync::{Arc, Mutex, PoisonError};

/// A list of which every subtask sees the entries of all after a restart, and writes only its own.
///
/// Without further ado each restored entry is owned by one subtask, as if the list were dealt out: nothing is lost and
/// nothing multiplies, whatever the parallelism. A clone is another handle to the same state.
///
/// ```
/// use tidegate::api::prelude::*;
///
/// /// Numbers what it sees; after a restart each subtask goes on above what any of them has used.
/// #[derive(Clone, Default)]
/// struct Number { used: Option<UnionState<u64>>, next: u64 }
///
/// impl ProcessFunction<String> for Number {
///     type Out = (u64, String);
///     fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
///         let used = context.union_state::<u64>("used")?;
///         let base = used.take_restored().into_iter().max().map_or(0, |highest| highest + 1);
///         self.next = base + u64::from(context.info().subtask);
///         used.set([self.next]);
///         self.used = Some(used);
///         Ok(())
///     }
///     fn process(&mut self, value: String, context: &Context<'_>, out: &mut Emitter<'_, Self::Out>)
///         -> Result<(), UserError>
///     {
///         out.emit((self.next, value));
///         self.used.as_ref().expect("open has declared it").set([self.next]);
///         self.next += u64::from(context.info().parallelism);
///         Ok(())
///     }
/// }
/// ```
pub struct UnionState<T> {
    pub(super) own: ListState<T>,
    pub(super) restored: Arc<Mutex<Vec<T>>>,
}

impl<T> Clone for UnionState<T> {
    fn clone(&self) -> Self {
        Self { own: self.own.clone(), restored: Arc::clone(&self.restored) }
    }
}

impl<T: Data + Sync> UnionState<T> {
    pub(super) fn new(own: Pages<T>, restored: Vec<T>) -> Self {
        Self { own: ListState(Arc::new(Mutex::new(own))), restored: Arc::new(Mutex::new(restored)) }
    }

    /// The entries of all former subtasks, the same and in the same order in every subtask. They are handed over once:
    /// a second call finds none. Best called in `open`.
    pub fn take_restored(&self) -> Vec<T> {
        std::mem::take(&mut *self.restored.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What this subtask will write at the next barrier.
    pub fn own(&self) -> Vec<T> {
        self.own.entries()
    }

    /// Adds an entry of this subtask's own.
    pub fn add(&self, value: T) {
        self.own.add(value);
    }

    /// Replaces what this subtask owns. Over all subtasks each restored entry should be kept by one at most.
    pub fn set(&self, values: impl IntoIterator<Item = T>) {
        self.own.set(values);
    }

    /// Of what this subtask owns, keeps the entries for which the closure is true.
    pub fn retain(&self, keep: impl Fn(&T) -> bool) {
        self.own.retain(keep);
    }

    /// Removes what this subtask owns.
    pub fn clear(&self) {
        self.own.clear();
    }
}
