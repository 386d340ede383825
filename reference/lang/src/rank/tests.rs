//! Text in, tokens and scores out.

use super::*;

#[test]
fn tokens_split_at_specified_points() {
    for (text, expected) in [
        ("read_text_file", "read text file"),
        ("readTextFile", "read text file"),
        ("HTTPServer", "httpserver"),
        ("getHTTPResponse", "get httpresponse"),
        ("v2List", "v2list"),
        ("UTF-8", "utf 8"),
        ("stop!", "stop!"),
        ("a.b/c:d (e), f", "a b c d e f"),
        ("foo__bar--baz", "foo bar baz"),
    ] {
        assert_eq!(tokens(text).join(" "), expected);
    }
}

#[test]
fn scores() {
    for (query, names, prose, expected) in [
        (
            "read",
            "fs read_text_file",
            "Read the contents of a UTF-8 text file",
            22,
        ),
        ("rea", "read_text_file", "", 7),
        ("ead", "read_text_file", "", 4),
        ("ead", "reread_eads_ead", "", 12),
        ("ana", "banana", "", 4),
        ("read text", "read_text_file", "", 24),
        (
            "read text",
            "",
            "Read the contents of a UTF-8 text file",
            20,
        ),
        ("files", "file", "", 0),
        (
            "file",
            "search-files",
            "Recursively search for files matching a pattern",
            12,
        ),
        ("read read", "read", "", 24),
        (
            "search repos",
            "github search_repos",
            "Search repositories",
            39,
        ),
        (
            "create_issue repository",
            "github create_issue",
            "Create an issue in a repository",
            54,
        ),
        ("!!!", "read", "read", 0),
    ] {
        let indexed = Indexed::new([names], [prose]);
        assert_eq!(
            indexed.score(&Query::new(&tokens(query))),
            expected,
            "{query}"
        );
    }
}
