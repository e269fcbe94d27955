//! Pieces of markup that several sections use: figures with their exact value, bars, tables in boxes of their own.

use super::{chart::account_class, text};
use maud::{Markup, Render, html};
use serde_json::Value;

/// Bytes for people; the exact number is the element's value and its title.
pub fn bytes(number: i64) -> Markup {
    html! {
        data value=(number) title=(format!("{} bytes", text::count(number))) { (text::bytes(number)) }
    }
}

pub fn maybe_bytes(number: Option<i64>) -> Markup {
    number.map_or_else(unknown, bytes)
}

pub fn count(number: i64) -> Markup {
    html! { data value=(number) { (text::count(number)) } }
}

/// A count of what should not have happened: it stands out unless it is 0.
pub fn trouble(number: i64) -> Markup {
    html! { span.trouble[number > 0] { (count(number)) } }
}

/// The members of sections that are such counts.
const TROUBLES: [&str; 4] = ["refused_commits", "missed_blocks", "failures", "injected"];

pub fn unknown() -> Markup {
    html! { span.unknown { "\u{2013}" span.unseen { "not known" } } }
}

/// A file and a line in it, each of which may not be known.
pub fn place(file: Option<&str>, line: Option<i64>) -> Markup {
    html! {
        @match (file, line) {
            (Some(file), Some(line)) => code { (text::clean(file)) ":" (line) },
            (Some(file), None) => code { (text::clean(file)) },
            _ => (unknown()),
        }
    }
}

/// A part in percent of a whole, for widths; between 0 and 100.
fn percent(part: i64, whole: i64) -> String {
    let share = match whole {
        ..=0 => 0.0,
        _ => (part.max(0) as f64 * 100.0 / whole as f64).min(100.0),
    };
    format!("{share:.2}%")
}

pub fn swatch(class: &str) -> Markup {
    html! { svg class={ "swatch " (class) } viewBox="0 0 10 10" aria-hidden="true" { rect width="10" height="10" rx="2" {} } }
}

/// A box that scrolls its table if the page is narrower, by keys too.
pub fn scroll(label: &str, table: &impl Render) -> Markup {
    html! { div.scroll role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// The titles of a table's columns: of texts, of numbers behind them, and of more texts.
pub type Titles<'a> = [&'a [&'a str]; 3];

pub fn head([left, numbers, right]: Titles) -> Markup {
    html! {
        thead { tr {
            @for title in left { th scope="col" { (title) } }
            @for title in numbers { th scope="col" .number { (title) } }
            @for title in right { th scope="col" { (title) } }
        } }
    }
}

/// A table in a box of its own, of the cells of its rows.
pub fn table(label: &str, titles: Titles, rows: impl Iterator<Item = Markup>) -> Markup {
    let table = html! { table { (head(titles)) tbody { @for row in rows { tr { (row) } } } } };
    scroll(label, &table)
}

/// The most columns of a [`list`]: a report may be forged.
const MOST_COLUMNS: usize = 12;

/// A table of a list of the report's: a row for each object, a column for each plain value of the first one.
pub fn list(label: &str, list: &[Value]) -> Markup {
    let rows = || list.iter().filter_map(Value::as_object);
    let is_number = |name| rows().any(|row| row.get(name).is_some_and(Value::is_number));
    let plain = rows().next().into_iter().flatten();
    let plain = plain.filter(|(_, value)| !value.is_array() && !value.is_object());
    let names = plain.map(|(name, _)| (name, is_number(name)));
    let names: Vec<(&String, bool)> = names.take(MOST_COLUMNS).collect();
    let cell = |name: &str, found: Option<&Value>| {
        html! {
            @match found {
                Some(Value::String(account)) if name == "account" => { (swatch(account_class(account))) (text::clean(account)) }
                None | Some(Value::Null) => (unknown()),
                Some(found) => (value(name, found)),
            }
        }
    };
    let table = html! {
        table {
            thead { tr { @for (name, is_number) in &names { th scope="col" .number[*is_number] { (words(name)) } } } }
            tbody {
                @for row in rows() {
                    tr { @for (name, is_number) in &names { td.number[*is_number] { (cell(name, row.get(*name))) } } }
                }
            }
        }
    };
    scroll(label, &table)
}

/// A bar: the peak, and in it what is live.
pub fn bar(class: &str, [peak, live]: [i64; 2], most: i64) -> Markup {
    html! {
        svg class={ "bar " (class) } aria-hidden="true" width="100%" height="14" {
            rect.track width="100%" height="14" rx="3" {}
            rect.peak width=(percent(peak, most)) height="14" rx="3" {}
            rect.live width=(percent(live, most)) height="14" rx="3" {}
        }
    }
}

/// Names with their values.
pub fn facts(facts: &[(impl Render, Markup)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in facts { div { dt { (name) } dd { (value) } } }
        }
    }
}

/// A name of the report as words: `peak_live_bytes` is `peak live`.
pub fn words(name: &str) -> String {
    let mut units = ["_bytes", "_seconds"].into_iter();
    match units.find_map(|unit| name.strip_suffix(unit)) {
        None if name == "seconds" => "after".to_owned(),
        words => text::clean(words.unwrap_or(name)).replace('_', " "),
    }
}

/// A value of the report, by its name and kind.
pub fn value(name: &str, value: &Value) -> Markup {
    match (value, value.as_i64()) {
        (_, Some(number)) if TROUBLES.contains(&name) => trouble(number),
        (_, Some(number)) if name.ends_with("_bytes") => bytes(number),
        (Value::Number(number), _) if name.ends_with("seconds") => {
            html! { (text::seconds(number.as_f64().unwrap_or(0.0))) }
        }
        (_, Some(number)) => count(number),
        (Value::Null, _) => html! { "none" },
        (Value::Bool(yes), _) => html! { @if *yes { "yes" } @else { "no" } },
        (Value::Number(number), _) => html! { (format!("{:.3}", number.as_f64().unwrap_or(0.0))) },
        (Value::String(text), _) => html! { (text::clean(text)) },
        (other, _) => html! { code { (text::short(&other.to_string(), 80)) } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_stay_within_their_bar() {
        assert_eq!(percent(1, 4), "25.00%");
        assert_eq!(percent(-1, 4), "0.00%");
        assert_eq!(percent(9, 4), "100.00%");
        assert_eq!(percent(9, 0), "0.00%");
    }
}
