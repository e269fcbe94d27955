//! Checks that the style sheet's colours contrast as WCAG 2.1 AA asks, in both themes: 4.5 for text,
//! 3 for what a picture is read by.

use std::collections::HashMap;

const STYLE: &str = include_str!("style.css");

/// Relative luminance of `#rrggbb`.
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

/// The colours of the theme whose block is the `index`th.
fn theme(index: usize) -> HashMap<&'static str, &'static str> {
    let block = STYLE.split(":root {").nth(index + 1).unwrap();
    let block = block.split_once('}').unwrap().0;
    let colors = block.lines().filter_map(|line| {
        let (name, value) = line.trim().strip_prefix("--")?.split_once(": ")?;
        let value = value.strip_suffix(';')?;
        value.starts_with('#').then_some((name, value))
    });
    colors.collect()
}

#[test]
fn colours_contrast_in_both_themes() {
    for theme in [theme(0), theme(1)] {
        let check = |front: &str, back: &str, least: f64| {
            let found = contrast(theme[front], theme[back]);
            assert!(
                found >= least,
                "{front} on {back}: {found:.2}, least {least}"
            );
        };
        for back in ["page", "surface", "track"] {
            for text in ["ink", "soft", "accent"] {
                check(text, back, 4.5);
            }
            check("bad", back, 4.5);
        }
        check("good", "good-back", 4.5);
        check("bad", "bad-back", 4.5);
        for tone in [
            "raw",
            "mem",
            "obj",
            "arena",
            "numpy",
            "native",
            "mapped",
            "other",
            "heap",
            "file",
            "stack",
            "anonymous",
        ] {
            check(tone, "surface", 3.0);
        }
        for tint in [
            "mine",
            "package",
            "standard",
            "library",
            "outside",
            "found",
            "grew",
            "most-grew",
            "shrank",
            "most-shrank",
        ] {
            check("label", tint, 4.5);
            check(tint, "surface", 3.0);
        }
        check("good", "surface", 4.5);
    }
}

#[test]
fn the_dark_theme_names_every_colour() {
    let names = |index| {
        let mut names: Vec<&str> = theme(index).into_keys().collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(0), names(1));
    assert!(names(0).len() > 20);
}
