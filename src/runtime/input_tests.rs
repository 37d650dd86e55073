//! A task with its gate and aligner under random histories: whatever comes in whatever order, what a checkpoint has of a
//! channel, processed before the freeze or captured, is exactly what was sent there before the barrier.

use super::*;
use crate::graph::{ChannelFrom, Urgency};
use crate::model::serializer::Postcard;
use crate::model::{BarrierKind, OperatorUid, Origin};
use crate::runtime::gate::Sender;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// What is done to the task from outside.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// A batch of so many records.
    Send(usize, usize),
    /// The next barrier but so many, and how it comes.
    Barrier(usize, u64, u8),
    End(usize),
    Step,
}

/// The senders' side, and what the task's chain has seen.
struct World {
    senders: Vec<Sender<i64>>,
    sent: Vec<Vec<i64>>,
    last: Vec<u64>,
    /// By channel and checkpoint: how many records came before the barrier.
    cuts: BTreeMap<(usize, u64), usize>,
    ended: Vec<bool>,
    processed: Vec<Vec<i64>>,
    /// Done while the task processes a batch, one with each record.
    meanwhile: VecDeque<Act>,
}

const SCALE: i64 = 1_000_000;

impl World {
    fn act(&mut self, act: Act) {
        match act {
            Act::Send(c, records) if !self.ended[c] => {
                let next = self.sent[c].len() as i64;
                let values: Vec<i64> = (0..records as i64).map(|r| c as i64 * SCALE + next + r).collect();
                self.sent[c].extend(&values);
                let record = |value| Record { value, timestamp: 0, origin: Origin::NONE };
                self.senders[c].send(values.into_iter().map(record).collect(), || true).unwrap();
            }
            Act::Barrier(c, skipped, how) if !self.ended[c] => {
                let n = self.last[c] + 1 + skipped;
                self.last[c] = n;
                self.cuts.insert((c, n), self.sent[c].len());
                let alignment = match how {
                    _ if n.is_multiple_of(4) => Alignment::Aligned,
                    0 => Alignment::Unaligned,
                    1 => Alignment::AlignedFor(Duration::ZERO),
                    _ => Alignment::AlignedFor(Duration::from_secs(3600)),
                };
                let barrier = Barrier { checkpoint: CheckpointId(n), kind: BarrierKind::Periodic, alignment };
                self.senders[c].send_barrier(barrier).unwrap();
            }
            Act::End(c) if !self.ended[c] => {
                self.ended[c] = true;
                self.senders[c].send_end().unwrap();
            }
            _ => {}
        }
    }

    /// What a checkpoint must have of a channel.
    fn before(&self, channel: usize, n: u64) -> &[i64] {
        match self.cuts.get(&(channel, n)) {
            Some(cut) => &self.sent[channel][..*cut],
            None => {
                assert!(self.ended[channel], "channel {channel} never brought {n}, and it is complete");
                &self.sent[channel]
            }
        }
    }
}

struct Recorder(Arc<Mutex<World>>);

impl Stage<i64> for Recorder {
    fn open(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    fn process(&mut self, record: Record<i64>) -> Result<(), Failure> {
        let mut world = self.0.lock().unwrap();
        world.processed[(record.value / SCALE) as usize].push(record.value);
        if let Some(act) = world.meanwhile.pop_front() {
            world.act(act);
        }
        Ok(())
    }
    fn end_of_batch(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    fn drain(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn freeze(&mut self, _: Barrier, _: &mut Frozen) -> Result<(), Failure> {
        Ok(())
    }
    fn forward(&mut self, _: Signal) -> Result<(), Failure> {
        Ok(())
    }
    fn close(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

struct Bench {
    world: Arc<Mutex<World>>,
    task: Input<i64>,
    /// Of the checkpoint that has overtaken: how much of each channel was processed when the task froze.
    frozen: Option<(u64, Vec<usize>)>,
    complete: BTreeSet<u64>,
    captured: usize,
}

impl Bench {
    fn new(channels: usize) -> Self {
        let urgency = Urgency::default();
        let (gate, senders) = Gate::new(channels, 1000, true, urgency.clone());
        let world = Arc::new(Mutex::new(World {
            senders,
            sent: vec![Vec::new(); channels],
            last: vec![0; channels],
            cuts: BTreeMap::new(),
            ended: vec![false; channels],
            processed: vec![Vec::new(); channels],
            meanwhile: VecDeque::new(),
        }));
        let uid = OperatorUid("count".into());
        let from = |subtask| ChannelFrom { input: 0, sender: OperatorUid("in".into()), subtask };
        let channels = (0..channels as u32).map(from).collect();
        let seat =
            GateSeat { uid, place: "count".into(), channels, capacity: 1000, overtaking: true, urgency };
        let stage = Box::new(Recorder(Arc::clone(&world)));
        let task = Input::new(gate, seat, stage, Backlog::default(), Arc::new(Postcard::default()));
        Self { world, task, frozen: None, complete: BTreeSet::new(), captured: 0 }
    }

    /// One step; whether anything happened.
    fn step(&mut self) -> bool {
        let before = self.seen();
        match self.task.step(Duration::ZERO).unwrap() {
            Step::Goes => return self.seen() != before,
            Step::Ended => return false,
            Step::Aligned(barrier) => {
                let n = barrier.checkpoint.0;
                let world = self.world.lock().unwrap();
                for (c, processed) in world.processed.iter().enumerate() {
                    assert_eq!(processed, world.before(c, n), "checkpoint {n}, channel {c}, aligned");
                }
                drop(world);
                assert!(self.complete.insert(n));
                self.freeze_and_forward(barrier);
            }
            Step::Overtaken(barrier) => {
                assert!(self.frozen.is_none(), "one capture at a time");
                let world = self.world.lock().unwrap();
                self.frozen = Some((barrier.checkpoint.0, world.processed.iter().map(Vec::len).collect()));
                drop(world);
                self.freeze_and_forward(barrier);
            }
            Step::Captured(CheckpointId(n)) => {
                let (frozen, at) = self.frozen.take().unwrap();
                assert_eq!(n, frozen);
                let captured = self.captured_values();
                let world = self.world.lock().unwrap();
                for (c, at) in at.into_iter().enumerate() {
                    let mut has = world.processed[c][..at].to_vec();
                    has.extend(captured.get(&c).into_iter().flatten());
                    assert_eq!(has, world.before(c, n), "checkpoint {n}, channel {c}, unaligned");
                }
                assert!(self.complete.insert(n));
            }
            Step::PassedOver(CheckpointId(n), _) => {
                assert!(!self.complete.contains(&n));
                self.frozen = self.frozen.take().filter(|(frozen, _)| *frozen != n);
            }
        }
        true
    }

    fn seen(&self) -> usize {
        self.world.lock().unwrap().processed.iter().map(Vec::len).sum()
    }

    fn freeze_and_forward(&mut self, barrier: Barrier) {
        self.task.freeze(barrier, &mut Frozen::new()).unwrap();
        self.task.forward(Signal::Barrier(barrier)).unwrap();
    }

    fn captured_values(&mut self) -> BTreeMap<usize, Vec<i64>> {
        let mut frozen = Frozen::new();
        self.task.captured(&mut frozen);
        let serializer = Postcard::<i64>::default();
        let mut values = BTreeMap::new();
        for (_, part) in frozen {
            let FrozenPart::InFlight(channels) = part else { panic!("only records in flight") };
            for channel in channels {
                let (from, id) = (channel.from as usize, channel.serializer.clone());
                let records = in_flight::decode(&channel.encode().unwrap(), &id, &serializer).unwrap();
                self.captured += records.len();
                values.insert(from, records.into_iter().map(|r| r.value).collect());
            }
        }
        values
    }

    /// Steps until nothing happens any more.
    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 50 {
            quiet = if self.step() { 0 } else { quiet + 1 };
        }
    }
}

fn acts(channels: usize) -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..channels, 1usize..4).prop_map(|(c, n)| Act::Send(c, n)),
        4 => (0..channels, prop_oneof![5 => Just(0u64), 1 => Just(1u64)], 0u8..3).prop_map(|(c, s, h)| Act::Barrier(c, s, h)),
        1 => (0..channels * 8).prop_map(move |c| if c < channels { Act::End(c) } else { Act::Step }),
        6 => Just(Act::Step),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn a_checkpoint_has_exactly_what_came_before_its_barriers(
        channels in 1usize..4,
        history in prop::collection::vec((acts(3), any::<bool>()), 0..120),
    ) {
        let mut bench = Bench::new(channels);
        for (act, meanwhile) in history {
            let within = |c: usize| c % channels;
            let act = match act {
                Act::Send(c, n) => Act::Send(within(c), n),
                Act::Barrier(c, s, h) => Act::Barrier(within(c), s, h),
                Act::End(c) => Act::End(within(c)),
                Act::Step => Act::Step,
            };
            match act {
                Act::Step => { bench.step(); }
                act if meanwhile => bench.world.lock().unwrap().meanwhile.push_back(act),
                act => bench.world.lock().unwrap().act(act),
            }
        }
        // Everything comes to rest, and then the newest barrier, brought by all, completes.
        bench.settle();
        let mut world = bench.world.lock().unwrap();
        world.meanwhile.clear();
        let newest = world.last.iter().copied().max().unwrap();
        let open: Vec<usize> = (0..channels).filter(|c| !world.ended[*c]).collect();
        for c in &open {
            if world.last[*c] < newest {
                let skipped = newest - world.last[*c] - 1;
                world.act(Act::Barrier(*c, skipped, 2));
            }
        }
        let brought = newest > 0 && !open.is_empty() && open.iter().all(|c| world.last[*c] == newest);
        drop(world);
        bench.settle();
        prop_assert!(!brought || bench.complete.contains(&newest), "{newest} of {:?}", bench.complete);
        let world = bench.world.lock().unwrap();
        prop_assert_eq!(&world.processed, &world.sent, "all is processed in the end, in order");
    }
}

#[test]
fn the_rest_of_a_batch_that_was_begun_is_in_flight() {
    let mut bench = Bench::new(2);
    let mut world = bench.world.lock().unwrap();
    world.act(Act::Send(0, 3));
    world.act(Act::Send(1, 2));
    // While the first record is processed.
    world.meanwhile.push_back(Act::Barrier(1, 0, 0));
    drop(world);
    bench.step();
    assert_eq!(bench.seen(), 1);
    bench.step();
    assert_eq!(bench.frozen, Some((1, vec![1, 0])), "frozen after one record");
    bench.world.lock().unwrap().act(Act::Barrier(0, 0, 0));
    bench.settle();
    assert_eq!((bench.captured, bench.seen()), (4, 5), "captured, and processed all the same");
    assert!(bench.complete.contains(&1));
}
