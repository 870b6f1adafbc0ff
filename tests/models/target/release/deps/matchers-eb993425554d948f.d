/work/core/tests/models/target/release/deps/matchers-eb993425554d948f.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/matchers-0.2.0/src/lib.rs

/work/core/tests/models/target/release/deps/libmatchers-eb993425554d948f.rlib: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/matchers-0.2.0/src/lib.rs

/work/core/tests/models/target/release/deps/libmatchers-eb993425554d948f.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/matchers-0.2.0/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/matchers-0.2.0/src/lib.rs:
