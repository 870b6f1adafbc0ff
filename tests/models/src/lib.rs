//! Models of the rings' protocol (see `models`). The protocol is the library's own file.

#![cfg(test)]
#![allow(dead_code, reason = "the library's files have more than the models need")]

#[path = "../../../src/bytes.rs"]
mod bytes;
mod models;

mod ring;
