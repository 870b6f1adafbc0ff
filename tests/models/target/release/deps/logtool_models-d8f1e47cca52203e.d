/work/core/tests/models/target/release/deps/logtool_models-d8f1e47cca52203e.d: src/lib.rs src/../../../src/bytes.rs src/models.rs src/ring.rs src/../../../src/ring/file.rs src/primitives.rs src/../../../src/ring/protocol.rs src/../../../src/ring/record.rs src/../../../src/ring/waiting.rs

/work/core/tests/models/target/release/deps/logtool_models-d8f1e47cca52203e: src/lib.rs src/../../../src/bytes.rs src/models.rs src/ring.rs src/../../../src/ring/file.rs src/primitives.rs src/../../../src/ring/protocol.rs src/../../../src/ring/record.rs src/../../../src/ring/waiting.rs

src/lib.rs:
src/../../../src/bytes.rs:
src/models.rs:
src/ring.rs:
src/../../../src/ring/file.rs:
src/primitives.rs:
src/../../../src/ring/protocol.rs:
src/../../../src/ring/record.rs:
src/../../../src/ring/waiting.rs:
