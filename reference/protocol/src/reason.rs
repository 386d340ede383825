//! Closed families of reasons: each is one table that gives the enum, all its members and their names on the wire. Knows no
//! rendering.

/// Declares a family. Members `beside` it have the same type but never appear on the wire.
#[macro_export]
macro_rules! reasons {
    (
        $(#[$about:meta])*
        $visibility:vis enum $family:ident {
            $($(#[$doc:meta])* $member:ident = $wire:literal,)*
        }
        $(beside { $($(#[$apart_doc:meta])* $apart:ident = $apart_wire:literal,)* })?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $visibility enum $family {
            $($(#[$doc])* $member,)*
            $($($(#[$apart_doc])* $apart,)*)?
        }

        impl $family {
            /// Every member, in the order of schemas.
            pub const ALL: &[$family] = &[$($family::$member,)*];

            /// The name on the wire.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($family::$member => $wire,)*
                    $($($family::$apart => $apart_wire,)*)?
                }
            }
        }
    };
}

reasons! {
    /// Why a `lisp_eval` call failed. The renderer matches without a wildcard, so the compiler demands a rule for each new
    /// member.
    pub enum ErrorReason {
        /// The source can't be read, or its static checks fail.
        ParseError = "parse_error",
        RuntimeError = "runtime_error",
        Timeout = "timeout",
        /// The memory limit was reached.
        MemoryLimit = "memory_limit",
        /// The arguments of the call are malformed.
        ArgsError = "args_error",
        /// The program called `(fail v)`. The only reason whose payload carries `result`.
        Fail = "fail",
        /// The returned value does not match the requested type.
        ValidationError = "validation_error",
    }
}

impl ErrorReason {
    /// The member with this wire name.
    #[must_use]
    pub fn from_wire(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.name() == name)
    }
}
