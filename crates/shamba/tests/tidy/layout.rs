//! How the source is laid out: the width of lines, and comments at the turns of long functions.

use std::collections::BTreeSet;

use super::{report, sources};

/// No line is wider, but for rows of tables in comments and lines that a string is part of.
const WIDTH: usize = 100;

/// The numbers of the lines, from 1 on, that a string literal is part of.
fn lines_of_strings(text: &str) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut number = 1;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let end = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            // A quotation mark as a character is the only one that begins no string.
            '\'' if rest.starts_with("'\"'") => 3,
            '\'' if rest.starts_with("'\\\"'") => 4,
            'r' if rest.trim_start_matches(['r', '#']).starts_with('"') => {
                let hashes = rest[1..].find('"').unwrap_or_default();
                let close = format!("\"{}", "#".repeat(hashes));
                let start = hashes + 2;
                rest[start..]
                    .find(&close)
                    .map_or(rest.len(), |at| start + at + close.len())
            }
            '"' => end_of_string(rest),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        let lines = token.matches('\n').count();
        if c == '"' || (c == 'r' && token.len() > 1) {
            found.extend(number..=number + lines);
        }
        number += lines;
        rest = after;
    }
    found
}

/// Where the string that a text begins with ends.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The lines, from 1 on, that are too wide.
fn wide_lines(text: &str) -> Vec<usize> {
    let strings = lines_of_strings(text);
    let wide = text.lines().enumerate().filter(|(at, line)| {
        let row = line
            .trim_start()
            .trim_start_matches(['/', '!'])
            .trim_start();
        line.chars().count() > WIDTH && !row.starts_with('|') && !strings.contains(&(at + 1))
    });
    wide.map(|(at, _)| at + 1).collect()
}

#[test]
fn lines_are_not_wide() {
    let mut complaints = Vec::new();
    for source in sources() {
        let wide = wide_lines(&source.text).into_iter();
        complaints.extend(wide.map(|number| format!("{}:{number}", source.name())));
    }
    report("lines of more than 100 columns", &complaints);
}

#[test]
fn wide_lines_are_found_in_comments_and_code() {
    let wide = "x".repeat(101);
    let text = format!(
        "// {wide}\n/// | {wide} |\nlet a = \"{wide}\";\n{wide}\nlet b = \"\\\"\n{wide}\n{wide}\";\n\
         {wide}; // \"\nlet c = r#\"\"{wide}\n{wide}\"#;\nlet d = '\"';\n{wide}\nlet e = '\\\"';\n{wide}\n"
    );
    assert_eq!(wide_lines(&text), [1, 4, 8, 12, 14]);
}
