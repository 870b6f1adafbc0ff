//! logtool.
