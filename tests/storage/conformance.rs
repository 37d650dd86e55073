//! The suite. Each part works in a folder of its own below the location.

use std::sync::{Arc, Barrier};
use std::time::Duration;
use tidegate::storage::{self, ABANDONED, Error, FileRef, Options, Put, Storage};

/// Writers that race for one name.
const RACERS: usize = 8;

/// Rounds of the race.
const ROUNDS: usize = 20;

/// Larger than what any store takes in one piece.
const BIG: usize = 20 << 20;

/// Everything that a store promises.
pub(crate) fn all(location: &str, options: &Options) {
    let open = |below: &str| storage::open_with(location, below, options).unwrap();
    what_is_written_is_read(&*open("written"));
    what_is_missing_is_named(&*open("missing"));
    a_list_has_the_folder_alone(&*open("listed"));
    deleting_takes_what_is_named(&*open("deleted"));
    one_of_many_writers_wins(&open("raced"));
    storage::probe(&open("probed")).unwrap();
    assert!(open("probed").list("probe").unwrap().is_empty(), "the probe leaves nothing behind");
    a_big_blob_is_whole(&*open("big"));
    folders_do_not_see_each_other(location, options);
}

fn what_is_written_is_read(store: &dyn Storage) {
    for (name, bytes) in [("a", &b"first"[..]), ("state/1-2-%2e", b"\0\xff"), ("state/empty", b"")] {
        store.put(name, bytes).unwrap();
        assert_eq!(store.get(name).unwrap(), bytes, "{name}");
    }
    store.put("a", b"second, and longer").unwrap();
    assert_eq!(store.get("a").unwrap(), b"second, and longer");
    assert_eq!(store.put_if_absent("a", b"third").unwrap(), Put::Exists);
    assert_eq!(store.get("a").unwrap(), b"second, and longer", "what exists is untouched");
    assert_eq!(store.put_if_absent("manifest/1", b"fourth").unwrap(), Put::Created);
    assert_eq!(store.get("manifest/1").unwrap(), b"fourth");
}

fn what_is_missing_is_named(store: &dyn Storage) {
    let error = store.get("state/nothing").unwrap_err();
    assert!(matches!(&error, Error::NotFound { name, .. } if name == "state/nothing"), "{error}");
    assert!(error.to_string().contains(&store.location()), "{error}");
    assert!(!error.is_transient());
    assert!(store.list("nowhere").unwrap().is_empty());
    store.delete("nowhere/nothing").unwrap();
    store.delete_all(&["nowhere/nothing".to_owned(), "neither".to_owned()]).unwrap();
}

fn a_list_has_the_folder_alone(store: &dyn Storage) {
    for name in ["f/10", "f/2", "f/below/3", "f-other/4", "fo/5", "6"] {
        store.put(name, b"x").unwrap();
    }
    assert_eq!(store.list("f").unwrap(), ["10", "2"], "sorted as text, nothing from below or beside");
    assert!(store.list_older("f", ABANDONED).unwrap().is_empty(), "they are young");
    if !store.location().starts_with("memory:") {
        assert_eq!(store.list_older("f", Duration::ZERO).unwrap(), ["10", "2"]);
    }
    assert_eq!(store.sweep(Duration::ZERO).unwrap(), 0, "all of it is complete");
}

fn deleting_takes_what_is_named(store: &dyn Storage) {
    let names: Vec<String> = (0..1203).map(|n| format!("d/{n:04}")).collect();
    std::thread::scope(|scope| {
        for part in names.chunks(names.len() / 8) {
            scope.spawn(|| part.iter().for_each(|name| store.put(name, b"").unwrap()));
        }
    });
    store.put("d-kept", b"x").unwrap();
    assert_eq!(store.list("d").unwrap().len(), names.len(), "a list has more than one page");
    store.delete(&names[0]).unwrap();
    store.delete_all(&names[..1202]).unwrap();
    assert_eq!(store.list("d").unwrap(), ["1202"]);
    assert_eq!(store.get("d-kept").unwrap(), b"x");
    store.delete_all(&[]).unwrap();
}

fn one_of_many_writers_wins(store: &Arc<dyn Storage>) {
    for round in 0..ROUNDS {
        let (name, gate) = (format!("m/{round}"), Barrier::new(RACERS));
        let winners: Vec<u8> = std::thread::scope(|scope| {
            let race = |racer: u8| {
                let (name, gate) = (&name, &gate);
                move || {
                    gate.wait();
                    (racer, store.put_if_absent(name, &[racer; 1000]).unwrap())
                }
            };
            let racers: Vec<_> = (0..RACERS as u8).map(|racer| scope.spawn(race(racer))).collect();
            let results = racers.into_iter().map(|racer| racer.join().unwrap());
            results.filter(|(_, put)| *put == Put::Created).map(|(racer, _)| racer).collect()
        });
        assert_eq!(winners.len(), 1, "round {round} of {}: {winners:?} won", store.location());
        assert_eq!(store.get(&name).unwrap(), [winners[0]; 1000], "round {round}");
    }
    assert_eq!(store.list("m").unwrap().len(), ROUNDS, "the losers have left nothing behind");
}

fn a_big_blob_is_whole(store: &dyn Storage) {
    let bytes: Vec<u8> = (0..BIG).map(|at| (at / 4099) as u8).collect();
    let file = FileRef::write(store, "state/big".to_owned(), &bytes).unwrap();
    assert!(file.read(store).unwrap() == bytes);
    assert_eq!(store.list("state").unwrap(), ["big"]);
    store.delete("state/big").unwrap();
}

fn folders_do_not_see_each_other(location: &str, options: &Options) {
    let open = |below: &str| storage::open_with(location, below, options).unwrap();
    let existing = |below: &str| storage::open_existing_with(location, below, options).unwrap();
    assert!(existing("job").is_none());
    open("job").put("state/1", b"a").unwrap();
    open("job-2").put("state/1", b"b").unwrap();
    assert_eq!(existing("job").unwrap().get("state/1").unwrap(), b"a");
    assert_eq!(open("job-2").list("state").unwrap(), ["1"]);
    open("job").delete_all(&["state/1".to_owned()]).unwrap();
    assert!(open("job").list("state").unwrap().is_empty());
    assert_eq!(open("job-2").get("state/1").unwrap(), b"b");
    assert!(existing("jo").is_none(), "the beginning of a name is no name");
}
