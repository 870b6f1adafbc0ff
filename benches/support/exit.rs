//! How a benchmark ends.

use std::process::ExitCode;

/// 0 if all bars were reached, 1 if one was missed, 2 if it could not be measured, which is told.
pub(crate) fn exit_code(outcome: anyhow::Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}
