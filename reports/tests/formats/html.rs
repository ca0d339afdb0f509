//! The page.

use std::collections::BTreeMap;

use fidelity_reports::{Circumstances, Machine, html, html_among};
use fidelity_trace::{ArmKind, OutsideRange, Scope, Site};
use fidelity_verdict::Agreement;
use insta::assert_snapshot;

use crate::{
    gate::{gate, undecided},
    sample::{HOSTILE, LARGE, Size, all, broken, broken_of, empty, encoder, faithful, hostile, not_finite, odd, sized},
};

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
fn a_token_says_its_distance_and_opens_to_what_each_arm_holds_probable() {
    let mut verdict = faithful();
    let row = &mut verdict.scopes.get_mut(&Scope::Prefill).expect("held").rows[3];
    (row.kl, row.top1) = (Some(0.25), Some(Agreement::Flip));
    (row.reference_top5, row.device_top5) = (vec![(7, 0.75), (9, 0.2)], vec![(9, 0.99999), (8, 1e-6), (6, 1e-7)]);
    verdict.token_text =
        [(103, "\n"), (7, " a"), (9, "<b>"), (8, ""), (6, " ")].map(|(id, text)| (id, text.to_owned())).into();
    let page = page(&verdict);
    let cell = page.split_once("class=\"k4\" popovertarget=").expect("a cell of its colour").1;
    let cell = cell.split_once("</table>").expect("a table").0;
    for said in [
        "data-kl=\"0.250\"",
        ">\\n<b>≠</b></button>",
        "“\\n” (id 103)",
        "at position 3",
        "another first choice",
        "<tr><td>“ a”<td>0.750<td>“&lt;b&gt;”<td>&gt;0.999</tr>",
        "<td>#8<td>1.00e-6</tr>",
        "<td>“␣”<td>1.00e-7</tr>",
    ] {
        assert!(cell.contains(said), "{said} in\n{cell}");
    }
}

#[test]
fn rows_that_are_not_finite_are_no_colour_and_old_verdicts_open_nothing() {
    let mut verdict = not_finite();
    assert!(page(&verdict).contains("class=\"nan\" popovertarget=t"));
    for row in verdict.scopes.values_mut().flat_map(|scope| &mut scope.rows) {
        (row.reference_top5, row.device_top5) = Default::default();
    }
    let page = page(&verdict);
    assert!(!page.contains("<button") && page.contains("class=\"nan\" title=\"KL not finite\""));
}

#[test]
fn what_is_unknown_of_the_environment_says_so() {
    let mut verdict = faithful();
    assert!(words(&page(&verdict)).contains("fidelity\nunknown\nmachine\nunknown"));
    assert!(!words(&page(&verdict)).contains("HailoRT"));
    verdict.arms.device.arm.kind = ArmKind::Hailo;
    verdict.arms.device.arm.detail.insert("hailort".into(), "5.2.0".into());
    let machine = Machine { fidelity: "1.2.3".into(), host: "linux, aarch64".into(), begun: "2026-01-01".into() };
    let among = Circumstances { machine: Some(&machine), ..Circumstances::default() };
    let words = words(&html_among(&verdict, &among).expect("a page"));
    for said in
        ["fidelity\n1.2.3", "linux, aarch64", "HailoRT\n5.2.0", "firmware\nunknown", &format!("{}\n", "5d".repeat(32))]
    {
        assert!(words.contains(said), "{said} in\n{words}");
    }
}

#[test]
fn a_gate_is_told_at_the_top_and_metric_by_metric() {
    let gate = gate(undecided());
    let among = Circumstances { gate: Some(&gate), ..Circumstances::default() };
    let page = html_among(&faithful(), &among).expect("a page");
    let banner = page.split_once("</header>").expect("a banner").0;
    assert!(banner.contains("? inconclusive. Exit code 3."), "{banner}");
    let row = "<th scope=\"row\">prefill</th><td>top-1</td><td class=\"n\">100%</td><td class=\"n\">75.0%</td>\
               <td class=\"n\">0.250</td><td class=\"n\">[0, 0.500]</td><td class=\"n\">0.02</td><td class=\"n\">0.900</td>\
               <td>needs 40</td>";
    assert!(page.contains(row), "{page}");
    assert!(!page.contains('\u{1b}') && !page.contains("a|b<img>"));
}

#[test]
fn quantised_sites_are_listed_with_what_was_clipped() {
    let mut verdict = faithful();
    let scope = verdict.scopes.get_mut(&Scope::Base).expect("held");
    let clipped = OutsideRange { values: 2000, outside: 3, widths: 1.25 };
    scope.outside_range.insert(Site::FinalNorm, clipped);
    let said = words(&page(&verdict));
    assert!(said.contains("final_norm\n30.5") && said.contains("3 of 2000 (0.150 %)\n1.25"), "{said}");
    verdict.arms.device.deviations.clear();
    assert!(!words(&page(&verdict)).contains("Quantisation"), "an arm that rounds nothing");
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
    let tokens = [("i0", "k0"), ("i1", "k1"), ("i2", "k2"), ("i3", "k3"), ("i4", "k4"), ("i5", "k5")];
    let tokens = tokens.map(|(ink, ground)| (ink, ground, 4.5));
    let others = [("mark-ink", "mark", 4.5), ("ink", "warning", 4.5), ("paper", "ink", 4.5)];
    let pairs: Vec<_> =
        on_paper.into_iter().chain(on_panel).chain(verdicts).chain(lines).chain(tokens).chain(others).collect();
    for (theme, (ink, ground, least)) in themes().iter().flat_map(|theme| pairs.iter().map(move |pair| (theme, *pair)))
    {
        let ratio = contrast(theme[ink], theme[ground]);
        assert!(ratio >= least, "{ink} on {ground}: {ratio:.2}");
    }
}
