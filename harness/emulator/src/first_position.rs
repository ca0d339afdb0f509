//! Position 0 apart from the others: which values of a tensor are its, and what stands in their place.

use std::{collections::BTreeMap, ops::Range};

use candle_core::{Result, Tensor};
use fidelity_references::{Chunk, Decoder, Instrument, Part, Wiring};
use fidelity_trace::{BlockSite, FirstPosition, Site};

use crate::{
    basis::in_residual_stream,
    values::{shaped, with_values},
};

/// Bits of position 0 where it has grids of its own.
pub(crate) const OWN_BITS: u32 = 16;

/// Whether position 0 is treated apart at a site.
pub(crate) const fn is_apart(way: FirstPosition, site: Site) -> bool {
    match way {
        FirstPosition::Residual16 => in_residual_stream(site),
        FirstPosition::Every16 | FirstPosition::Prefix => true,
    }
}

/// Values of position 0 inside a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) values: Range<usize>,
    /// The token fed there.
    pub(crate) token: u32,
}

/// Which rows are fed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fed {
    /// By chunk: how many rows, and the token at position 0 if it is among them.
    chunks: Vec<(usize, Option<u32>)>,
}

impl Fed {
    pub(crate) fn new(chunks: &[Chunk<'_>]) -> Self {
        let of = |chunk: &Chunk<'_>| {
            let begins = chunk.positions.first() == Some(&0);
            (chunk.positions.len(), chunk.token_ids.first().copied().filter(|_| begins))
        };
        Self { chunks: chunks.iter().map(of).collect() }
    }

    /// The tokens at position 0.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = u32> {
        self.chunks.iter().filter_map(|(_, token)| *token)
    }

    /// Where position 0 stands in a tensor of this shape, in ascending order. A row a prompt is of no position.
    pub(crate) fn spans(&self, site: Site, part: Part, shape: &[usize]) -> Vec<Span> {
        let values: usize = shape.iter().product();
        match (site, part) {
            (Site::Pooled, _) => Vec::new(),
            // `[query head, position, key]`
            (Site::Block(_, BlockSite::Scores | BlockSite::Pattern), Part::Chunk(index)) => {
                let [heads, rows, keys] = shape else { return Vec::new() };
                let token = self.chunks.get(index).and_then(|(_, token)| *token);
                let of_head = |(head, token)| {
                    let start = head * rows * keys;
                    Span { values: start..start + keys, token }
                };
                token.map_or_else(Vec::new, |token| (0..*heads).map(|head| of_head((head, token))).collect())
            }
            (_, Part::Chunk(index)) => {
                let Some((rows, Some(token))) = self.chunks.get(index).copied() else { return Vec::new() };
                vec![Span { values: 0..values / rows.max(1), token }]
            }
            (_, Part::All) => {
                let rows: usize = self.chunks.iter().map(|(rows, _)| rows).sum();
                let width = values / rows.max(1);
                let mut start = 0;
                let of_chunk = |(rows, token): &(usize, Option<u32>)| {
                    let at = start * width;
                    start += rows;
                    token.map(|token| Span { values: at..at + width, token })
                };
                self.chunks.iter().filter_map(of_chunk).collect()
            }
        }
    }
}

/// The values outside the spans, piece by piece.
pub(crate) fn others<'v>(values: &'v [f32], spans: &[Span]) -> Vec<&'v [f32]> {
    let starts = std::iter::once(0).chain(spans.iter().map(|span| span.values.end));
    let ends = spans.iter().map(|span| span.values.start).chain([values.len()]);
    starts.zip(ends).map(|(start, end)| &values[start..end]).filter(|piece| !piece.is_empty()).collect()
}

/// A tensor with other values in the spans.
pub(crate) fn with_spans(tensor: &Tensor, spans: &[Span], mut fill: impl FnMut(&Span, &mut [f32])) -> Result<Tensor> {
    let mut values = with_values(tensor, |values| Ok(values.to_vec()))?;
    spans.iter().for_each(|span| fill(span, &mut values[span.values.clone()]));
    shaped(values, tensor)
}

/// What a network computes of a sequence of one token: position 0 of every sequence that begins with it.
#[derive(Default)]
pub(crate) struct PrefixRows {
    rows: BTreeMap<u32, BTreeMap<Site, Vec<f32>>>,
}

impl PrefixRows {
    /// Computes the rows of tokens that are not known yet.
    pub(crate) fn of_tokens(&mut self, decoder: &Decoder, tokens: impl Iterator<Item = u32>) -> Result<()> {
        for token in tokens {
            if self.rows.contains_key(&token) {
                continue;
            }
            let mut seen = Seen::default();
            let visibility = decoder.architecture().visibility(1);
            let chunk = Chunk { token_ids: &[token], positions: &[0], visibility };
            decoder.forward(&chunk, None, &Wiring::default(), &mut seen)?;
            self.rows.insert(token, seen.0);
        }
        Ok(())
    }

    /// The row of a site; none of those that have other extents in a longer sequence.
    pub(crate) fn row(&self, token: u32, site: Site) -> Option<&[f32]> {
        if matches!(site, Site::Block(_, BlockSite::Scores | BlockSite::Pattern)) {
            return None;
        }
        self.rows.get(&token)?.get(&site).map(Vec::as_slice)
    }
}

#[derive(Default)]
struct Seen(BTreeMap<Site, Vec<f32>>);

impl Instrument for Seen {
    fn at(&mut self, site: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        self.0.insert(site, with_values(&tensor, |values| Ok(values.to_vec()))?);
        Ok(tensor)
    }
}

#[cfg(test)]
mod tests {
    use fidelity_references::Visibility;

    use super::*;

    fn fed() -> Fed {
        let chunk = |token_ids, positions| Chunk { token_ids, positions, visibility: Visibility::Causal };
        Fed::new(&[chunk(&[7, 8], &[0, 1]), chunk(&[5], &[4]), chunk(&[9, 3, 2], &[0, 1, 2])])
    }

    #[test]
    fn rows_of_position_0_are_found_in_every_layout() {
        let found = |site, part, shape: &[usize]| {
            fed().spans(site, part, shape).into_iter().map(|span| (span.values, span.token)).collect::<Vec<_>>()
        };
        assert_eq!(found(Site::Embed, Part::All, &[6, 4]), [(0..4, 7), (12..16, 9)]);
        assert_eq!(found(Site::Block(0, BlockSite::Q), Part::All, &[6, 2, 2]), [(0..4, 7), (12..16, 9)]);
        let scores = Site::Block(1, BlockSite::Scores);
        assert_eq!(found(scores, Part::Chunk(2), &[2, 3, 3]), [(0..3, 9), (9..12, 9)]);
        assert_eq!(found(scores, Part::Chunk(1), &[2, 1, 5]), []);
        assert_eq!(found(Site::Logits, Part::Chunk(2), &[3, 10]), [(0..10, 9)]);
        assert_eq!(found(Site::Pooled, Part::Chunk(0), &[1, 4]), []);
    }

    #[test]
    fn what_is_not_position_0_is_left() {
        let values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        let span = |values| Span { values, token: 0 };
        assert_eq!(others(&values, &[span(0..2), span(4..5)]), [&values[2..4], &values[5..]]);
        assert_eq!(others(&values, &[]), [&values[..]]);
    }
}
