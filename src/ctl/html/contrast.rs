//! Checks that the style sheet's colours contrast as WCAG 2.1 AA asks, in both themes: 4.5 for text,
//! 3 for what a picture is read by.

use pyhost_ledger::REPORTED;

const STYLE: &str = concat!(include_str!("style.css"), include_str!("lines/style.css"));

fn luminance(color: &str) -> f64 {
    let part = |at: usize| {
        let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
        match value {
            ..=0.04045 => value / 12.92,
            _ => ((value + 0.055) / 1.055).powf(2.4),
        }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// The colour in a theme of a role, `--page`, or of a class, `.raw`.
fn color(name: &str, theme: usize) -> &'static str {
    let lines = STYLE.lines().map(str::trim);
    let mut named = lines.filter_map(|line| line.strip_prefix(name));
    let value = named.find_map(|rest| {
        let of_class = || rest.split_once("{ --").map(|(_, value)| value);
        rest.strip_prefix(": ").or_else(of_class)
    });
    let words = value.unwrap_or_else(|| panic!("{name}"));
    let words = words.split(['(', ')', ',', ';', ' ']);
    let colors: Vec<&str> = words.filter(|word| word.starts_with('#')).collect();
    colors[theme.min(colors.len() - 1)]
}

#[test]
fn colours_contrast_in_both_themes() {
    for theme in [0, 1] {
        let check = |front: &str, back: &str, least: f64| {
            let found = contrast(color(front, theme), color(back, theme));
            assert!(found >= least, "{front} on {back}: {found:.2} of {least}");
        };
        for back in ["--page", "--surface", "--track"] {
            for text in ["--ink", "--soft", "--accent", "--bad"] {
                check(text, back, 4.5);
            }
        }
        check("--good", "--good-back", 4.5);
        check("--bad", "--bad-back", 4.5);
        check("--good", "--surface", 4.5);
        let accounts = REPORTED.iter().map(|account| account.name());
        for tone in accounts.chain(["other", "heap", "file", "stack", "anonymous"]) {
            check(&format!(".{tone}"), "--surface", 3.0);
        }
        let tints = ".mine .package .standard .library .outside .found .grew .most-grew .shrank .most-shrank";
        for tint in tints.split(' ') {
            check("--label", tint, 4.5);
            check(tint, "--surface", 3.0);
        }
    }
}
