//! What goes wrong while reading, and what is found to have changed: dealt with between two batches.

use super::cluster::{self, explain};
use super::decode::Decoder;
use super::discovery::Found;
use super::options::Recreated;
use super::range::{self, Settled};
use super::reader::Reader;
use super::reconcile::{recreated_text, refused_text};
use super::slot::State;
use super::split::Key;
use crate::connector::kafka::native::{Notice, Problem};
use crate::connector::kafka::raw::{self, Deadline, TopicPartition};
use crate::host::clock;
use crate::model::{Advice, Failure};
use std::time::{Duration, Instant};

/// How long the brokers may take to answer in the middle of reading.
const BUDGET: Duration = Duration::from_secs(10);

/// How long the brokers may refuse the user, with nothing read in between, before that is believed: one that has just
/// started may not know its users yet.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(10);

/// How often one kind of trouble is told.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// What the reader remembers of troubles.
#[derive(Default)]
pub(super) struct Trouble {
    refused_since: Option<Instant>,
    told: Option<Instant>,
    untold: u64,
    client: Option<raw::Client>,
}

impl Trouble {
    /// Something was read: the brokers let us in.
    pub(super) fn progress(&mut self) {
        self.refused_since = None;
    }

    /// Tells a trouble that passes, not more often than is good for a log.
    fn tell(&mut self, text: &str) {
        let now = clock::now();
        if self.told.is_some_and(|told| now - told < TELL_EVERY) {
            self.untold += 1;
            return;
        }
        let more = std::mem::take(&mut self.untold);
        tracing::warn!(more_since_last = more, "reading goes on as soon as it can: {text}");
        self.told = Some(now);
    }
}

impl<T, D: Decoder<T>> Reader<T, D> {
    /// Hears what the client and the discovery have to say.
    pub(super) fn look_around(&mut self) -> Result<(), Failure> {
        let notices = self.consumer.as_mut().map(|consumer| consumer.notices()).unwrap_or_default();
        for notice in notices {
            self.hear(&notice)?;
        }
        while let Some(found) = self.discovery.as_ref().and_then(|discovery| discovery.take()) {
            self.apply(found)?;
        }
        Ok(())
    }

    fn hear(&mut self, notice: &Notice) -> Result<(), Failure> {
        let text = &notice.text;
        if notice.fatal {
            return Err(Failure::restart(format!("the Kafka consumer can do nothing more: {text}")));
        }
        match notice.problem {
            Problem::Authentication => {
                let now = clock::now();
                let since = *self.trouble.refused_since.get_or_insert(now);
                if now - since >= REFUSAL_PATIENCE {
                    return Err(Failure::configuration(format!(
                        "the brokers at {} refuse the user's credentials: {text}; check sasl.username, sasl.password and the \
                         security settings",
                        self.settings.connection.bootstrap()
                    )));
                }
            }
            Problem::Authorization => return Err(self.no_right(text)),
            _ => {}
        }
        self.trouble.tell(text);
        Ok(())
    }

    fn no_right(&self, text: &str) -> Failure {
        let user = self.settings.connection.properties().get("sasl.username");
        let user = user.map_or("this user".to_owned(), |user| format!("user {user:?}"));
        Failure::configuration(format!(
            "{text}; {user} needs the rights to read and describe the source's topics, and to read the group {:?}",
            self.settings.group
        ))
    }

    fn apply(&mut self, found: Found) -> Result<(), Failure> {
        match found {
            Found::New(splits) => {
                for split in &splits {
                    tracing::info!("{} is new: reading it from offset {}", split.place(), split.next);
                }
                self.add(splits)
            }
            Found::Gone(key) => {
                let Some(at) = self.slot_of(key, State::Reading) else { return Ok(()) };
                let slot = &mut self.flow.slots[at];
                slot.state = State::Released;
                slot.meters.released.inc();
                tracing::warn!(
                    "{} does not exist any more: released at offset {}",
                    slot.split.place(),
                    slot.split.next
                );
                self.release(at)
            }
            Found::Back(key) => {
                let Some(at) = self.slot_of(key, State::Released) else { return Ok(()) };
                let slot = &mut self.flow.slots[at];
                slot.state = State::Reading;
                slot.moved(slot.split.next);
                tracing::warn!("{} is back: reading on at offset {}", slot.split.place(), slot.split.next);
                self.assign(&[at])
            }
            Found::Recreated(topic) => Err(self.recreated(&topic)),
        }
    }

    fn slot_of(&self, key: Key, state: State) -> Option<usize> {
        self.flow.slots.iter().position(|slot| slot.split.key() == key && slot.state == state)
    }

    /// A topic is another one. The policy is applied by the restart: all subtasks must change over at once, since the
    /// partitions of the new topic have other owners.
    fn recreated(&self, topic: &str) -> Failure {
        let own = self.flow.slots.iter().map(|slot| &slot.split).filter(|split| split.topic == topic);
        let places: Vec<String> =
            own.map(|split| format!("partition {} at offset {}", split.partition, split.next)).collect();
        match self.settings.recreated {
            Recreated::Fail => Failure::configuration(recreated_text(topic, &places)),
            Recreated::Earliest => Failure::restart(format!(
                "topic {topic} was deleted and created again; it is read from its beginning after a restart"
            )),
        }
    }

    /// Deals with what a batch said about partitions.
    pub(super) fn solve_problems(&mut self) -> Result<(), Failure> {
        for (at, problem, text) in std::mem::take(&mut self.flow.problems) {
            let slot = &self.flow.slots[at];
            let (place, next) = (slot.split.place(), slot.split.next);
            if slot.state != State::Reading {
                continue;
            }
            match problem {
                Problem::OutOfRange => self.out_of_range(at)?,
                Problem::Unknown if self.settings.bounded => {
                    return Err(Failure::restart(format!(
                        "{place}, at offset {next}, before its end: {text}"
                    )));
                }
                Problem::Unknown | Problem::Transport => self.trouble.tell(&format!("{place}: {text}")),
                Problem::Authorization => return Err(self.no_right(&format!("{place}: {text}"))),
                Problem::Authentication | Problem::Other => {
                    return Err(Failure::restart(format!("{place}, at offset {next}: {text}")));
                }
                Problem::Unreadable => {
                    return Err(Failure::new(
                        Advice::DataIsCorrupt,
                        format!(
                            "{place} cannot be read on at offset {next}: {text}. Is the batch damaged on the broker's disk, or \
                             its compression not built in?"
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The log does not hold a slot's next offset: asks why, and follows the policy.
    fn out_of_range(&mut self, at: usize) -> Result<(), Failure> {
        let settings = self.settings.clone();
        let split = self.flow.slots[at].split.clone();
        let client = match &mut self.trouble.client {
            Some(client) => client,
            none => none.insert(settings.connection.raw()?),
        };
        let deadline = Deadline::after(BUDGET);
        let failed = |e| explain(&settings, e);
        let listing = cluster::list(&settings, client, deadline).map_err(failed)?;
        match listing.topic(&split.topic) {
            Some(topic) if topic.id != split.topic_id => return Err(self.recreated(&split.topic)),
            Some(_) => {}
            None => {
                return Err(Failure::restart(format!(
                    "{} cannot be read and is not listed any more",
                    split.place()
                )));
            }
        }
        let asked = [TopicPartition::new(&*split.topic, split.partition)];
        let bounds = cluster::bounds(&settings, client, &asked, deadline).map_err(failed)?[&asked[0]];
        let slot = &mut self.flow.slots[at];
        let to = match range::settle(split.next, bounds, settings.out_of_range) {
            Settled::Kept => {
                self.trouble.tell(&format!(
                    "{}: offset {} was out of range and is not any more",
                    split.place(),
                    split.next
                ));
                split.next
            }
            Settled::Moved { to, skipped } => {
                slot.meters.skipped.inc_by(skipped);
                tracing::warn!(
                    "{}; going on at offset {to}",
                    range::describe(&split.place(), split.next, bounds)
                );
                to
            }
            Settled::Refused => {
                let text = range::describe(&split.place(), split.next, bounds);
                return Err(Failure::new(Advice::DataIsCorrupt, refused_text(&[text])));
            }
        };
        slot.moved(to);
        self.release(at)?;
        self.assign(&[at])
    }
}
