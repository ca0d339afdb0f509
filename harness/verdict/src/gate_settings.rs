//! What a gate asks: level, power, and how much worse than its baseline a run may be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Metric;

/// The default settings, commented.
pub const DEFAULT_GATE: &str = include_str!("gate.toml");

/// What a gate asks; each is explained in [`DEFAULT_GATE`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateSettings {
    /// Level of each one-sided test.
    pub alpha: f64,
    /// Power that detectable differences and numbers of prompts are given for.
    pub power: f64,
    /// By metric, how much worse than the baseline a run may be, in the metric's own unit.
    pub margins: BTreeMap<Metric, f64>,
}

impl GateSettings {
    /// The settings compiled in.
    ///
    /// # Panics
    /// Never: a test reads the compiled-in file.
    #[must_use]
    pub fn compiled_in() -> Self {
        toml::from_str(DEFAULT_GATE).expect("the compiled-in file is read by a test")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiled_in_file_reads_and_has_a_margin_for_every_metric() {
        let settings = GateSettings::compiled_in();
        assert!(settings.alpha > 0.0 && settings.alpha < 0.5 && settings.power > 0.5 && settings.power < 1.0);
        for metric in Metric::ALL {
            assert!(settings.margins.get(&metric).is_some_and(|margin| *margin > 0.0), "{metric:?}");
        }
    }
}
