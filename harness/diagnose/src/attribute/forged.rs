//! What `fidelity forge` would change of a checkpoint: the same function with other covariates, or the first blocks of it.

use fidelity_verdict::{Covariate, Covariates};

/// A change of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Zero padding to this hidden size.
    Widen(usize),
    /// Copies behind the rows of embedding and head, up to so many.
    Vocab(usize),
    /// Keys and values repeated, one head a query head.
    Mha,
    /// Heads so many times as wide.
    HeadDim(usize),
    /// A head of its own.
    Untie,
    /// The first so many blocks: another function.
    Depth(usize),
}

/// Sizes at which hypotheses say something.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    /// Of the hidden size, to widen to.
    pub(super) widths: Vec<usize>,
    /// Of the vocabulary, to pad to.
    pub(super) vocabularies: Vec<usize>,
    /// Of the number of blocks, to cut to.
    pub(super) depths: Vec<usize>,
}

impl Change {
    /// Whether what is computed stays the same.
    pub(super) const fn keeps_function(self) -> bool {
        !matches!(self, Self::Depth(_))
    }

    /// As `fidelity forge` is asked for it.
    pub(super) fn flags(self) -> String {
        match self {
            Self::Widen(hidden) => format!("--widen {hidden}"),
            Self::Vocab(rows) => format!("--vocab {rows}"),
            Self::Mha => "--heads mha".to_owned(),
            Self::HeadDim(factor) => format!("--head-dim {factor}x"),
            Self::Untie => "--untie".to_owned(),
            Self::Depth(blocks) => format!("--depth {blocks}"),
        }
    }

    /// A word for a folder's name.
    pub(super) fn word(self) -> String {
        match self {
            Self::Widen(hidden) => format!("h{hidden}"),
            Self::Vocab(rows) => format!("v{rows}"),
            Self::Mha => "mha".to_owned(),
            Self::HeadDim(factor) => format!("d{factor}x"),
            Self::Untie => "untied".to_owned(),
            Self::Depth(blocks) => format!("b{blocks}"),
        }
    }

    /// The covariates after it; `None` where the shape is not known well enough, or nothing would change. What is not known
    /// afterwards is left out.
    pub(super) fn apply(self, before: &Covariates) -> Option<Covariates> {
        let mut after = before.clone();
        let value = |covariate| before.get(&covariate).copied();
        let mut set = |covariate, value: f64| {
            after.insert(covariate, value);
        };
        match self {
            Self::Widen(hidden) => {
                set(Covariate::Hidden, hidden as f64);
                // Half of the channels are zero then: the median of the magnitudes is another.
                after.retain(|known, _| !matches!(known, Covariate::MassiveRatio | Covariate::ResidualKurtosis));
            }
            Self::Mha => {
                set(Covariate::KvHeads, value(Covariate::Heads)?);
                set(Covariate::NRep, 1.0);
            }
            Self::HeadDim(factor) => set(Covariate::HeadDim, value(Covariate::HeadDim)? * factor as f64),
            Self::Untie => set(Covariate::Tied, 0.0),
            Self::Vocab(rows) => set(Covariate::Vocabulary, rows as f64),
            Self::Depth(blocks) => {
                set(Covariate::Layers, blocks as f64);
                // What is largest may be in the blocks that are left out.
                after.retain(|known, _| !known.is_of_profile());
            }
        }
        // How a compiler splits the head is its own affair.
        if matches!(self, Self::Widen(_) | Self::Vocab(_)) {
            after.remove(&Covariate::LmHeadShards);
        }
        let grown = parameters(&after).zip(parameters(before)).map(|(after, before)| after - before);
        match value(Covariate::Parameters).zip(grown) {
            Some((parameters, grown)) => after.insert(Covariate::Parameters, parameters + grown),
            None => after.remove(&Covariate::Parameters),
        };
        (after != *before).then_some(after)
    }
}

/// Parameters of a decoder with gated MLPs and RMSNorms, without biases.
fn parameters(of: &Covariates) -> Option<f64> {
    let value = |covariate| of.get(&covariate).copied();
    let [hidden, layers, heads, kv_heads, head_dim, vocabulary, mlp, tied] = [
        Covariate::Hidden,
        Covariate::Layers,
        Covariate::Heads,
        Covariate::KvHeads,
        Covariate::HeadDim,
        Covariate::Vocabulary,
        Covariate::MlpWidth,
        Covariate::Tied,
    ]
    .map(value);
    let (hidden, head_dim) = (hidden?, head_dim?);
    let attention = 2.0 * hidden * head_dim * (heads? + kv_heads?);
    let block = attention + 3.0 * hidden * mlp? + 2.0 * hidden;
    Some(vocabulary? * hidden * (2.0 - tied?) + layers? * block + hidden)
}

/// Changes worth trying on a checkpoint, to the sizes that hypotheses ask for.
pub(super) fn changes(of: &Covariates, sizes: &Sizes) -> Vec<Vec<Change>> {
    let value = |covariate| of.get(&covariate).copied();
    let hidden = value(Covariate::Hidden).unwrap_or(f64::INFINITY);
    let mut single: Vec<Change> =
        sizes.widths.iter().filter(|width| **width as f64 > hidden).map(|width| Change::Widen(*width)).collect();
    let rows = value(Covariate::Vocabulary).unwrap_or(f64::INFINITY);
    single.extend(sizes.vocabularies.iter().filter(|to| **to as f64 > rows).map(|to| Change::Vocab(*to)));
    let blocks = value(Covariate::Layers).unwrap_or(0.0);
    single.extend(sizes.depths.iter().filter(|to| (**to as f64) < blocks).map(|to| Change::Depth(*to)));
    single.extend(value(Covariate::NRep).filter(|n_rep| *n_rep > 1.0).map(|_| Change::Mha));
    single.extend([2, 4].map(Change::HeadDim));
    single.extend(value(Covariate::Tied).filter(|tied| *tied > 0.5).map(|_| Change::Untie));
    let same = |a: &Change, b: &Change| std::mem::discriminant(a) == std::mem::discriminant(b);
    let pairs = single.iter().enumerate().flat_map(|(index, first)| {
        single[index + 1..].iter().filter(move |second| !same(first, second)).map(move |second| vec![*first, *second])
    });
    single.iter().map(|change| vec![*change]).chain(pairs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smollm2() -> Covariates {
        Covariates::from([
            (Covariate::Hidden, 576.0),
            (Covariate::Layers, 30.0),
            (Covariate::Heads, 9.0),
            (Covariate::KvHeads, 3.0),
            (Covariate::NRep, 3.0),
            (Covariate::HeadDim, 64.0),
            (Covariate::Vocabulary, 49152.0),
            (Covariate::MlpWidth, 1536.0),
            (Covariate::Tied, 1.0),
            (Covariate::Parameters, 134_515_008.0),
            (Covariate::MassiveRatio, 11_000.0),
        ])
    }

    #[test]
    fn parameters_are_counted_as_the_checkpoint_has_them() {
        assert_eq!(parameters(&smollm2()), Some(134_515_008.0));
    }

    #[test]
    fn a_change_changes_what_it_says_and_what_follows() {
        let after = Change::Widen(640).apply(&smollm2()).expect("known");
        assert_eq!(after.get(&Covariate::Hidden), Some(&640.0));
        assert_eq!(after.get(&Covariate::MassiveRatio), None);
        assert!(after[&Covariate::Parameters] > 134_515_008.0);
        let after = Change::Mha.apply(&smollm2()).expect("known");
        assert_eq!((after[&Covariate::KvHeads], after[&Covariate::NRep]), (9.0, 1.0));
        assert_eq!(after.get(&Covariate::MassiveRatio), Some(&11_000.0), "the residual stream is the same");
        assert_eq!(Change::Mha.apply(&Covariates::from([(Covariate::Hidden, 64.0)])), None, "heads are not known");
        assert_eq!(Change::Untie.apply(&Covariates::from([(Covariate::Tied, 0.0)])), None, "nothing would change");
        let after = Change::Vocab(65_536).apply(&smollm2()).expect("known");
        assert_eq!(after.get(&Covariate::Vocabulary), Some(&65_536.0));
        assert_eq!(after.get(&Covariate::Parameters), Some(&(134_515_008.0 + (65_536.0 - 49_152.0) * 576.0)));
        assert_eq!(after.get(&Covariate::MassiveRatio), Some(&11_000.0), "the residual stream is the same");
        let after = Change::Depth(12).apply(&smollm2()).expect("known");
        assert_eq!((after[&Covariate::Layers], after.get(&Covariate::MassiveRatio)), (12.0, None));
        assert!(after[&Covariate::Parameters] < 134_515_008.0);
    }

    #[test]
    fn changes_of_two_kinds_are_tried_together() {
        let sizes = Sizes { widths: vec![512, 640], vocabularies: vec![32_000, 65_536], depths: vec![12, 30] };
        let tried = changes(&smollm2(), &sizes);
        assert!(
            tried.contains(&vec![Change::Widen(640)]) && !tried.iter().flatten().any(|it| *it == Change::Widen(512))
        );
        assert!(tried.contains(&vec![Change::Widen(640), Change::Mha]));
        let sizes =
            |change: fn(&Change) -> bool| tried.iter().filter(|tried| tried.len() == 1 && change(&tried[0])).count();
        assert_eq!(sizes(|it| matches!(it, Change::Vocab(_))), 1, "rows are padded, not cut");
        assert_eq!(sizes(|it| matches!(it, Change::Depth(_))), 1, "blocks are cut, not added");
        assert!(tried.iter().all(|changes| changes.len() < 2 || changes[0] != changes[1]));
    }
}
