//! The picture of a timeline, drawn by plotters: accounts stacked, the resident size as a line, caps
//! dashed, marks and refusals as labelled vertical lines.
//!
//! Plotters writes colours; a page has themes. So each role is drawn in a colour that stands for it
//! ([`Ink`]), which then gives way to a class of the style sheet. Coordinates are whole numbers, so
//! that a canvas counts two units a pixel.

use super::bands::{CapLine, Stack, cap_lines, stack};
use super::text::{bytes, short};
use super::timeline::{Event, Kind, Timeline};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

type Failed = Box<dyn std::error::Error>;
type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// A role of the picture. The colour that stands for it is never seen.
#[derive(Clone, Copy)]
enum Ink {
    /// The band of an account.
    Band(usize),
    /// The cap of an account.
    BandCap(usize),
    Resident,
    TotalCap,
    Grid,
    Axis,
    Text,
    Mark,
    Refusal,
}

impl Ink {
    fn color(self) -> RGBColor {
        match self {
            Ink::Band(index) => RGBColor(0xA0, 0, index as u8),
            Ink::BandCap(index) => RGBColor(0xB0, 0, index as u8),
            Ink::Resident => RGBColor(0xC0, 0, 1),
            Ink::TotalCap => RGBColor(0xC0, 0, 2),
            Ink::Grid => RGBColor(0xC0, 0, 3),
            Ink::Axis => RGBColor(0xC0, 0, 4),
            Ink::Text => RGBColor(0xC0, 0, 5),
            Ink::Mark => RGBColor(0xC0, 0, 6),
            Ink::Refusal => RGBColor(0xC0, 0, 7),
        }
    }

    fn class(self, names: &[String]) -> String {
        match self {
            Ink::Band(index) => format!("band {}", account_class(&names[index])),
            Ink::BandCap(index) => format!("cap {}", account_class(&names[index])),
            Ink::Resident => "resident".to_owned(),
            Ink::TotalCap => "cap total".to_owned(),
            Ink::Grid => "grid".to_owned(),
            Ink::Axis => "axis".to_owned(),
            Ink::Text => "ink".to_owned(),
            Ink::Mark => "mark".to_owned(),
            Ink::Refusal => "refusal".to_owned(),
        }
    }
}

/// The class of the style sheet that colours an account; one that is not known there has one for
/// all such.
pub fn account_class(name: &str) -> &'static str {
    match name {
        "raw" => "raw",
        "mem" => "mem",
        "obj" => "obj",
        "arena" => "arena",
        "numpy" => "numpy",
        "native" => "native",
        "mapped" => "mapped",
        _ => "other",
    }
}

/// What a picture is drawn on, in units of which two make a pixel at its natural size.
pub struct Canvas {
    class: &'static str,
    width: u32,
    height: u32,
    /// Room for the labels of the vertical axis.
    left: u32,
    font: u32,
    /// Characters of an event's label.
    label: usize,
    /// Labels of the horizontal axis.
    ticks: usize,
    /// Stretches of time that are told apart.
    stretches: usize,
}

/// Parts of the time of which the page tells up to three samples each.
pub const STRETCHES: usize = 256;
/// For a window of a desk.
pub const WIDE: Canvas = Canvas {
    class: "wide",
    width: 1920,
    height: 800,
    left: 132,
    font: 25,
    label: 20,
    ticks: 9,
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
    ticks: 6,
    stretches: 120,
};

/// Lines of labels above the plane.
const LANES: usize = 3;
/// Events that are drawn; the table has more.
const MOST_EVENTS: usize = 200;
/// A cap above this many times the highest figure is told and not drawn.
const CAP_IN_SIGHT: f64 = 2.5;
const RIGHT: u32 = 28;

/// A picture, and what it leaves out.
pub struct Picture {
    /// The `svg` element.
    pub svg: String,
    /// Scopes whose caps are too high to be drawn.
    pub out_of_sight: Vec<String>,
    /// The caps that are drawn, by scope.
    pub caps: Vec<String>,
}

/// Draws a timeline; `label` is what a reader who does not see the picture is told of it.
///
/// # Errors
/// Plotters cannot draw it.
pub fn draw(timeline: &Timeline, canvas: &Canvas, label: &str) -> Result<Picture, String> {
    try_draw(timeline, canvas, label)
        .map_err(|error| format!("the timeline cannot be drawn ({error})"))
}

fn try_draw(timeline: &Timeline, canvas: &Canvas, label: &str) -> Result<Picture, Failed> {
    let names = &timeline.accounts;
    let samples = timeline.thinned(canvas.stretches);
    let stacks: Vec<Stack> = samples.iter().map(|sample| stack(sample, names)).collect();
    let data = samples
        .iter()
        .map(|sample| sample.total.max(sample.resident.unwrap_or(0)) as f64)
        .fold(1024.0, f64::max);
    let (drawn, hidden): (Vec<_>, Vec<_>) = cap_lines(timeline, &stacks)
        .into_iter()
        .partition(|line| line.highest <= data * CAP_IN_SIGHT);
    let most = drawn.iter().map(|line| line.highest).fold(data, f64::max);
    let (unit, unit_name) = unit_of_bytes(most);
    let (first, last) = timeline.span();
    let (tick, tick_name) = unit_of_seconds(last);

    let mut svg = String::new();
    let frame: String;
    {
        let root = SVGBackend::with_string(&mut svg, (canvas.width, canvas.height));
        let root = root.into_drawing_area();
        let lane = canvas.font * 5 / 4;
        let mut builder = ChartBuilder::on(&root);
        builder
            .margin_top(lane * LANES as u32 + 10)
            .margin_right(RIGHT)
            .y_label_area_size(canvas.left)
            .x_label_area_size(canvas.font * 2);
        let mut plane =
            builder.build_cartesian_2d(first * tick..last * tick, 0.0..most / unit * 1.04)?;
        draw_mesh(&mut plane, canvas, (unit_name, tick_name))?;
        for index in (0..names.len()).rev() {
            let edge = stacks
                .iter()
                .map(|stack| (stack.time * tick, stack.edges[index] / unit));
            plane.draw_series(AreaSeries::new(
                edge,
                0.0,
                Ink::Band(index).color().filled(),
            ))?;
        }
        let resident = samples.iter().filter_map(|sample| {
            let resident = sample.resident? as f64;
            Some((sample.time * tick, resident / unit))
        });
        plane.draw_series(LineSeries::new(
            resident,
            Ink::Resident.color().stroke_width(4),
        ))?;
        for line in &drawn {
            let ink = line.account.map_or(Ink::TotalCap, Ink::BandCap);
            for piece in &line.pieces {
                let points = piece.iter().map(|&(time, bytes)| {
                    // A foot that was thinned away may lift it a little.
                    (time * tick, (bytes / unit).min(most / unit * 1.04))
                });
                plane.draw_series(LineSeries::new(points, ink.color().stroke_width(3)))?;
            }
        }
        draw_events(&root, &plane, timeline, canvas, tick)?;
        let (x, y) = plane.plotting_area().get_pixel_range();
        frame = format!(
            "data-left=\"{}\" data-right=\"{}\" data-top=\"{}\" data-bottom=\"{}\" \
             data-first=\"{first}\" data-last=\"{last}\"",
            x.start, x.end, y.start, y.end
        );
        root.present()?;
    }
    let inner = svg.split_once('>').map_or("", |(_, inner)| inner);
    let svg = format!(
        "<svg class=\"plot {}\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\" {frame}>{}",
        canvas.class,
        escape(label),
        canvas.width,
        canvas.height,
        with_classes(inner, names)
    );
    let scopes = |lines: Vec<CapLine>| lines.into_iter().map(|line| line.scope).collect();
    Ok(Picture {
        svg,
        out_of_sight: scopes(hidden),
        caps: scopes(drawn),
    })
}

fn escape(text: &str) -> String {
    maud::html! { (text) }.into_string()
}

fn text_style<'a>(canvas: &Canvas, h_pos: HPos) -> TextStyle<'a> {
    let font = ("sans-serif", f64::from(canvas.font) * 1.24).into_font();
    let mut style = TextStyle::from(font);
    style.color = Ink::Text.color().to_backend_color();
    style.pos = Pos::new(h_pos, VPos::Center);
    style
}

fn draw_mesh(
    plane: &mut Plane<'_, '_>,
    canvas: &Canvas,
    (unit, tick): (&str, &str),
) -> Result<(), Failed> {
    let number = |value: f64| match (value * 10.0).round() / 10.0 {
        whole if (whole - value).abs() > 1e-6 => format!("{value:.2}"),
        tenths if (tenths - tenths.round()).abs() < 1e-6 => format!("{tenths:.0}"),
        tenths => format!("{tenths:.1}"),
    };
    let style = text_style(canvas, HPos::Center);
    plane
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(Ink::Grid.color().stroke_width(2))
        .light_line_style(TRANSPARENT)
        .axis_style(Ink::Axis.color().stroke_width(2))
        .set_all_tick_mark_size(8)
        .label_style(style)
        .x_labels(canvas.ticks)
        .y_labels(6)
        .x_label_formatter(&|value| format!("{} {tick}", number(*value)))
        .y_label_formatter(&|value| format!("{} {unit}", number(*value)))
        .draw()?;
    Ok(())
}

/// A vertical line for each mark and each refusal; a label above it where there is room.
fn draw_events<'b>(
    root: &DrawingArea<SVGBackend<'b>, Shift>,
    plane: &Plane<'_, 'b>,
    timeline: &Timeline,
    canvas: &Canvas,
    tick: f64,
) -> Result<(), Failed> {
    let shown = |event: &&Event| event.kind != Kind::End;
    let lane = (canvas.font * 5 / 4) as i32;
    let (_, y) = plane.plotting_area().get_pixel_range();
    // Where the last label of each lane ends; the lowest first.
    let mut ends = [i32::MIN; LANES];
    // Drawn last, over the lines of others.
    let mut labels = Vec::new();
    for event in timeline.events.iter().filter(shown).take(MOST_EVENTS) {
        let (x, _) = plane.backend_coord(&(event.time * tick, 0.0));
        let (ink, text) = match event.kind {
            Kind::Refusal => (Ink::Refusal, "refused".to_owned()),
            _ => (Ink::Mark, short(&event.text, canvas.label)),
        };
        // Wide letters are about as wide as the font is high.
        let wide = text.chars().filter(|letter| !letter.is_ascii()).count();
        let letters = text.chars().count() as f64 * 0.56 + wide as f64 * 0.5;
        let length = (letters * f64::from(canvas.font)) as i32;
        let from = (x + 7)
            .min((canvas.width - RIGHT) as i32 - length)
            .max(canvas.left as i32);
        let free = ends.iter().position(|&end| from > end + 14);
        let top = match free {
            Some(index) => y.start - lane * index as i32 - 6,
            None => y.start,
        };
        root.draw(&PathElement::new(
            [(x, top), (x, y.end)],
            ink.color().stroke_width(2),
        ))?;
        if let Some(index) = free {
            ends[index] = from + length;
            let style = text_style(canvas, HPos::Left);
            let place = (from, y.start - lane * index as i32 - lane / 2 - 4);
            labels.push(Text::new(text, place, style));
        }
    }
    for label in &labels {
        root.draw(label)?;
    }
    Ok(())
}

/// Replaces the colours that stand for roles by classes.
fn with_classes(svg: &str, names: &[String]) -> String {
    let mut svg = svg.replace(" opacity=\"1\"", "").replace(">\n", ">");
    svg = svg.replace(" font-family=\"sans-serif\"", "");
    let bands = (0..names.len()).flat_map(|index| [Ink::Band(index), Ink::BandCap(index)]);
    let others = [
        Ink::Resident,
        Ink::TotalCap,
        Ink::Grid,
        Ink::Axis,
        Ink::Text,
        Ink::Mark,
        Ink::Refusal,
    ];
    for ink in bands.chain(others) {
        let RGBColor(red, green, blue) = ink.color();
        let class = format!("class=\"{}\"", ink.class(names));
        for attribute in ["fill", "stroke"] {
            let color = format!("{attribute}=\"#{red:02X}{green:02X}{blue:02X}\"");
            svg = svg.replace(&color, &class);
        }
    }
    svg
}

fn unit_of_bytes(most: f64) -> (f64, &'static str) {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scale = 1024.0;
    for unit in units {
        if most < scale * 1024.0 * 2.0 || unit == "PiB" {
            return (scale, unit);
        }
        scale *= 1024.0;
    }
    (scale, "PiB")
}

/// How many of a unit make a second, and what it is called.
fn unit_of_seconds(last: f64) -> (f64, &'static str) {
    match last {
        ..2.0 => (1000.0, "ms"),
        ..300.0 => (1.0, "s"),
        ..18000.0 => (1.0 / 60.0, "min"),
        _ => (1.0 / 3600.0, "h"),
    }
}

/// What the picture shows, in a sentence.
pub fn sentence(timeline: &Timeline) -> String {
    let totals = timeline.samples.iter().map(|sample| sample.total);
    let residents = timeline.samples.iter().filter_map(|sample| sample.resident);
    let (_, last) = timeline.span();
    let mut text = format!(
        "Live bytes of {} over {}, stacked by account: at most {}",
        timeline.accounts.join(", "),
        super::text::seconds(last),
        bytes(totals.max().unwrap_or(0))
    );
    if let Some(resident) = residents.max() {
        text += &format!("; resident at most {}", bytes(resident));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::timeline::Sample;
    use super::*;

    fn timeline() -> Timeline {
        let names = ["raw", "obj", "arena"];
        let sample = |index: i64| Sample {
            time: index as f64 / 10.0,
            resident: Some(90 << 20),
            total: (10 + index) << 20,
            accounts: vec![1 << 20, (9 + index) << 20, 4 << 20],
        };
        Timeline {
            accounts: names.map(str::to_owned).to_vec(),
            samples: (0..20).map(sample).collect(),
            caps: vec![
                (0.0, vec![("total".to_owned(), 64 << 20)]),
                (
                    0.5,
                    vec![("obj".to_owned(), 32 << 20), ("raw".to_owned(), 1 << 40)],
                ),
            ],
            events: vec![Event {
                time: 0.7,
                kind: Kind::Mark,
                text: "</svg><script>fill=\"#C00005\"".to_owned(),
            }],
            ..Timeline::default()
        }
    }

    #[test]
    fn every_role_has_a_class_and_no_colour_is_left() {
        for canvas in [&WIDE, &NARROW] {
            let picture = draw(&timeline(), canvas, "a \"label\"").unwrap();
            let svg = &picture.svg;
            for class in [
                "band raw",
                "band obj",
                "band arena",
                "resident",
                "cap total",
                "cap obj",
                "mark",
                "ink",
                "grid",
                "axis",
            ] {
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
    fn a_timeline_of_nothing_is_drawn() {
        let mut timeline = timeline();
        timeline.samples.clear();
        timeline.events.clear();
        assert!(draw(&timeline, &WIDE, "").unwrap().svg.ends_with("</svg>"));
    }
}
