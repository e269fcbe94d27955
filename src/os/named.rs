//! Names of the values of a type, written once.

/// A type whose values have names.
pub trait Named: Copy + 'static {
    /// The values that a name means, each with it.
    const NAMES: &'static [(&'static str, Self)];

    fn of_name(name: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }
}

/// Gives the values of a type their names; with `values of`, without a function `name`, and with `all`, also their list.
#[macro_export]
macro_rules! named {
    (all $type:ident: $($name:literal $value:ident),*) => {
        impl $type {
            pub const ALL: [$type; [$($name),*].len()] = [$($type::$value),*];
        }

        $crate::named!($type: $($name $value),*);
    };
    ($type:ident: $($name:literal $value:ident),*) => {
        impl $type {
            /// The name in options and reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$value => $name),*
                }
            }
        }

        $crate::named!(values of $type: $($name $value),*);
    };
    (values of $type:ident: $($name:literal $value:ident),*) => {
        impl $crate::named::Named for $type {
            const NAMES: &'static [(&'static str, Self)] = &[$(($name, $type::$value)),*];
        }
    };
}
