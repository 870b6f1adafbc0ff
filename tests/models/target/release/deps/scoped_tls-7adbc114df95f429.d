/work/core/tests/models/target/release/deps/scoped_tls-7adbc114df95f429.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/scoped-tls-1.0.1/src/lib.rs

/work/core/tests/models/target/release/deps/libscoped_tls-7adbc114df95f429.rlib: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/scoped-tls-1.0.1/src/lib.rs

/work/core/tests/models/target/release/deps/libscoped_tls-7adbc114df95f429.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/scoped-tls-1.0.1/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/scoped-tls-1.0.1/src/lib.rs:
