//! The macros that log.

macro_rules! level_macros {
    ($dollar:tt $($level:ident $log:ident $try_log:ident $enabled:ident $what:literal;)*) => {
        $(
            #[doc = concat!("Logs ", $what, ".")]
            ///
            /// Takes what `format!` takes, checked at compile time; see [the arguments](crate#what-a-log-call-takes) for what
            /// may stand in front of that. Arguments are evaluated only if the call is logged.
            #[macro_export]
            macro_rules! $log {
                ($dollar($dollar arguments:tt)*) => {
                    $crate::private::log_call!(($crate) $level log { $dollar($dollar arguments)* })
                };
            }

            #[doc = concat!("As [`", stringify!($log), "!`](crate::", stringify!($log), "), and gives `Result<(), Refused>`: whether the log took it.")]
            ///
            /// A call that is not to be logged gives `Ok(())`.
            #[macro_export]
            macro_rules! $try_log {
                ($dollar($dollar arguments:tt)*) => {
                    $crate::private::log_call!(($crate) $level try { $dollar($dollar arguments)* })
                };
            }

            #[doc = concat!("Whether [`", stringify!($log), "!`](crate::", stringify!($log), ") would log.")]
            ///
            /// May be given a logger and a category, in this order: `(logger: log, NET)`.
            #[macro_export]
            macro_rules! $enabled {
                ($dollar($dollar arguments:tt)*) => {
                    $crate::private::log_call!(($crate) $level enabled { $dollar($dollar arguments)* })
                };
            }
        )*
    };
}

level_macros! { $
    Trace trace try_trace trace_enabled "each step";
    Debug debug try_debug debug_enabled "for those who debug";
    Info info try_info info_enabled "what happens";
    Warn warn try_warn warn_enabled "something to look at";
    Error error try_error error_enabled "that something failed";
    Fatal fatal try_fatal fatal_enabled "that the program cannot go on, and does not end it";
}
