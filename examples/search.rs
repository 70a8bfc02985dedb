//! Full-text search: postings of words, intersected.
//!
//! `postings` has a key for each word of each document (word, zero byte, document), `documents` the
//! texts. A query walks the postings of all its words at once with a cursor each, and seeks from
//! one to the next document that may have all.
//!
//! ```sh
//! cargo run -p shamba-examples --bin search -- text.db add README.md ARCHITECTURE.md
//! cargo run -p shamba-examples --bin search -- text.db find memory budget
//! ```

use std::collections::BTreeSet;
use std::error::Error;

use shamba::{
    Compression, Cursor, Db, IterOptions, Keyspace, KeyspaceOptions, MemoryBudget, Options,
    WriteBatch,
};

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn posting(word: &str, document: &[u8]) -> Vec<u8> {
    [word.as_bytes(), &[0], document].concat()
}

fn add(
    db: &Db,
    documents: &Keyspace,
    postings: &Keyspace,
    path: &str,
) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    let now = words(&text);
    let before = match documents.get(path)? {
        Some(before) => words(std::str::from_utf8(&before)?),
        None => BTreeSet::new(),
    };
    let mut batch = WriteBatch::new();
    for gone in before.difference(&now) {
        batch.delete_in(postings, posting(gone, path.as_bytes()));
    }
    for new in now.difference(&before) {
        batch.put_in(postings, posting(new, path.as_bytes()), "");
    }
    batch.put_in(documents, path, &text);
    db.write(batch)?;
    println!("{path}: {} words", now.len());
    Ok(())
}

/// The postings of a word, at one place.
struct Postings {
    cursor: Cursor,
    word: String,
}

impl Postings {
    fn document(&self) -> Option<Vec<u8>> {
        let key = self.cursor.valid().then(|| self.cursor.key())?;
        Some(key[self.word.len() + 1..].to_vec())
    }
}

fn find(postings: &Keyspace, query: &[&str]) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut lists = Vec::new();
    for word in words(&query.join(" ")) {
        let mut cursor = postings.cursor(IterOptions::prefix(posting(&word, b"")))?;
        cursor.seek_to_first()?;
        lists.push(Postings { cursor, word });
    }
    let mut found = Vec::new();
    let mut candidate = Vec::new();
    // Each list in turn is brought to the candidate or behind it, which then is the candidate.
    'next: while !lists.is_empty() {
        for list in &mut lists {
            list.cursor.seek(posting(&list.word, &candidate))?;
            match list.document() {
                None => break 'next,
                Some(document) if document > candidate => {
                    candidate = document;
                    continue 'next;
                }
                Some(_) => {}
            }
        }
        found.push(candidate.clone());
        candidate.push(0);
    }
    Ok(found)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let usage = "FOLDER add FILE..., or FOLDER find WORD...";
    let dir = arguments.first().ok_or(usage)?;
    let db = Options::new()
        .memory(MemoryBudget::bytes(16 << 20))
        .open(dir)?;
    // Texts compress well; the option is kept with the keyspace.
    let compressed = KeyspaceOptions::new().compression([Compression::Lz4]);
    let documents = db.open_keyspace("documents", compressed)?;
    let postings = db.open_keyspace("postings", KeyspaceOptions::default())?;
    match &arguments[1..] {
        ["add", files @ ..] => {
            for file in files {
                add(&db, &documents, &postings, file)?;
            }
        }
        ["find", query @ ..] => {
            for document in find(&postings, query)? {
                println!("{}", String::from_utf8_lossy(&document));
            }
        }
        _ => return Err(usage.into()),
    }
    db.close()?;
    Ok(())
}
