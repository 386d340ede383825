//! JSON text to values and back. Knows no files and no protocol.
