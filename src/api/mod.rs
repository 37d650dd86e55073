//! What a user of the library writes: typed streams from sources through operators into sinks.
//!
//! A thin façade: it only builds the graph, and [`Job::run`] hands that to the runtime.
//!
//! ```no_run
//! use tidegate::api::{Job, JobOptions, KafkaSink, KafkaSource, prelude::*};
//!
//! #[derive(Clone, serde::Serialize, serde::Deserialize)]
//! struct Click { url: String }
//!
//! #[derive(Clone, Default)]
//! struct Count { count: Option<ValueState<u64>> }
//!
//! impl KeyedProcessFunction<Click> for Count {
//!     type Out = (String, u64);
//!     fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
//!         self.count = Some(context.value_state("count")?);
//!         Ok(())
//!     }
//!     fn process(&mut self, click: Click, context: &mut KeyedContext<'_>, out: &mut Emitter<'_, Self::Out>)
//!         -> Result<(), UserError>
//!     {
//!         let state = self.count.expect("open has declared it");
//!         let count = state.get(context)?.unwrap_or(0) + 1;
//!         state.set(context, count)?;
//!         out.emit((click.url, count));
//!         Ok(())
//!     }
//! }
//!
//! let kafka = Connection::new("127.0.0.1:9092");
//! let job = Job::new();
//! job.source("clicks", KafkaSource::json::<Click>(kafka.clone(), "clicks-per-url").topics(["clicks"]))
//!     .uid("clicks")
//!     .key_by(|click: &Click| &click.url)
//!     .process("count", Count::default())
//!     .uid("count")
//!     .sink("counts", KafkaSink::new(kafka, "counts", |(url, count): &(String, u64), record| {
//!         record.key(url.as_bytes());
//!         record.json(&serde_json::json!({ "url": url, "count": count }))
//!     }))
//!     .uid("counts");
//! job.run(JobOptions::new(JobId::new("clicks-per-url")?, "file:///var/lib/tidegate"))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod job;
mod stream;
mod keyed;
mod broadcast;

pub use crate::connector::kafka::Connection;
pub use crate::connector::kafka::sink::{Delivery, KafkaSink, OnLost, OnOversized, RecordWriter};
pub use crate::connector::kafka::source::{
    Breaker, Decoder, KafkaRecord, KafkaSource, Otherwise, OutOfRange, RawHeader, RawHeaders, RawMessage,
    Recreated, Start, Undecodable,
};
pub use crate::runtime::{JobOptions, Outcome, RestartPolicy, SavepointStatus, StopHandle};
pub use broadcast::{BroadcastStream, ConnectedStream, KeyedConnectedStream};
pub use job::Job;
pub use keyed::KeyedStream;
pub use stream::{Stream, StreamSink};

/// What user code names most.
pub mod prelude {
    pub use super::{Connection, Delivery, Job, JobOptions, KafkaSink, KafkaSource, Start, StopHandle};
    pub use crate::model::{Failure, JobId, Key};
    pub use crate::operator::{
        BroadcastContext, BroadcastProcessFunction, Context, Emitter, KeyedBroadcastProcessFunction,
        KeyedContext, KeyedProcessFunction, OpenContext, ProcessFunction, UserError,
    };
    pub use crate::state::{BroadcastState, ListState, UnionState, ValueState};
}
