//! The ways to keep an argument of a log call, the best first: see `capture`.

use std::fmt;

use super::{
    Address, Debugged, Displayed, Formatted, Plain, ShownByDebug, ShownByDisplay, Spec, Stored, Typed, Unshown,
};

/// `{}` and the like of a type with a stored form.
pub trait ShowTyped<'a> {
    /// The type.
    type Type: ?Sized;
    /// Keeps it.
    fn show(&self) -> Typed<'a, Self::Type>;
}

impl<'a, T: ShownByDisplay + ?Sized> ShowTyped<'a> for &&Plain<'a, T> {
    type Type = T;
    #[inline]
    fn show(&self) -> Typed<'a, T> {
        Typed(self.0)
    }
}

impl<'a, T: ShownByDisplay + ?Sized> ShowTyped<'a> for &&Spec<'a, T> {
    type Type = T;
    #[inline]
    fn show(&self) -> Typed<'a, T> {
        Typed(self.0)
    }
}

/// `{}` of any other type.
pub trait ShowText<'a> {
    /// The type.
    type Type: ?Sized;
    /// Keeps it.
    fn show(&self) -> Displayed<'a, Self::Type>;
}

impl<'a, T: fmt::Display + ?Sized> ShowText<'a> for &Plain<'a, T> {
    type Type = T;
    #[inline]
    fn show(&self) -> Displayed<'a, T> {
        Displayed(self.0)
    }
}

/// `{:?}` and the like of a type with a stored form.
pub trait InspectTyped<'a> {
    /// The type.
    type Type: ?Sized;
    /// Keeps it.
    fn inspect(&self) -> Typed<'a, Self::Type>;
}

impl<'a, T: ShownByDebug + ?Sized> InspectTyped<'a> for &&Plain<'a, T> {
    type Type = T;
    #[inline]
    fn inspect(&self) -> Typed<'a, T> {
        Typed(self.0)
    }
}

impl<'a, T: ShownByDebug + ?Sized> InspectTyped<'a> for &&Spec<'a, T> {
    type Type = T;
    #[inline]
    fn inspect(&self) -> Typed<'a, T> {
        Typed(self.0)
    }
}

/// `{:?}` of any other type.
pub trait InspectText<'a> {
    /// The type.
    type Type: ?Sized;
    /// Keeps it.
    fn inspect(&self) -> Debugged<'a, Self::Type>;
}

impl<'a, T: fmt::Debug + ?Sized> InspectText<'a> for &Plain<'a, T> {
    type Type = T;
    #[inline]
    fn inspect(&self) -> Debugged<'a, T> {
        Debugged(self.0)
    }
}

/// A form with a spec, of any type.
pub trait BySpec<'a> {
    /// Keeps it as Display and the like show it.
    fn show(&self) -> Formatted<'a>;
    /// Keeps it as Debug shows it.
    fn inspect(&self) -> Formatted<'a>;
    /// Keeps it as Pointer shows it.
    fn address(&self) -> Formatted<'a>;
}

impl<'a, T: ?Sized> BySpec<'a> for &Spec<'a, T> {
    #[inline]
    fn show(&self) -> Formatted<'a> {
        Formatted(self.1)
    }

    #[inline]
    fn inspect(&self) -> Formatted<'a> {
        Formatted(self.1)
    }

    #[inline]
    fn address(&self) -> Formatted<'a> {
        Formatted(self.1)
    }
}

/// `{:p}` of references and raw pointers.
pub trait AddressTyped {
    /// Keeps it.
    fn address(&self) -> Address;
}

impl<T: ?Sized> AddressTyped for &&Spec<'_, &T> {
    #[inline]
    fn address(&self) -> Address {
        address_of(*self.0)
    }
}

impl<T: ?Sized> AddressTyped for &&Spec<'_, &mut T> {
    #[inline]
    fn address(&self) -> Address {
        address_of(&raw const **self.0)
    }
}

impl<T: ?Sized> AddressTyped for &&Spec<'_, *const T> {
    #[inline]
    fn address(&self) -> Address {
        address_of(*self.0)
    }
}

impl<T: ?Sized> AddressTyped for &&Spec<'_, *mut T> {
    #[inline]
    fn address(&self) -> Address {
        address_of(*self.0)
    }
}

fn address_of<T: ?Sized>(pointer: *const T) -> Address {
    Address(pointer.cast::<()>().addr() as u64)
}

/// A field of a type with a stored form.
pub trait FieldTyped<'a> {
    /// The type.
    type Type: ?Sized;
    /// Keeps it.
    fn field(&self) -> Typed<'a, Self::Type>;
}

impl<'a, T: Stored + ?Sized> FieldTyped<'a> for &&Plain<'a, T> {
    type Type = T;
    #[inline]
    fn field(&self) -> Typed<'a, T> {
        Typed(self.0)
    }
}

/// A field of any other type that can be displayed.
pub trait FieldText<'a> {
    /// The type.
    type Type: ?Sized;
    /// Keeps it.
    fn field(&self) -> Displayed<'a, Self::Type>;
}

impl<'a, T: fmt::Display + ?Sized> FieldText<'a> for &Plain<'a, T> {
    type Type = T;
    #[inline]
    fn field(&self) -> Displayed<'a, T> {
        Displayed(self.0)
    }
}

/// A type that can't be shown: takes the call, so that rustc's own words about it stand alone.
pub trait Unfit {
    /// Keeps nothing.
    fn show(&self) -> Unshown {
        Unshown
    }

    /// Keeps nothing.
    fn inspect(&self) -> Unshown {
        Unshown
    }
}

impl<T: ?Sized> Unfit for Plain<'_, T> {}

/// A field of a type that has no form: rustc says what to do.
pub trait FieldUnfit {
    /// The type.
    type Type: ?Sized;
    /// Keeps nothing.
    fn field(&self) -> Unshown
    where
        Self::Type: Field;
}

impl<T: ?Sized> FieldUnfit for Plain<'_, T> {
    type Type = T;
    fn field(&self) -> Unshown
    where
        T: Field,
    {
        Unshown
    }
}

/// Stands for `Stored` and Display in the words of rustc; no type has it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field: it has neither a stored form nor a Display",
    label = "no value that can be logged",
    note = "write `name:? = value` to log it as its Debug shows it, or implement Display"
)]
pub trait Field {}
