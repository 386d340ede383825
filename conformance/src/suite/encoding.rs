//! What can be wrong with the JSON in which a bundle holds texts and patterns.

/// Why JSON of a bundle is not a text or a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodingError {
    /// A text is neither a string nor parts.
    #[error("expected a text: a string or {{\"$text\": […]}}, found {found}")]
    Text {
        /// The kind of value.
        found: &'static str,
    },
    /// A part is neither a string nor an object with one member.
    #[error("expected a part: a string, or an object with one member")]
    Part,
    /// The member of a part has another name.
    #[error("expected hex, repeat, fill, use or hole, found {0}")]
    UnknownPart(String),
    /// A member of a part is not a whole number from 0.
    #[error("expected a count as {member} of {part}")]
    Count {
        /// The member.
        member: &'static str,
        /// The part.
        part: String,
    },
    /// A member of a part is not a string.
    #[error("expected a string as {member} of {part}")]
    Word {
        /// The member.
        member: &'static str,
        /// The part.
        part: String,
    },
    /// Bytes are not pairs of hexadecimal digits.
    #[error("expected hexadecimal digits")]
    Digits,
    /// A repetition has nothing to repeat.
    #[error("expected text of repeat")]
    RepeatedText,
    /// The form in which a capture is written is none.
    #[error("expected json, string or plain, found {0}")]
    CaptureForm(String),
    /// `$hole` is not a string.
    #[error("expected the kind of the hole")]
    HoleKind,
    /// `$hole` is not a kind.
    #[error("unknown kind of hole: {0}")]
    UnknownHole(String),
    /// `$min` or `$max` is not an integer of 64 bits.
    #[error("expected an integer as {0}")]
    Bound(&'static str),
    /// A hole for JSON in a string has no pattern.
    #[error("expected $pattern of a json hole")]
    HolePattern,
    /// A hole for several elements has no array of patterns.
    #[error("expected $items")]
    HoleItems,
    /// `$use` is not a string.
    #[error("expected a name as $use")]
    UsedName,
    /// A member with one `$` has another name.
    #[error("unknown member {0}")]
    UnknownMember(String),
}
