//! Categories: hierarchical names that group log calls, each with a level of its own.

use std::borrow::Cow;

/// A name that groups log calls, hierarchical with dots: what is set for `net` holds for `net.http` too, unless that has a
/// setting of its own. A call without a category has the module that it stands in: in `shop::net` that is `shop.net`.
///
/// ```
/// use logtool::{Category, info};
///
/// static HTTP: Category = Category::new("net.http");
/// info!(category: HTTP, "listening on {}", 80);
/// info!(category: "net.http", "the same");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Category {
    name: &'static str,
}

impl Category {
    /// The category of this name; `::` in it means the same as a dot.
    pub const fn new(name: &'static str) -> Category {
        Category { name }
    }

    /// The name as levels and logs use it: its parts with dots between them.
    pub fn name(&self) -> Cow<'static, str> {
        dotted(self.name)
    }
}

/// A name with its parts at dots: `shop::net` is `shop.net`.
pub(crate) fn dotted(name: &str) -> Cow<'_, str> {
    if name.contains("::") { Cow::Owned(name.replace("::", ".")) } else { Cow::Borrowed(name) }
}

/// Whether `category` is `prefix` or lies below it. All lie below the empty one.
pub(crate) fn is_below(category: &str, prefix: &str) -> bool {
    prefix.is_empty() || category.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_named_with_dots() {
        assert_eq!(Category::new("shop::net::http").name(), "shop.net.http");
        assert_eq!(Category::new("net.http").name(), "net.http");
    }

    #[test]
    fn categories_are_below_others_at_their_dots() {
        assert!(is_below("net", "net") && is_below("net.http", "net") && is_below("net.http.a", "net.http"));
        assert!(is_below("net", "") && is_below("", ""));
        assert!(!is_below("network", "net") && !is_below("net", "net.http") && !is_below("a.net", "net"));
    }
}
