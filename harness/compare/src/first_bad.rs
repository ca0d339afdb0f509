//! The first site that goes wrong.

use std::collections::BTreeMap;

use fidelity_trace::Site;
use fidelity_verdict::{FirstBadSite, SiteResult, Thresholds};

/// The first site in data-flow order that is bad. `noise_floor` is the reference's, relative L2 by site.
pub(crate) fn first_bad_site(
    sites: &BTreeMap<Site, SiteResult>,
    noise_floor: &BTreeMap<String, f64>,
    thresholds: &Thresholds,
) -> Option<FirstBadSite> {
    let mut after = None;
    for (site, result) in sites.iter().filter(|(_, result)| result.rows > 0) {
        let floor = noise_floor.get(&site.to_string()).copied();
        if is_bad(result, floor, thresholds) {
            let median_relative_l2 = median(result).filter(|_| 2 * result.non_finite_rows <= result.rows);
            return Some(FirstBadSite { site: *site, median_relative_l2, noise_floor: floor, after });
        }
        after = Some(*site);
    }
    None
}

/// Any row that is not finite, or a median row relative L2 above the threshold and well above the reference's own noise.
fn is_bad(result: &SiteResult, floor: Option<f64>, thresholds: &Thresholds) -> bool {
    let noise = thresholds.bad_site_noise_factor * floor.unwrap_or(0.0);
    let limit = thresholds.bad_site_relative_l2.max(noise);
    result.non_finite_rows > 0 || median(result).is_some_and(|median| median > limit)
}

fn median(result: &SiteResult) -> Option<f64> {
    result.relative_l2.map(|summary| summary.p50)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidelity_trace::BlockSite;
    use fidelity_verdict::Summary;

    fn site(median: f64, rows: usize, non_finite_rows: usize) -> SiteResult {
        let summary = Summary {
            mean: median,
            interval: None,
            min: median,
            max: median,
            p05: median,
            p50: median,
            p95: median,
            n: rows - non_finite_rows,
        };
        SiteResult {
            rows,
            non_finite_rows,
            constant_rows: 0,
            exact_rows: 0,
            cosine: None,
            pearson: None,
            centred_cosine: None,
            relative_l2: (rows > non_finite_rows).then_some(summary),
            nmse: None,
            sqnr_db: None,
            max_abs: None,
            norm_ratio: None,
            logits: None,
        }
    }

    fn first(sites: [SiteResult; 3], floor: f64) -> Option<FirstBadSite> {
        let names = [Site::Embed, Site::Block(0, BlockSite::ResidPost), Site::Logits];
        let noise_floor = BTreeMap::from([("blocks.0.resid_post".to_owned(), floor)]);
        first_bad_site(&names.into_iter().zip(sites).collect(), &noise_floor, &Thresholds::compiled_in())
    }

    #[test]
    fn the_first_in_data_flow_order_is_named_with_the_one_before() {
        let bad = first([site(0.01, 4, 0), site(0.2, 4, 0), site(0.9, 4, 0)], 1e-6).expect("bad");
        assert_eq!((bad.site, bad.after), (Site::Block(0, BlockSite::ResidPost), Some(Site::Embed)));
        assert_eq!((bad.median_relative_l2, bad.noise_floor), (Some(0.2), Some(1e-6)));
    }

    #[test]
    fn error_inside_the_references_noise_is_not_bad() {
        let bad = first([site(0.01, 4, 0), site(0.2, 4, 0), site(0.9, 4, 0)], 0.02).expect("bad");
        assert_eq!((bad.site, bad.after), (Site::Logits, Some(Site::Block(0, BlockSite::ResidPost))));
        assert_eq!(first([site(0.01, 4, 0), site(0.1, 4, 0), site(0.05, 4, 0)], 0.0), None);
    }

    #[test]
    fn one_row_that_is_not_finite_is_bad_however_small_the_median() {
        let bad = first([site(0.0, 4, 1), site(0.2, 4, 0), site(0.9, 4, 0)], 0.0).expect("bad");
        assert_eq!((bad.site, bad.after, bad.median_relative_l2), (Site::Embed, None, Some(0.0)));
        let bad = first([site(0.0, 4, 3), site(0.2, 4, 0), site(0.9, 4, 0)], 0.0).expect("bad");
        assert_eq!(bad.median_relative_l2, None);
    }

    #[test]
    fn sites_without_rows_are_passed_over() {
        let bad = first([site(0.01, 4, 0), site(0.0, 0, 0), site(0.9, 4, 0)], 0.0).expect("bad");
        assert_eq!(bad.after, Some(Site::Embed));
    }
}
