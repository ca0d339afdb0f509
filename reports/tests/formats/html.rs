//! The page.

use std::collections::BTreeMap;

use fidelity_reports::html;
use insta::assert_snapshot;

use crate::sample::{HOSTILE, LARGE, Size, all, broken, broken_of, empty, encoder, hostile, odd, sized};

const REPRODUCE: &str = "fidelity run --checkpoint demo --fault gqa_tile@2";

fn page(verdict: &fidelity_verdict::Verdict) -> String {
    html(verdict, REPRODUCE).expect("a page")
}

/// The page's text, a line an element, without style sheet and markup.
fn words(page: &str) -> String {
    let body = page.split_once("</style>").expect("a style sheet").1;
    let texts = body.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text.trim());
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn words_of_an_empty_run() {
    assert_snapshot!(words(&page(&empty())));
}

#[test]
fn the_verdict_comes_first_and_an_injected_fault_is_said_aloud() {
    let words = words(&page(&broken()));
    let first: Vec<&str> = words.lines().filter(|line| !line.starts_with("✗")).take(6).collect();
    assert_snapshot!(first.join("\n"));
}

#[test]
fn an_encoder_has_no_word_of_logits() {
    let page = words(&page(&encoder()));
    for word in ["logits", "Logits", "top-1", "KL", "perplexity", "choice", "NaN"] {
        assert!(!page.contains(word), "{word}: {page}");
    }
    for word in ["centred cosine", "final_norm", "pooled"] {
        assert!(page.contains(word), "{word}");
    }
}

#[test]
fn nothing_from_outside_gets_through_raw() {
    let page = html(&hostile(), HOSTILE).expect("a page");
    for raw in ["<script", "\"onload", "</svg></title>", "\u{1b}", "\u{202e}"] {
        assert!(!page.contains(raw), "{raw:?}");
    }
    assert_eq!(page.matches("</style>").count(), 1);
    assert_eq!(page.matches("</title></style>").count(), 0);
}

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    for (name, verdict) in all() {
        let page = page(&verdict);
        for foreign in ["<script", "<link", "<img", "@import", "src=", "url(http", "//fonts"] {
            assert!(!page.contains(foreign), "{name}: {foreign}");
        }
        let links = page.matches("http").count() - page.matches("http-equiv").count();
        assert_eq!(links, page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count(), "{name}");
    }
}

#[test]
fn every_colour_comes_from_the_style_sheet() {
    let page = page(&broken());
    let body = page.split_once("</style>").expect("a style sheet").1;
    assert!(!body.contains("=\"#0") && !body.contains("font-family"), "a stand-in colour is left");
}

#[test]
fn every_group_that_is_opened_is_closed() {
    for (name, verdict) in all() {
        let page = page(&verdict);
        for tag in
            ["svg", "g", "section", "table", "tr", "details", "figure", "div", "p", "dl", "text", "rect", "title"]
        {
            let opened = page.matches(&format!("<{tag} ")).count() + page.matches(&format!("<{tag}>")).count();
            let alone = page
                .split(&format!("<{tag} "))
                .skip(1)
                .filter(|part| part.split_once('>').is_some_and(|(tag, _)| tag.ends_with('/')))
                .count();
            assert_eq!(opened - alone, page.matches(&format!("</{tag}>")).count(), "{name}: {tag}");
        }
    }
}

#[test]
fn a_large_run_stays_below_two_megabytes() {
    let size = page(&broken_of(LARGE)).len();
    assert!(size < 2_000_000, "{size} bytes");
}

#[test]
fn odd_verdicts_make_a_page_too() {
    for verdict in odd() {
        assert!(page(&verdict).contains("</html>"));
    }
}

#[test]
fn many_positions_are_drawn_without_a_value_a_cell() {
    let page = page(&sized(Size { blocks: 30, prompts: 1, positions: 400 }));
    assert!(!page.contains("<rect x=") && page.contains("class=h"));
}

/// The colours of the light and of the dark theme, by name.
fn themes() -> [BTreeMap<String, [f64; 3]>; 2] {
    let css = include_str!("../../templates/report.css");
    let (light, rest) = css.split_once("@media (prefers-color-scheme: dark)").expect("two themes");
    let (dark, _) = rest.split_once("\n}").expect("an end");
    [light, dark].map(|theme| {
        let variables = theme.split("--").filter_map(|part| part.split_once(": #"));
        let channel = |hex: &str, at: usize| u8::from_str_radix(&hex[at..at + 2], 16).map_or(0.0, f64::from) / 255.0;
        variables.map(|(name, hex)| (name.to_owned(), [0, 2, 4].map(|at| channel(hex, at)))).collect()
    })
}

/// Contrast ratio of WCAG 2.2.
fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let luminance = |colour: [f64; 3]| {
        let linear = colour.map(|c| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn text_and_lines_have_the_contrast_of_wcag_aa() {
    let on_paper = ["ink", "muted", "link", "danger"].map(|ink| (ink, "paper", 4.5));
    let on_panel = ["ink", "muted", "link"].map(|ink| (ink, "panel", 4.5));
    let verdicts = ["faithful", "inconclusive", "degraded", "broken"].map(|on| ("on-verdict", on, 4.5));
    let lines = ["value", "spread", "local", "noise", "hatch"].map(|ink| (ink, "paper", 3.0));
    let others = [("mark-ink", "mark", 4.5), ("ink", "warning", 4.5)];
    let pairs: Vec<_> = on_paper.into_iter().chain(on_panel).chain(verdicts).chain(lines).chain(others).collect();
    for (theme, (ink, ground, least)) in themes().iter().flat_map(|theme| pairs.iter().map(move |pair| (theme, *pair)))
    {
        let ratio = contrast(theme[ink], theme[ground]);
        assert!(ratio >= least, "{ink} on {ground}: {ratio:.2}");
    }
}
