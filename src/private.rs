//! What the expansion of the log macros refers to. No part of the interface: it changes without notice.

pub use core::{compile_error, file, format_args, line, module_path};

pub use logtool_macros::log_call;

pub use crate::capture::{Formatted, Plain, Spec, keep};
pub use crate::logger::ACCEPTED;
pub use crate::site::{IS_COMPILED, Origin, Site};

/// The logger that is meant, whatever smart pointer holds it.
pub fn logger(logger: &crate::Logger) -> &crate::Logger {
    logger
}
