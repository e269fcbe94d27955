//! Figures and words as people read them, before they are escaped.

use pyhost_os::bytes::Bytes;

/// Bytes as `23.4 MiB`, which no line's end parts; a sign before what is below zero.
pub fn bytes(number: i64) -> String {
    let sign = if number < 0 { "\u{2212}" } else { "" };
    let figure = Bytes(number.unsigned_abs()).to_string();
    format!("{sign}{}", figure.replace(' ', "\u{a0}"))
}

/// The sum of figures that somebody else wrote: it stops at the ends of what a number can be.
pub fn sum(figures: impl Iterator<Item = i64>) -> i64 {
    figures.fold(0, i64::saturating_add)
}

/// A count with commas between thousands.
pub fn count(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "\u{2212}" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Seconds: milliseconds below one, then two decimals, then minutes and hours.
pub fn seconds(number: f64) -> String {
    match number {
        _ if number < 0.9995 => format!("{:.0}\u{a0}ms", number * 1000.0),
        _ if number < 120.0 => format!("{number:.2}\u{a0}s"),
        _ => {
            let whole = number.round() as u64;
            let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
            match hours {
                0 => format!("{minutes}:{seconds:02}\u{a0}min"),
                _ => format!("{hours}:{minutes:02}:{seconds:02}\u{a0}h"),
            }
        }
    }
}

/// A part of a whole in percent, with one decimal; empty if there is no whole.
pub fn share(part: i64, whole: i64) -> String {
    match whole {
        ..=0 => String::new(),
        _ => format!("{:.1}\u{a0}%", part as f64 * 100.0 / whole as f64),
    }
}

/// Text that somebody else chose, for one line: what would break the line, turn its direction or
/// not show becomes U+FFFD.
pub fn clean(text: &str) -> String {
    text.replace(is_unseen, "\u{fffd}")
}

/// Whether a character has no picture of its own: controls, and those that turn the direction.
pub fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// At most `most` characters of it, cleaned, the cut shown by an ellipsis.
pub fn short(text: &str, most: usize) -> String {
    let text = clean(text);
    match text.char_indices().nth(most) {
        None => text,
        Some(_) => text.chars().take(most - 1).chain(['\u{2026}']).collect(),
    }
}

/// A word of a command line, in quotes if a shell needs them.
pub fn word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./=+:,@%^".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        // Code after -c has lines of its own.
        false => {
            let lines: Vec<String> = text.split('\n').map(clean).collect();
            format!("'{}'", lines.join("\n").replace('\'', r"'\''"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_signed() {
        assert_eq!(bytes(-1536), "\u{2212}1.5\u{a0}KiB");
        assert_eq!(bytes(i64::MIN), "\u{2212}8192.0\u{a0}PiB");
        assert_eq!(count(0), "0");
        assert_eq!(count(-1234567), "\u{2212}1,234,567");
        assert_eq!(share(1, 3), "33.3\u{a0}%");
        assert_eq!(share(1, 0), "");
        for (number, text) in [
            (0.0, "0 ms"),
            (0.1234, "123 ms"),
            (0.9999, "1.00 s"),
            (119.0, "119.00 s"),
            (125.4, "2:05 min"),
            (7265.0, "2:01:05 h"),
        ] {
            assert_eq!(seconds(number), text.replace(' ', "\u{a0}"));
        }
    }

    #[test]
    fn words_of_others_stay_in_their_line() {
        assert_eq!(clean("a\nb\u{202e}c\0"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(short("abcdef", 4), "abc\u{2026}");
        assert_eq!(short("abcd", 4), "abcd");
        assert_eq!(word("a b"), "'a b'");
        assert_eq!(word("a\nb\r"), "'a\nb\u{fffd}'");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!(word("--cap=64M"), "--cap=64M");
        assert_eq!(word(""), "''");
    }
}
