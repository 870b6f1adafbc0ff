//! The ways to keep an argument of a log call, the best first: see [`capture`](super).

use std::fmt;

use super::{
    Address, By, Debugged, Displayed, Plain, ShownByDebug, ShownByDisplay, Spec, Stored, Text, Typed, Unshown,
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

impl<'a, T: ShownByDisplay + ?Sized, F> ShowTyped<'a> for &&Spec<'a, T, F> {
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

impl<'a, T: ShownByDebug + ?Sized, F> InspectTyped<'a> for &&Spec<'a, T, F> {
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
pub trait BySpec<F> {
    /// Keeps it as Display and the like show it.
    fn show(&self) -> By<F>;
    /// Keeps it as Debug shows it.
    fn inspect(&self) -> By<F>;
    /// Keeps it as Pointer shows it.
    fn address(&self) -> By<F>;
}

impl<T: ?Sized, F: Fn(&mut Text<'_>) + Copy> BySpec<F> for &Spec<'_, T, F> {
    #[inline]
    fn show(&self) -> By<F> {
        By(self.1)
    }

    #[inline]
    fn inspect(&self) -> By<F> {
        By(self.1)
    }

    #[inline]
    fn address(&self) -> By<F> {
        By(self.1)
    }
}

/// `{:p}` of references and raw pointers.
pub trait AddressTyped {
    /// Keeps it.
    fn address(&self) -> Address;
}

impl<T: ?Sized, F> AddressTyped for &&Spec<'_, &T, F> {
    #[inline]
    fn address(&self) -> Address {
        address_of(*self.0)
    }
}

impl<T: ?Sized, F> AddressTyped for &&Spec<'_, &mut T, F> {
    #[inline]
    fn address(&self) -> Address {
        address_of(&raw const **self.0)
    }
}

impl<T: ?Sized, F> AddressTyped for &&Spec<'_, *const T, F> {
    #[inline]
    fn address(&self) -> Address {
        address_of(*self.0)
    }
}

impl<T: ?Sized, F> AddressTyped for &&Spec<'_, *mut T, F> {
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
