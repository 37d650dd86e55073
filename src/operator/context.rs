//! What user code can learn about its place, and what it declares when it is opened.

use crate::connector::Origins;
use crate::host::metrics::Metrics;
use crate::model::serializer::Postcard;
use crate::model::{Attempt, Data, JobId, Key, OperatorUid, Origin, Serializer};
use crate::state::{
    self, BroadcastState, KeyedState, ListState, OperatorStates, UnionState, ValueState, WriteRight,
};
use prometheus::{IntCounter, IntGauge};
use std::sync::Arc;

/// Which instance of which operator this is.
#[derive(Clone)]
pub struct SubtaskInfo {
    /// The job.
    pub job: JobId,
    /// The operator.
    pub uid: OperatorUid,
    /// Its name, for people.
    pub name: String,
    /// The instance, from 0.
    pub subtask: u32,
    /// How many instances there are.
    pub parallelism: u32,
    /// How often the job was started in this process.
    pub attempt: Attempt,
    /// Where metrics are kept.
    pub metrics: Metrics,
}

impl SubtaskInfo {
    /// The operator and its subtask in words, for messages.
    pub fn place(&self) -> String {
        format!("operator {} ({}) subtask {} of {}", self.uid, self.name, self.subtask, self.parallelism)
    }

    /// A counter of this subtask, named `tidegate_user_NAME`; it goes on after a restart within the process.
    ///
    /// # Errors
    /// When the name is no metric name, or is taken by another kind.
    pub fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        let (name, subtask) = (format!("tidegate_user_{name}"), self.subtask.to_string());
        self.metrics.counter(&name, help, &[("operator", &self.uid.0), ("subtask", &subtask)])
    }

    /// A gauge of this subtask, named `tidegate_user_NAME`.
    ///
    /// # Errors
    /// As [`SubtaskInfo::counter`].
    pub fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        let (name, subtask) = (format!("tidegate_user_{name}"), self.subtask.to_string());
        self.metrics.gauge(&name, help, &[("operator", &self.uid.0), ("subtask", &subtask)])
    }
}

/// Given to user code when it is opened.
pub struct OpenContext<'a> {
    pub(super) info: &'a SubtaskInfo,
    pub(super) state: Option<&'a mut KeyedState>,
    pub(super) operator: &'a mut OperatorStates,
    pub(super) right: WriteRight,
}

impl AsRef<WriteRight> for OpenContext<'_> {
    fn as_ref(&self) -> &WriteRight {
        &self.right
    }
}

impl OpenContext<'_> {
    /// Which instance this is.
    pub fn info(&self) -> &SubtaskInfo {
        self.info
    }

    /// Declares a state of one value per key under a name; the name and the operator's uid find it again.
    ///
    /// # Errors
    /// [`state::Error::NotKeyed`] in an operator that is not behind `key_by`; [`state::Error::DeclaredTwice`].
    pub fn value_state<V: Data + Sync>(&mut self, name: &str) -> Result<ValueState<V>, state::Error> {
        match &mut self.state {
            Some(state) => state.value(name),
            None => Err(state::Error::NotKeyed { state: name.to_owned() }),
        }
    }

    /// Declares a list of this subtask's own, which is dealt out evenly when the number of subtasks changes. What the
    /// checkpoint has of it is in it already.
    ///
    /// # Errors
    /// [`state::Error::DeclaredTwice`]; [`state::Error::Redistributed`] if the checkpoint has it in another mode;
    /// [`state::Error::Serializer`] if it was written by something else.
    pub fn list_state<T: Data + Sync>(&mut self, name: &str) -> Result<ListState<T>, state::Error> {
        self.list_state_with(name, Postcard::default())
    }

    /// As [`OpenContext::list_state`], with a serializer of one's own.
    ///
    /// # Errors
    /// As there.
    pub fn list_state_with<T: Data + Sync>(
        &mut self,
        name: &str,
        serializer: impl Serializer<T> + 'static,
    ) -> Result<ListState<T>, state::Error> {
        self.operator.list(name, Arc::new(serializer))
    }

    /// Declares a list of which every subtask sees the entries of all after a restart, and writes only its own.
    ///
    /// # Errors
    /// As [`OpenContext::list_state`].
    pub fn union_state<T: Data + Sync>(&mut self, name: &str) -> Result<UnionState<T>, state::Error> {
        self.union_state_with(name, Postcard::default())
    }

    /// As [`OpenContext::union_state`], with a serializer of one's own.
    ///
    /// # Errors
    /// As [`OpenContext::list_state`].
    pub fn union_state_with<T: Data + Sync>(
        &mut self,
        name: &str,
        serializer: impl Serializer<T> + 'static,
    ) -> Result<UnionState<T>, state::Error> {
        self.operator.union(name, Arc::new(serializer))
    }

    /// Declares a map that is the same on every subtask.
    ///
    /// # Errors
    /// As [`OpenContext::list_state`].
    pub fn broadcast_state<K: Key + ?Sized + 'static, V: Data + Sync>(
        &mut self,
        name: &str,
    ) -> Result<BroadcastState<K, V>, state::Error> {
        self.broadcast_state_with(name, Postcard::default())
    }

    /// As [`OpenContext::broadcast_state`], with a serializer of one's own for the values; keys are written as their
    /// canonical bytes.
    ///
    /// # Errors
    /// As [`OpenContext::list_state`].
    pub fn broadcast_state_with<K: Key + ?Sized + 'static, V: Data + Sync>(
        &mut self,
        name: &str,
        serializer: impl Serializer<V> + 'static,
    ) -> Result<BroadcastState<K, V>, state::Error> {
        self.operator.broadcast(name, Arc::new(serializer))
    }

    /// A counter of this subtask, named `tidegate_user_NAME`; keep it, and only add to it while processing.
    ///
    /// # Errors
    /// When the name is no metric name, or is taken by another kind.
    pub fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        self.info.counter(name, help)
    }

    /// A gauge of this subtask.
    ///
    /// # Errors
    /// As [`OpenContext::counter`].
    pub fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        self.info.gauge(name, help)
    }
}

/// Given to user code with each record.
pub struct Context<'a> {
    pub(super) info: &'a Arc<SubtaskInfo>,
    pub(super) origins: &'a Origins,
    pub(super) timestamp: i64,
    pub(super) origin: Origin,
}

impl Context<'_> {
    /// Which instance this is.
    pub fn info(&self) -> &SubtaskInfo {
        self.info
    }

    /// The record's event time in milliseconds since the Unix epoch, if it has one.
    pub fn timestamp(&self) -> Option<i64> {
        (self.timestamp != i64::MIN).then_some(self.timestamp)
    }

    /// Topic, partition and offset of the record, in words. Not cheap: for errors and alerts.
    pub fn origin(&self) -> String {
        self.origins.describe(self.origin)
    }
}
