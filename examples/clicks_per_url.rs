//! Counts clicks per URL: reads `{"user":"u12","url":"/p/47","ts":1700000000123}`, writes for every click
//! `{"url":"/p/47","count":3}` keyed by the URL.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use tidegate::api::prelude::*;

/// What is read; other fields are ignored.
#[derive(Clone, Serialize, Deserialize)]
struct Click {
    url: String,
}

/// What is written.
#[derive(Clone, Serialize, Deserialize)]
struct Counted {
    url: String,
    count: u64,
}

/// One counter for each URL.
#[derive(Clone, Default)]
struct CountClicks {
    /// For each click, to see what backpressure does.
    slow_down: Duration,
    count: Option<ValueState<u64>>,
}

impl KeyedProcessFunction<Click> for CountClicks {
    type Out = Counted;

    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
        self.count = Some(context.value_state("count")?);
        Ok(())
    }

    fn process(
        &mut self,
        click: Click,
        context: &mut KeyedContext<'_>,
        out: &mut Emitter<'_, Counted>,
    ) -> Result<(), UserError> {
        if !self.slow_down.is_zero() {
            std::thread::sleep(self.slow_down);
        }
        let state = self.count.expect("open has declared it");
        let count = state.get(context)?.unwrap_or(0) + 1;
        state.set(context, count)?;
        out.emit(Counted { url: click.url, count });
        Ok(())
    }
}

/// Milliseconds from `CLICKS_SLOW_DOWN_MS`; none without it.
fn slow_down() -> Duration {
    let given = std::env::var("CLICKS_SLOW_DOWN_MS").ok().and_then(|text| text.parse().ok());
    Duration::from_millis(given.unwrap_or(0))
}

fn main() -> std::process::ExitCode {
    tidegate::service::run(|settings| {
        let kafka = settings.connection();
        let clicks = KafkaSource::json::<Click>(kafka.clone(), &settings.job.name)
            .topics([&settings.source.topic])
            .start(settings.start())
            .bounded(settings.source.until_end);
        let counts = KafkaSink::new(kafka, &settings.sink.topic, |counted: &Counted, record| {
            record.key(counted.url.as_bytes());
            record.json(counted)
        })
        .delivery(settings.sink.delivery)
        .transaction_timeout(settings.sink.transaction_timeout);
        let job = Job::new();
        job.source("clicks", clicks)
            .uid("clicks")
            .key_by(|click: &Click| &click.url)
            .process("count", CountClicks { slow_down: slow_down(), ..CountClicks::default() })
            .uid("count")
            .sink("counts", counts)
            .uid("counts");
        Ok(job)
    })
}
