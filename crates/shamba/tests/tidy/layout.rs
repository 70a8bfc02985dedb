//! How the source is laid out: the width of lines, and comments at the turns of long functions.

use std::collections::BTreeSet;

use super::{report, sources};

/// A function with a body of so many lines has comments at its turns: two of them at least, and
/// no more than [`LONGEST_SILENCE`] lines in a row without one.
const LONG_BODY: usize = 40;
const LONGEST_SILENCE: usize = 30;

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

/// Functions of a text, which rustfmt has laid out: the line of each, its name, and its body.
fn functions(text: &str) -> Vec<(usize, &str, Vec<&str>)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let Some((before, name)) = code.split_once("fn ") else {
            continue;
        };
        let modifiers = |word: &str| {
            word.starts_with("pub") || word.ends_with(')') || ["const", "unsafe"].contains(&word)
        };
        if !before.split_whitespace().all(modifiers) {
            continue;
        }
        let name = &name[..name.find(['(', '<']).unwrap_or(name.len())];
        // The body begins with the line that ends in a brace, and ends with one at the function's
        // own indentation. A declaration without a body has a semicolon first.
        let rest = &lines[at..];
        let opens = rest.iter().position(|line| line.ends_with(['{', ';', '}']));
        let Some(opens) = opens.filter(|opens| rest[*opens].ends_with('{')) else {
            continue;
        };
        let close = format!("{indent}}}");
        let body = rest[opens + 1..].iter().take_while(|line| **line != close);
        found.push((at + 1, name, body.copied().collect()));
    }
    found
}

/// What is wrong with the comments of a function's body, if it is long.
fn silence(body: &[&str]) -> Option<String> {
    if body.len() < LONG_BODY {
        return None;
    }
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let comments = body
        .chunk_by(|a, b| is_comment(a) == is_comment(b))
        .filter(|lines| is_comment(&lines[0]))
        .count();
    let longest = body.split(|line| is_comment(line)).map(<[&str]>::len);
    let longest = longest.max().unwrap_or(0);
    (comments < 2 || longest > LONGEST_SILENCE).then(|| {
        let lines = body.len();
        format!("{lines} lines, {comments} comments, {longest} lines without one")
    })
}

/// Whoever reads a long function finds at its turns why it goes on as it does.
#[test]
fn long_functions_say_why_at_their_turns() {
    let mut complaints = Vec::new();
    let mut long = 0;
    for source in sources() {
        if source.module().is_none() || source.is_test() {
            continue;
        }
        for (line, name, body) in functions(source.code()) {
            long += usize::from(body.len() >= LONG_BODY);
            if let Some(what) = silence(&body) {
                complaints.push(format!("{}:{line}: {name}: {what}", source.name()));
            }
        }
    }
    assert!(long > 30, "only {long} long functions were found");
    report(
        "long functions without comments at their turns",
        &complaints,
    );
}

#[test]
fn silent_functions_are_found() {
    let line = "        step();\n";
    let comment = "        // Why.\n";
    let function = |body: &str| {
        format!("    pub(crate) fn long<T>(\n        a: T,\n    ) -> T {{\n{body}    }}\n")
    };
    let silent = |body: &str| {
        let text = format!("trait A {{\n    fn short();\n}}\n{}", function(body));
        let found = functions(&text);
        let [(4, "long", body)] = &found[..] else {
            panic!("{found:?}");
        };
        silence(body).is_some()
    };
    let part = |count: usize| line.repeat(count);
    assert!(!silent(&part(39)));
    assert!(silent(&part(40)));
    assert!(silent(&[part(20), part(20)].join(comment)));
    assert!(!silent(&[part(15), part(15), part(10)].join(comment)));
    assert!(silent(&[part(5), part(31), part(10)].join(comment)));
}
