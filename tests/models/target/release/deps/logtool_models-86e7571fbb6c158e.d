/work/core/tests/models/target/release/deps/logtool_models-86e7571fbb6c158e.d: src/lib.rs

/work/core/tests/models/target/release/deps/liblogtool_models-86e7571fbb6c158e.rlib: src/lib.rs

/work/core/tests/models/target/release/deps/liblogtool_models-86e7571fbb6c158e.rmeta: src/lib.rs

src/lib.rs:
