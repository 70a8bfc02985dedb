//! Amounts and tables as text for a person; the same for answers and for whoever shows them beside
//! other things.

use bytesize::ByteSize;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// Bytes with a unit.
pub fn bytes(amount: u64) -> String {
    ByteSize::b(amount).display().iec().to_string()
}

/// A number with thousands separated.
pub fn number(amount: u64) -> String {
    let digits = amount.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A measured number with about three significant digits.
pub fn measured(amount: f64) -> String {
    let size = amount.abs();
    if size >= 100.0 || size == 0.0 {
        number(amount.round() as u64)
    } else if size >= 10.0 {
        format!("{amount:.1}")
    } else if size >= 1.0 {
        format!("{amount:.2}")
    } else {
        format!("{amount:.4}")
    }
}

/// A table: the first column to the left, the others to the right.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for row in rows {
        table.add_row(row.iter().enumerate().map(|(column, text)| {
            Cell::new(text).set_alignment(if column == 0 {
                CellAlignment::Left
            } else {
                CellAlignment::Right
            })
        }));
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        assert_eq!(number(1), "1");
        assert_eq!(number(16_777_216), "16,777,216");
        assert_eq!(bytes(32 << 20), "32.0 MiB");
        assert_eq!(measured(1234.5), "1,235");
        assert_eq!(measured(0.03512), "0.0351");
    }
}
