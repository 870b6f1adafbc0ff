//! What the expansion of the log macros refers to. No part of the interface: it changes without notice.
//!
//! The compiler refuses a call that `format!` would refuse, and wrong settings:
//! ```compile_fail
//! logtool::info!("{} {}", 1); // an argument is missing
//! ```
//! ```compile_fail
//! logtool::info!("{}", 1, 2); // one is too much
//! ```
//! ```compile_fail
//! struct NoDebug;
//! logtool::info!(field:? = NoDebug; "no Debug to show it by");
//! ```
//! ```compile_fail
//! logtool::info!(every: 0, "never");
//! ```
//! ```
//! logtool::info!(every: 1, field:? = Some(1); "{} {}", 1, 2); // as it should be
//! ```

pub use core::{compile_error, file, format_args, line, module_path};

pub use logtool_macros::log_call;

pub use crate::capture::{Formatted, Plain, Spec, keep};
pub use crate::logger::ACCEPTED;
pub use crate::site::{IS_COMPILED, Origin, Site};

/// The logger that is meant, whatever smart pointer holds it.
pub fn logger(logger: &crate::Logger) -> &crate::Logger {
    logger
}
