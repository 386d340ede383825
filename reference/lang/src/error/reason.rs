//! Closed families of reasons: each is one table that gives the enum, all its members and their names on the wire.

/// Declares a family. Members `beside` it have the same type but never appear on the wire.
#[macro_export]
macro_rules! reasons {
    (
        $(#[$about:meta])*
        $visibility:vis enum $family:ident {
            $($(#[$doc:meta])* $member:ident = $wire:expr,)*
        }
        $(beside { $($(#[$apart_doc:meta])* $apart:ident = $apart_wire:expr,)* })?
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

            /// The member with this name on the wire.
            #[must_use]
            pub fn from_name(name: &str) -> Option<$family> {
                $family::ALL.iter().copied().find(|member| member.name() == name)
            }

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
    /// The outcome reasons that the language itself can give.
    pub enum Reason {
        /// The text is not a program.
        ParseError = "parse_error",
        /// The program is malformed, or failed while it ran.
        RuntimeError = "runtime_error",
        /// The wall-clock limit was exceeded.
        Timeout = "timeout",
        /// The memory limit was exceeded.
        MemoryLimit = "memory_limit",
        /// The caller gave up waiting.
        Cancelled = "cancelled",
    }
}

reasons! {
    /// The finer kinds of errors.
    pub enum Code {
        /// The program has too many symbols.
        SymbolLimit = "symbol_limit_exceeded",
        /// A special form has too few or too many parts.
        InvalidArity = "invalid_arity",
        /// A special form is malformed.
        InvalidForm = "invalid_form",
        /// Nothing has the name.
        UnboundVar = "unbound_var",
        /// A literal has the same key, or item, twice.
        DuplicateKey = "duplicate_key",
        /// An argument has the wrong kind, or a value that is not allowed.
        TypeError = "type_error",
        /// A function does not take so many arguments.
        ArityError = "arity_error",
        /// A division by zero and the like.
        ArithmeticError = "arithmetic_error",
        /// What is called is no function.
        NotCallable = "not_callable",
        /// A value does not fit the pattern that takes it apart.
        DestructureError = "destructure_error",
        /// A class or value lacks the member.
        UnsupportedMethod = "unsupported_method",
        /// The server or the agent offers no such tool.
        UnknownTool = "unknown_tool",
        /// A tool does not take such arguments.
        InvalidToolArgs = "invalid_tool_args",
        /// A branch of `pmap` failed, or what it forbids was tried.
        PmapError = "pmap_error",
        /// The same for `pcalls`.
        PcallsError = "pcalls_error",
        /// No worker thread is free.
        ParallelCapacity = "parallel_capacity_exceeded",
    }
}
