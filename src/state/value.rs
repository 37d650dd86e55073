//! `ValueState`: at most one value for each key.

use super::{Error, KeyedState};
use crate::model::Data;
use std::marker::PhantomData;

/// A handle to a named state of one value per key; declared once in `open`, used with the current key.
pub struct ValueState<V> {
    pub(super) index: usize,
    pub(super) of: PhantomData<fn() -> V>,
}

impl<V> Clone for ValueState<V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V> Copy for ValueState<V> {}

impl<V: Data + Sync> ValueState<V> {
    /// The current key's value.
    ///
    /// # Errors
    /// [`Error::NoKey`] outside of a record, [`Error::ForeignHandle`] in another operator.
    pub fn get(&self, state: &mut impl AsMut<KeyedState>) -> Result<Option<V>, Error> {
        let (table, key) = state.as_mut().table::<V>(self.index)?;
        Ok(table.get(key).cloned())
    }

    /// Replaces the current key's value.
    ///
    /// # Errors
    /// As [`ValueState::get`], and [`Error::KeyTooLong`].
    pub fn set(&self, state: &mut impl AsMut<KeyedState>, value: V) -> Result<(), Error> {
        let (table, key) = state.as_mut().table::<V>(self.index)?;
        table.set(key, value)
    }

    /// Removes the current key's value.
    ///
    /// # Errors
    /// As [`ValueState::get`].
    pub fn clear(&self, state: &mut impl AsMut<KeyedState>) -> Result<(), Error> {
        let (table, key) = state.as_mut().table::<V>(self.index)?;
        table.remove(key);
        Ok(())
    }
}
