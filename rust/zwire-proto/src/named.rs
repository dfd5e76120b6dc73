//! Enums whose values have names.

/// Defines an enum from its values and their names, with `ALL` and `name`.
macro_rules! named {
    ($(#[$attribute:meta])* pub enum $type:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$attribute])*
        pub enum $type {
            $($(#[$doc])* $value,)*
        }

        impl $type {
            /// All values, in their order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$value),*];

            /// Name of the value.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }
        }
    };
}
pub(crate) use named;
