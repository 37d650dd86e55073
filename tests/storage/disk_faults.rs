//! A local store on a disk that is full.

use std::time::Duration;
use tidegate::host::random;
use tidegate::storage::{self, Error, Options, Put};
use tidegate_tools::disk::Disk;

#[test]
fn a_full_disk_is_told_and_nothing_half_written_stays() {
    let folder = std::env::temp_dir().join(format!("tidegate-{}", random::token()));
    let disk = match Disk::mount(&folder, "size=256k") {
        Ok(disk) => disk,
        Err(e) => {
            println!("skipped, since no file system can be mounted here: {e}");
            return;
        }
    };
    let store = storage::open_with(&disk.location(), "job", &Options::default()).unwrap();
    store.put("state/a", &[1; 10_000]).unwrap();
    let fill = disk.fill().unwrap();
    for error in [
        store.put("state/b", &[2; 10_000]).unwrap_err(),
        store.put_if_absent("manifest/1", &[3; 10_000]).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Full { .. }) && error.is_transient(), "{error}");
        assert!(error.to_string().contains("no space left while writing"), "{error}");
    }
    assert_eq!(store.list("state").unwrap(), ["a"]);
    assert_eq!(store.sweep(Duration::ZERO).unwrap(), 0, "nothing half written is left");
    std::fs::remove_file(fill).unwrap();
    store.put("state/b", &[2; 10_000]).unwrap();
    assert_eq!(store.put_if_absent("manifest/1", &[3; 10_000]).unwrap(), Put::Created);
    drop(disk);
    std::fs::remove_dir_all(folder).unwrap();
}
