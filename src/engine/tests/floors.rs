//! Levels and categories whose calls are synced before they return, or give way under pressure.

use super::*;

static PROBE: Site = Site::new(Level::Error, Origin::Name("net::probe"), "a.rs", 4, "{}", &[""], 1);
static PAY: Site = Site::new(Level::Debug, Origin::Name("pay::card"), "a.rs", 5, "{}", &[""], 1);

fn levels(text: &str) -> crate::levels::Levels {
    text.parse().unwrap()
}

#[test]
fn categories_have_a_sync_of_their_own() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| {
        let builder = builder.sync_interval(Duration::from_secs(3600));
        builder.level(Level::Trace).sync_at(Level::Error).sync_at(levels("pay=debug,net.probe=off"))
    });
    for site in [&INFO, &PROBE, &PAY, &ERROR] {
        log(site, &logger, 1).unwrap();
    }
    // On a disk that syncs no more it shows which calls wait for that.
    storage.fail(Some(Call::Sync), 0, u64::MAX, Fault::Error(std::io::ErrorKind::Other));
    for _ in 0..2 {
        let outcomes = [&INFO, &PROBE, &PAY, &ERROR].map(|site| log(site, &logger, 2));
        assert_eq!(outcomes, [Ok(()), Ok(()), Err(Refused::Io), Err(Refused::Io)]);
    }
}

#[test]
fn low_levels_give_way_while_half_of_a_ring_waits() {
    // By a ring of its own, and by the common one.
    for rings in [4, 1] {
        let storage = SimStorage::new();
        let logger = open(&storage, |builder| {
            let kept = levels("warn,pay=debug");
            rings_max(builder, rings).level(Level::Trace).keep_under_pressure(kept)
        });
        fill_disk(&logger, &storage);
        // A call that waited would wait for ever: the policy is to block.
        let fill = || {
            let accepted = (1..).take_while(|&number| log(&INFO, &logger, number).is_ok()).count() as u64;
            for site in [&PAY, &ERROR, &PROBE] {
                (0..5).for_each(|number| log(site, &logger, 1000 + number).unwrap());
            }
            assert!(log(&INFO, &logger, 2000).is_err());
            accepted
        };
        let accepted = elsewhere(fill);
        assert!((10..60).contains(&accepted), "{accepted} by {rings} rings");
        storage.set_capacity(None);
        logger.flush(LONG).unwrap();
        // Whoever gave way is told of, and once there is room it does so no more.
        let (numbers, dropped) = read(&storage);
        assert_eq!((numbers.len() as u64, dropped, logger.stats().refused), (1 + accepted + 15, 2, 2));
        log(&INFO, &logger, 3000).unwrap();
        logger.close(LONG).unwrap();
        assert_eq!(read(&storage).0.last(), Some(&3000));
    }
}

#[test]
fn without_a_floor_nothing_gives_way() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder.when_full(WhenFull::Drop));
    fill_disk(&logger, &storage);
    let accepted = (1..).take_while(|&number| log(&INFO, &logger, number).is_ok()).count();
    assert!(accepted > 60, "{accepted}");
}
