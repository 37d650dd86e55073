//! How user code is opened: it declares state, and what the checkpoint has of it is restored.

use super::process::user_failure;
use super::{BuildContext, FrozenPart, OpenContext, UserError};
use crate::model::{Advice, Failure, OperatorUid};
use crate::state::{self, KeyedState, OperatorStates, WriteRight};
use crate::storage;

/// The state of an operator's subtask that belongs to no key.
pub(super) struct OwnState(OperatorStates);

impl OwnState {
    pub(super) fn new(context: &BuildContext) -> Self {
        Self(OperatorStates::new(context.info.subtask))
    }

    /// Calls the user's `open`, with everything restored: operator state is there when it is declared, keyed state when
    /// `open` has returned, and nothing of either is left without a declaration.
    pub(super) fn open(
        &mut self,
        context: &mut BuildContext,
        mut keyed: Option<&mut KeyedState>,
        open: impl FnOnce(&mut OpenContext<'_>) -> Result<(), UserError>,
    ) -> Result<(), Failure> {
        let place = context.info.place();
        let restored =
            |result: Result<(), state::Error>| result.map_err(|e| unrestorable(Failure::from(e)).at(&place));
        restored(self.0.load(std::mem::take(&mut context.operator), &*context.store))?;
        let operator = &mut self.0;
        let mut opening = OpenContext {
            info: &context.info,
            state: keyed.as_deref_mut(),
            operator,
            right: WriteRight::new(),
        };
        open(&mut opening).map_err(|e| user_failure(&e, &format!("{place} in open")))?;
        restored(self.0.all_declared())?;
        for handle in std::mem::take(&mut context.keyed) {
            let state = keyed.as_deref_mut().expect("only a keyed operator is given keyed state");
            let bytes = handle.read(&*context.store).map_err(|e| unreadable(e).at(&place))?;
            restored(state.restore(&handle.describe(), &bytes))?;
        }
        Ok(())
    }

    /// What it froze.
    pub(super) fn freeze(&self, uid: &OperatorUid) -> (OperatorUid, FrozenPart) {
        (uid.clone(), FrozenPart::Operator(self.0.freeze()))
    }
}

/// Why a file of state cannot be read.
fn unreadable(e: storage::Error) -> Failure {
    unrestorable(Failure::from(state::Error::from(e)))
}

/// With the way out, if state is damaged or gone.
fn unrestorable(failure: Failure) -> Failure {
    if failure.advice != Advice::DataIsCorrupt {
        return failure;
    }
    let text = failure.text;
    Failure::new(
        Advice::DataIsCorrupt,
        format!(
            "its state cannot be restored: {text}. Starting from an older checkpoint would repeat output that is already \
             committed, so this is refused; restore the file, or start with --fresh to begin anew without any state"
        ),
    )
}
