//! The picture of a timeline, as SVG: accounts stacked, the resident size as a line, caps dashed, marks
//! and refusals as labelled vertical lines.
//!
//! Each part has a class; the style sheet gives it the colours of the page's theme. Coordinates are
//! whole numbers, so that a canvas counts two units a pixel.

use super::bands::{CapLine, Stack, cap_lines, stack};
use super::text::{bytes, short};
use super::timeline::{Event, Kind, Sample, Timeline};
use maud::{Markup, html};
use pyhost_ledger::REPORTED;

/// The class of the style sheet that colours an account; one that is not known there has one for all such.
pub fn account_class(name: &str) -> &'static str {
    let mut known = REPORTED.iter().map(|account| account.name());
    known.find(|known| *known == name).unwrap_or("other")
}

/// The canvas of a picture. Two of its units are a pixel at its natural size.
pub struct Canvas {
    class: &'static str,
    width: i32,
    height: i32,
    /// Room for the labels of the vertical axis.
    left: i32,
    font: i32,
    /// Characters of an event's label.
    label: usize,
    /// The most steps of the horizontal axis.
    moments: usize,
    /// The most steps of the vertical axis.
    heights: usize,
    /// The number of stretches that the time is divided into.
    stretches: usize,
}

impl Canvas {
    fn lane(&self) -> i32 {
        self.font * 5 / 4
    }

    /// About how long a text is. Wide letters are about as wide as the font is high.
    fn length(&self, text: &str) -> i32 {
        let wide = text.chars().filter(|letter| !letter.is_ascii()).count();
        let letters = text.chars().count() as f64 * 0.56 + wide as f64 * 0.5;
        (letters * f64::from(self.font)) as i32
    }
}

/// The number of stretches of time. The page keeps at most three samples of each.
pub const STRETCHES: usize = 256;
/// For a window of a desk.
pub const WIDE: Canvas = Canvas {
    class: "wide",
    width: 1920,
    height: 800,
    left: 132,
    font: 25,
    label: 20,
    moments: 9,
    heights: 6,
    stretches: STRETCHES,
};

/// For a phone held upright.
pub const NARROW: Canvas = Canvas {
    class: "narrow",
    width: 720,
    height: 640,
    left: 124,
    font: 24,
    label: 12,
    moments: 6,
    heights: 6,
    stretches: 120,
};

/// Lines of labels above the plane.
const LANES: usize = 3;
/// Events that are drawn; the table has more.
const MOST_EVENTS: usize = 200;
/// A cap above this many times the highest figure is named and not drawn.
const CAP_IN_SIGHT: f64 = 2.5;
const RIGHT: i32 = 28;
const TICK: i32 = 8;

/// A picture, and the data that it leaves out.
pub struct Picture {
    pub svg: Markup,
    /// Scopes whose caps are too high to be drawn.
    pub out_of_sight: Vec<String>,
    /// The caps that are drawn, by scope.
    pub caps: Vec<String>,
    /// How what is live and not resident is shown.
    pub outline: Outline,
}

/// How a picture shows live bytes that are not resident: reserved, or never written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outline {
    None,
    /// As a dashed line above the bands.
    Drawn,
    /// Not at all: with them the stack is so many bytes high, out of all proportion.
    TooHigh(i64),
}

/// Seconds and bytes.
type Point = (f64, f64);

/// Draws a timeline; `label` describes the picture to a reader who does not see it.
pub fn draw(timeline: &Timeline, canvas: &Canvas, label: &str) -> Picture {
    let names = &timeline.accounts;
    let samples = timeline.thinned(canvas.stretches);
    let stacks: Vec<Stack> = samples.iter().map(|sample| stack(sample, names)).collect();
    // If the system says nothing of the resident size, all that is live counts.
    let filled = |sample: &&Sample| sample.resident.unwrap_or(sample.total) as f64;
    let without_files = |sample| (filled(sample) - sample.files.unwrap_or(0) as f64).max(0.0);
    let in_memory: Vec<f64> = samples.iter().map(without_files).collect();
    let data = samples.iter().map(filled).fold(1024.0, f64::max);
    let top_of = |stack: &Stack| stack.edges.last().copied();
    let tops = || stacks.iter().filter_map(top_of);
    let top = tops().fold(0.0, f64::max);
    let outline = match tops().zip(&in_memory).any(|(top, filled)| top > *filled) {
        false => Outline::None,
        true if top <= data * CAP_IN_SIGHT => Outline::Drawn,
        true => Outline::TooHigh(top as i64),
    };
    let data = data.max(if outline == Outline::Drawn { top } else { 0.0 });
    let caps = cap_lines(timeline, &stacks).into_iter();
    let (drawn, hidden): (Vec<_>, Vec<_>) =
        caps.partition(|line| line.highest <= data * CAP_IN_SIGHT);
    let most = drawn.iter().map(|line| line.highest).fold(data, f64::max);
    let plane = Plane::new(timeline.span(), most * 1.04, canvas);
    let svg = html! {
        svg class={ "plot " (canvas.class) } role="img" aria-label=(label)
            viewBox={ "0 0 " (canvas.width) " " (canvas.height) }
            data-left=(plane.left) data-right=(plane.right) data-top=(plane.top) data-bottom=(plane.bottom)
            data-first=(plane.first) data-last=(plane.last) {
            (axes(&plane, canvas))
            @if samples.iter().any(|sample| sample.files.is_some()) {
                polygon class="band file" points=(area(&plane, &stacks, &|index| filled(&samples[index]))) {}
            }
            (bands(&plane, &stacks, &in_memory, names, canvas.class))
            @if outline == Outline::Drawn {
                (line(&plane, "outline", 2, stacks.iter().filter_map(|stack| Some((stack.time, *stack.edges.last()?)))))
            }
            (line(&plane, "resident", 4, resident(&samples)))
            @for cap in &drawn {
                @let scope = cap.account.map_or("total", |index| account_class(&names[index]));
                @for piece in &cap.pieces {
                    (line(&plane, &format!("cap {scope}"), 3, piece.iter().copied()))
                }
            }
            (events(&plane, timeline, canvas))
        }
    };
    let scopes = |lines: Vec<CapLine>| lines.into_iter().map(|line| line.scope).collect();
    Picture {
        svg,
        out_of_sight: scopes(hidden),
        caps: scopes(drawn),
        outline,
    }
}

/// The rectangle that the data is drawn in, and its scales.
struct Plane {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    /// Seconds at the left and the right edge.
    first: f64,
    last: f64,
    /// Bytes at the upper edge; the lower one is 0.
    most: f64,
}

impl Plane {
    fn new((first, last): (f64, f64), most: f64, canvas: &Canvas) -> Self {
        Plane {
            left: canvas.left,
            right: canvas.width - RIGHT,
            top: canvas.lane() * LANES as i32 + 10,
            bottom: canvas.height - canvas.font * 2,
            first,
            last,
            most,
        }
    }

    fn x(&self, time: f64) -> i32 {
        let part = (time - self.first) / (self.last - self.first);
        self.left + (part * f64::from(self.right - self.left)).round() as i32
    }

    /// A point above the plane is moved to its edge: if samples were left out, the foot of a cap may be too high.
    fn y(&self, bytes: f64) -> i32 {
        let part = (bytes / self.most).min(1.0);
        self.bottom - (part * f64::from(self.bottom - self.top)).round() as i32
    }

    /// The attribute `points` of these moments and bytes.
    fn points(&self, points: impl Iterator<Item = Point>) -> String {
        let point = |(time, bytes)| format!("{},{}", self.x(time), self.y(bytes));
        points.map(point).collect::<Vec<_>>().join(" ")
    }
}

/// The distance of ticks on an axis of this length: 1, 2 or 5 times a power of ten, so that there are
/// at most `most` of them. Returns the digits behind the decimal point that a tick needs too.
fn step(length: f64, most: usize) -> (f64, usize) {
    let least = length / most as f64;
    let power = least.log10().floor();
    let of_ten = |factor: f64| factor * 10_f64.powf(power);
    let found = [1.0, 2.0, 5.0].map(of_ten);
    let fits = |step: &f64| *step >= least;
    let digits = (-power).max(0.0) as usize;
    match found.into_iter().find(fits) {
        Some(step) => (step, digits),
        None => (of_ten(10.0), digits.saturating_sub(1)),
    }
}

/// The ticks of an axis from 0 to `end`, with their labels in units of which `scale` make one of the axis's.
fn ticks(end: f64, scale: f64, unit: &str, most: usize) -> Vec<(f64, String)> {
    let (step, digits) = step(end * scale, most);
    let count = (end * scale / step + 1e-9) as usize;
    let tick = |index: usize| {
        let value = index as f64 * step;
        (value / scale, format!("{value:.digits$} {unit}"))
    };
    (0..=count).map(tick).collect()
}

/// The axes with their ticks and labels, and a horizontal line at each tick of the vertical axis.
fn axes(plane: &Plane, canvas: &Canvas) -> Markup {
    let (left, bottom) = (plane.left, plane.bottom);
    let (unit, name) = unit_of_bytes(plane.most);
    let heights = ticks(plane.most, 1.0 / unit, name, canvas.heights);
    let (scale, name) = unit_of_seconds(plane.last);
    let moments = ticks(plane.last, scale, name, canvas.moments);
    html! {
        @for (bytes, label) in &heights {
            @let y = plane.y(*bytes);
            line.grid x1=(left) y1=(y) x2=(plane.right) y2=(y) stroke-width="2" {}
            line.axis x1=(left - TICK) y1=(y) x2=(left) y2=(y) stroke-width="2" {}
            (text(label, (left - 2 * TICK, y), "end", canvas))
        }
        @for (time, label) in &moments {
            @let x = plane.x(*time);
            @let middle = x.min(canvas.width - canvas.length(label) / 2);
            line.axis x1=(x) y1=(bottom) x2=(x) y2=(bottom + TICK) stroke-width="2" {}
            (text(label, (middle, bottom + TICK + canvas.font * 4 / 5), "middle", canvas))
        }
        polyline.axis points={ (left) "," (plane.top) " " (left) "," (bottom) " " (plane.right) "," (bottom) }
            fill="none" stroke-width="2" {}
    }
}

fn text(text: &str, (x, y): (i32, i32), anchor: &str, canvas: &Canvas) -> Markup {
    html! { text.ink x=(x) y=(y) dy="0.35em" text-anchor=(anchor) font-size=(canvas.font) { (text) } }
}

/// The area of a band that reaches down to 0, and has a height at each sample.
fn area(plane: &Plane, stacks: &[Stack], height: &dyn Fn(usize) -> f64) -> String {
    let times = stacks.iter().enumerate();
    let edge = times.map(|(sample, stack)| (stack.time, height(sample)));
    let ends = stacks.last().into_iter().chain(stacks.first());
    plane.points(edge.chain(ends.map(|stack| (stack.time, 0.0))))
}

/// The accounts' bands, as high as what is `in_memory`. Each reaches down to 0, and the ones below it are drawn over it. Of `mapped`
/// the reserved bytes are known, so that its band is the most that they may be.
fn bands(
    plane: &Plane,
    stacks: &[Stack],
    in_memory: &[f64],
    names: &[String],
    canvas: &str,
) -> Markup {
    let all = area(plane, stacks, &|sample| in_memory[sample]);
    html! {
        clipPath id={ "resident-" (canvas) } { polygon points=(all) {} }
        g clip-path={ "url(#resident-" (canvas) ")" } {
            polygon class="band other" points=(all) {}
            @for (index, name) in names.iter().enumerate().rev() {
                polygon class={ "band " (account_class(name)) } points=(area(plane, stacks, &|sample| stacks[sample].edges[index])) {}
            }
        }
    }
}

fn resident(samples: &[&Sample]) -> impl Iterator<Item = Point> {
    let known = |sample: &&Sample| Some((sample.time, sample.resident? as f64));
    samples.iter().filter_map(known)
}

fn line(plane: &Plane, class: &str, width: u32, points: impl Iterator<Item = Point>) -> Markup {
    html! { polyline class=(class) points=(plane.points(points)) fill="none" stroke-width=(width) {} }
}

/// A vertical line for each mark and each refusal; a label above it if there is room.
fn events(plane: &Plane, timeline: &Timeline, canvas: &Canvas) -> Markup {
    let shown = |event: &&Event| event.kind != Kind::End;
    let lane = canvas.lane();
    // Where the last label of each lane ends; the lowest first.
    let mut ends = [i32::MIN; LANES];
    let (mut lines, mut labels) = (Vec::new(), Vec::new());
    for event in timeline.events.iter().filter(shown).take(MOST_EVENTS) {
        let x = plane.x(event.time);
        let (class, label) = match event.kind {
            Kind::Refusal => ("refusal", "refused".to_owned()),
            _ => ("mark", short(&event.text, canvas.label)),
        };
        let length = canvas.length(&label);
        let from = (x + 7).min(plane.right - length).max(plane.left);
        let free = ends.iter().position(|&end| from > end.saturating_add(14));
        let mut top = plane.top;
        if let Some(index) = free {
            ends[index] = from + length;
            let base = plane.top - lane * index as i32;
            top = base - 6;
            labels.push(text(&label, (from, base - lane / 2 - 4), "start", canvas));
        }
        lines.push(html! {
            line class=(class) x1=(x) y1=(top) x2=(x) y2=(plane.bottom) stroke-width="2" {}
        });
    }
    // The labels last, over the lines of others.
    html! { @for part in lines.iter().chain(&labels) { (part) } }
}

fn unit_of_bytes(most: f64) -> (f64, &'static str) {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let scales = units.iter().scan(1.0, |scale, unit| {
        *scale *= 1024.0;
        Some((*scale, *unit))
    });
    let mut fitting = scales.filter(|(scale, unit)| most < scale * 1024.0 * 2.0 || *unit == "PiB");
    fitting.next().unwrap_or((1.0, "B"))
}

/// The number of units in a second, and the unit's name.
fn unit_of_seconds(last: f64) -> (f64, &'static str) {
    match last {
        ..2.0 => (1000.0, "ms"),
        ..300.0 => (1.0, "s"),
        ..18000.0 => (1.0 / 60.0, "min"),
        _ => (1.0 / 3600.0, "h"),
    }
}

/// The picture described in sentences.
pub fn sentence(timeline: &Timeline) -> String {
    let samples = || timeline.samples.iter();
    let most = |figure: &dyn Fn(&Sample) -> i64| samples().map(figure).max().unwrap_or(0);
    let residents = samples().filter_map(|sample| sample.resident);
    let top = |sample: &Sample| {
        let edges = stack(sample, &timeline.accounts).edges;
        edges.last().map_or(0, |top| *top as i64)
    };
    let (total, top) = (most(&|sample| sample.total), most(&top));
    let (_, last) = timeline.span();
    let (accounts, time) = (timeline.accounts.join(", "), super::text::seconds(last));
    let mut text =
        format!("Live bytes of {accounts} over {time}, stacked by account: the total at most ");
    text += &bytes(total);
    if top > total {
        text += &format!(", and {} with mapped, which is not in it", bytes(top));
    }
    if let Some(resident) = residents.max() {
        text += &format!("; resident at most {}", bytes(resident));
        text += ". The bands are filled as far as they can be resident; above them are stacks and free blocks, then files and shared memory";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A timeline of 2 seconds, with so many bytes of `mapped`.
    fn timeline(mapped: i64) -> Timeline {
        let mut lines = vec![
            json!({"timeline": "pyhost-timeline/1", "accounts": ["raw", "obj", "arena", "mapped"]}),
            json!({"t": 0, "caps": {"total": 64 << 20}}),
            json!({"t": 0.5, "caps": {"obj": 32 << 20, "raw": 1_i64 << 40}}),
            json!({"t": 0.7, "mark": "</svg><script>fill=\"#C00005\""}),
        ];
        lines.extend((0..20).map(|index| {
            json!({
                "t": f64::from(index) / 10.0, "resident": 90 << 20, "files": 8 << 20, "total": (10 + index) << 20,
                "raw": 1 << 20, "obj": (9 + index) << 20, "arena": 4 << 20, "mapped": mapped,
            })
        }));
        let lines = lines.iter().map(|line| format!("{line}\n"));
        Timeline::of_text(&lines.collect::<String>()).unwrap()
    }

    #[test]
    fn every_role_has_a_class_and_no_colour_is_left() {
        for canvas in [&WIDE, &NARROW] {
            let picture = draw(&timeline(0), canvas, "a \"label\"");
            let svg = &picture.svg.0;
            let classes = "band raw|band obj|band arena|band other|band file|resident|cap total|cap obj|mark|ink|grid|axis";
            for class in classes.split('|') {
                assert!(svg.contains(&format!("class=\"{class}\"")), "{class}");
            }
            assert!(!svg.contains("\"#"), "{svg}");
            assert!(!svg.contains("<script"), "{svg}");
            assert!(svg.contains("a &quot;label&quot;"));
            assert_eq!(svg.matches("<svg").count(), 1);
            assert_eq!(svg.matches("</svg>").count(), 1);
            assert_eq!(picture.out_of_sight, ["raw"]);
            assert_eq!(picture.caps, ["total", "obj"]);
        }
    }

    #[test]
    fn what_is_live_and_not_resident_is_an_outline_or_a_sentence() {
        let drawn = |mapped: i64| {
            let timeline = timeline(mapped);
            let picture = draw(&timeline, &WIDE, "");
            (picture.outline, picture.svg.0, sentence(&timeline))
        };
        let (outline, svg, _) = drawn(0);
        assert!(outline == Outline::None && !svg.contains("\"outline\""));
        // 29 MiB of the total beside it; 90 MiB are resident.
        let (outline, svg, text) = drawn(100 << 20);
        assert!(outline == Outline::Drawn && svg.contains("class=\"outline\""));
        assert!(svg.contains("class=\"band mapped\""));
        assert!(svg.contains(">100 MiB<"), "{svg}");
        assert!(text.contains("total at most 29.0"), "{text}");
        let (outline, svg, text) = drawn(1 << 30);
        assert_eq!(outline, Outline::TooHigh((1 << 30) + (29 << 20)));
        assert!(!svg.contains("\"outline\"") && !svg.contains("GiB"));
        assert!(svg.contains("80 MiB"), "{svg}");
        assert!(text.contains("and 1.0\u{a0}GiB with mapped"), "{text}");
    }

    #[test]
    fn ticks_are_round_numbers_and_few() {
        for (end, most, expected) in [
            (104.0, 6, "0 20 40 60 80 100"),
            (1.0, 9, "0.0 0.2 0.4 0.6 0.8 1.0"),
            (0.9, 9, "0.0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9"),
            (2.0, 9, "0.0 0.5 1.0 1.5 2.0"),
            (299.0, 9, "0 50 100 150 200 250"),
            (58.0, 6, "0 10 20 30 40 50"),
        ] {
            let ticks = ticks(end, 1.0, "", most);
            let labels: Vec<&str> = ticks.iter().map(|tick| tick.1.trim_end()).collect();
            assert_eq!(labels.join(" "), expected);
        }
    }
}
