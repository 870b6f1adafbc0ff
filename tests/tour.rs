//! `logtool tour`: it checks each of its own claims, so that it ends well is the test.

use crate::harness::{logtool, temp_dir};

#[test]
fn the_tour_keeps_every_promise_that_it_makes() {
    let dir = temp_dir();
    let outcome = logtool().arg("tour").arg(dir.path().join("here")).run().expect_code(0);
    let text = outcome.text();
    for claim in ["LOST      1 entry", "REPAIRED", "nothing silently lost"] {
        assert!(text.contains(claim), "{claim}: {text}");
    }
}

#[test]
fn the_tour_leaves_what_is_not_its_own_alone() {
    let dir = temp_dir();
    std::fs::write(dir.path().join("mine"), "x").unwrap();
    logtool().arg("tour").arg(dir.path()).run().expect_code(2);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
