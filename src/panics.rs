//! Panics, logged as what they are: the last words of a thread.

use std::panic;

use crate::private::log_call;

/// Has each panic of the process logged from now on, with level error and category `panic`, to the global logger; then the
/// hook that was set before has its turn. Without a global logger nothing is logged.
///
/// The entry is in the ring when the hook is over, and so survives whatever the panic leads to.
///
/// ```
/// logtool::log_panics();
/// ```
pub fn log_panics() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let text =
            payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("a value that is no text");
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("without a name");
        match info.location() {
            Some(place) => {
                let (file, line) = (place.file(), place.line());
                log_call!((crate) Error log { category: "panic", "thread {thread} panicked at {file}:{line}: {message}" });
            }
            None => log_call!((crate) Error log { category: "panic", "thread {thread} panicked: {message}" }),
        }
        before(info);
    }));
}
